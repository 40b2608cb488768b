"""The agent's part of a Hypervisor's status: gathered, composed and written."""
