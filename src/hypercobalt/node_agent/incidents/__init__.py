"""The HA agent: what happens to the host's instances, and the Evictions that recover them."""
