"""libvirt: one connection to one daemon, its inventory, its events and its migration jobs."""
