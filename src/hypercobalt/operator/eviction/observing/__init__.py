"""Reads of `observe` besides the compute service, and the servers that it reads one by one."""
