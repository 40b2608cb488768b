"""Agents of hosts, as the operator sees them: their Leases, their pods, whether they report."""
