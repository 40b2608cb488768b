"""Reports each watched systemd unit in a condition that has the unit's name.

Source: kvm-node-agent, whose three reasons and message are kept; org.freedesktop.systemd1(5) for
the states that it has no reason for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

from hypercobalt.adapters.host.model import UnitState, check_unit_name
from hypercobalt.adapters.host.port import Units
from hypercobalt.agent.board import ConditionReport
from hypercobalt.agent.text import condition_type
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor_conditions import ServiceReason
from hypercobalt.node_agent.status.parts import Board

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE

_BY_ACTIVE: Final[Mapping[str, tuple[ConditionStatus, ServiceReason]]] = {
    "active": (_TRUE, ServiceReason.RUNNING),
    "reloading": (_TRUE, ServiceReason.RELOADING),  # it serves meanwhile
    "refreshing": (_TRUE, ServiceReason.REFRESHING),
    "failed": (_FALSE, ServiceReason.FAILED),
    # Also the pause before systemd starts a crashed service again.
    "activating": (_FALSE, ServiceReason.ACTIVATING),
    "deactivating": (_FALSE, ServiceReason.DEACTIVATING),
    "maintenance": (_FALSE, ServiceReason.MAINTENANCE),
}
_INACTIVE_BY_LOAD: Final[Mapping[str, ServiceReason]] = {
    "not-found": ServiceReason.NOT_FOUND,
    "masked": ServiceReason.MASKED,
    "bad-setting": ServiceReason.NOT_LOADABLE,
    "error": ServiceReason.NOT_LOADABLE,
}


def decide(state: UnitState) -> ConditionReport:
    """Judge a unit; every state has a status and a reason, also one that systemd has yet to get."""
    message = f"{state.name}: {state.active}, {state.load}"
    if state.active == "inactive":
        reason = _INACTIVE_BY_LOAD.get(state.load, ServiceReason.STOPPED)
        return ConditionReport(_FALSE, reason, message)
    unknown = (ConditionStatus.UNKNOWN, ServiceReason.UNKNOWN)
    return ConditionReport(*_BY_ACTIVE.get(state.active, unknown), message)


class UnitConditions:
    """Puts one condition for each unit on the board, for as long as it runs.

    Args:
        names: of units: `libvirtd.service`.

    Raises:
        UnitNameError: one of the names cannot be a unit's.
    """

    def __init__(self, units: Units, board: Board, names: Sequence[str]) -> None:
        self._units, self._board, self._names = units, board, tuple(names)
        for name in self._names:
            check_unit_name(name)

    async def run(self) -> None:
        """Follow the units until cancelled."""
        if not self._names:
            return
        async with aclosing(self._units.watch(self._names)) as news:
            async for found in news:
                if isinstance(found, tuple):
                    for state in found:
                        self._put(state.name, decide(state))
                else:
                    for name in self._names:
                        unreachable = ServiceReason.SYSTEMD_UNREACHABLE
                        away = ConditionReport(ConditionStatus.UNKNOWN, unreachable, str(found))
                        self._put(name, away)

    def _put(self, name: str, verdict: ConditionReport) -> None:
        self._board.put_condition(
            condition_type(name), verdict.status, verdict.reason, verdict.message
        )
