"""Sources of what is known about a host: reports, peers, power, and the fleet around it."""
