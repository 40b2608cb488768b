"""What `observe` reads besides the compute service, and which servers it reads one by one."""
