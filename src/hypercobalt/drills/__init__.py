"""Drills: real failures on real hosts, and what has to become of the instances."""
