"""Runs launcher pods on a host, in the place of a kubelet, which the lab does not run."""
