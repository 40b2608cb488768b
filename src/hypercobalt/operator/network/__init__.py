"""The hosts' switches, as their OVS agents report them: silence, and what a host's health is."""
