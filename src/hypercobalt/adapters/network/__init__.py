"""The kernel's network: namespaces, veth pairs, bridges, taps, addresses, routes and nftables.

What is wanted is declared, what is there is read, and only what is missing is made: so each call
may be repeated, and goes on where a killed one has stopped.
"""
