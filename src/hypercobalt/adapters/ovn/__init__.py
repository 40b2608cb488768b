"""OVN: its northbound database, as far as moves of virtual machines change it."""
