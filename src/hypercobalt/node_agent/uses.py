"""What people may use of this agent, with the rights that each needs."""

from __future__ import annotations

from collections.abc import Sequence

from hypercobalt.agent.diagnostics.use import Use
from hypercobalt.node_agent.logs import Logs


def uses(logs: Logs) -> Sequence[Use]:
    """Everything that there is."""
    return (logs.use(),)
