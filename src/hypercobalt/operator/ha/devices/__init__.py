"""The fence devices of hosts: which one is whose, what it answers, and calls to it."""
