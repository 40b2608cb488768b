"""Changes of a host's status and Events that follow from a plan."""
