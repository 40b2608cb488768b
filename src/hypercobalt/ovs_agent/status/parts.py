"""What the agent has on its board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from hypercobalt.agent import board
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.ovsnode import OVSNodeConditionType, OVSNodeStatus
from hypercobalt.ovs_agent.rules.conditions import Stated


@dataclass(frozen=True, slots=True)
class Parts(board.Parts):
    """Everything on the board.

    Args:
        status: without conditions; None until the switch was judged.
        diagnostics: where people are served; None while they are not.
    """

    status: OVSNodeStatus | None = None
    diagnostics: DiagnosticsEndpoint | None = None


Board = board.Board[Parts]


def with_status(
    parts: Parts,
    status: OVSNodeStatus,
    stated: Mapping[OVSNodeConditionType, Stated],
    now: datetime,
) -> Parts:
    """The board with all of a judgement, in one change and so in one write."""
    verdicts: dict[str, ConditionReport | None] = {
        type_: _verdict(parts, type_, one, now) for type_, one in stated.items()
    }
    return replace(parts, status=status, conditions={**parts.conditions, **verdicts})


def _verdict(parts: Parts, type_: str, stated: Stated, now: datetime) -> ConditionReport:
    old = parts.conditions.get(type_)
    since = old.since if old and old.status == stated.status else now
    return ConditionReport(stated.status, stated.reason, stated.message, since)
