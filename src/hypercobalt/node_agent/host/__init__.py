"""What the agent does with the host's operating system: units, updates, shutdown, certificates."""
