"""Reports whether the host starts guests by itself at boot: `AutostartOff`.

libvirt-guests stops or suspends every guest at a shutdown, and where it is configured so starts
them at the next boot. By then they may have been evacuated, and nothing checks that.

Source: libvirt-guests(8).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.port import HostError, Units
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor_conditions import AutostartReason, HypervisorConditionType
from hypercobalt.node_agent.status.parts import Board

GUESTS: Final = "libvirt-guests.service"
EVERY: Final = timedelta(minutes=5)
"""How often it is looked: a unit that is enabled changes no state that systemd would report."""


def decide(enablement: str) -> ConditionReport:
    """Judge what systemd reports of the unit; "" for a unit that has no file."""
    if enablement.startswith("enabled"):
        text = (
            f"{GUESTS} is enabled: it starts guests at boot that may have been evacuated; "
            f"run `systemctl disable {GUESTS}`, without --now, which would stop the guests"
        )
        return ConditionReport(ConditionStatus.FALSE, AutostartReason.LIBVIRT_GUESTS, text)
    text = f"{GUESTS} is {enablement or 'not installed'}"
    return ConditionReport(ConditionStatus.TRUE, AutostartReason.NOT_ENABLED, text)


class Autostart:
    """Puts the condition on the board, for as long as it runs."""

    def __init__(self, units: Units, board: Board, *, every: timedelta = EVERY) -> None:
        self._units, self._board, self._every = units, board, every

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                verdict = decide(await self._units.enablement(GUESTS))
            except HostError as error:
                unreachable = AutostartReason.SYSTEMD_UNREACHABLE
                verdict = ConditionReport(ConditionStatus.UNKNOWN, unreachable, str(error))
            self._board.put_condition(
                HypervisorConditionType.AUTOSTART_OFF,
                verdict.status,
                verdict.reason,
                verdict.message,
            )
            await asyncio.sleep(self._every.total_seconds())
