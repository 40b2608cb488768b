"""The network between the hosts: a bridge, and a cable for each that can be bad."""
