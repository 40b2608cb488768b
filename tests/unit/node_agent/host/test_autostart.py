"""Whether a host starts guests by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitState
from hypercobalt.node_agent.host.autostart import GUESTS, Autostart, decide
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first


@pytest.mark.parametrize(
    ("enablement", "status"),
    [
        ("enabled", "False"),
        ("enabled-runtime", "False"),
        ("disabled", "True"),
        ("masked", "True"),
        ("static", "True"),
        ("", "True"),
    ],
)
def test_a_unit_that_is_enabled_starts_guests(enablement: str, status: str) -> None:
    assert decide(enablement).status == status


async def test_the_condition_follows_the_unit_and_systemd() -> None:
    units, board = FakeUnits(UnitState(GUESTS, "loaded", "inactive", "dead")), Board(FakeClock())
    autostart = Autostart(units, board, every=timedelta(milliseconds=1))

    async def shows(reason: str) -> None:
        def shown() -> bool:
            found = board.parts.conditions.values()
            return any(one is not None and one.reason == reason for one in found)

        await first(autostart.run(), eventually(shown, seconds=1.5))

    await shows("NotEnabled")
    units.enabled.add(GUESTS)
    await shows("LibvirtGuestsEnabled")
    units.leave()
    await shows("SystemdUnreachable")
    units.enabled.clear()
    units.come_back()
    await shows("NotEnabled")
