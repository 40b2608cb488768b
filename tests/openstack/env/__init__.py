"""A real OpenStack on one machine, for tests: services here, computes on the hosts of a lab."""
