"""Packets of a network device, by tcpdump."""
