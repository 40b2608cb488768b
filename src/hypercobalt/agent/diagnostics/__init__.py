"""What people may look at on a host, through its agents: who may, over what, and that it is seen.

Decision: docs/decisions/0033-access-to-agents.md.
"""
