"""Access of people to a host through its agents: rights, transport, and an Event of each use.

Decision: docs/decisions/0033-access-to-agents.md.
"""
