"""Ends the host's instances, by order or when cut off; reports which other hosts answer."""
