"""The condition of a systemd unit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitNameError, UnitState
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.conditions import set_condition
from hypercobalt.node_agent.host.units import UnitConditions, decide
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import FakeClock

LIBVIRTD = "libvirtd.service"


@pytest.mark.parametrize(
    ("active", "load", "status", "reason"),
    [
        ("active", "loaded", "True", "Running"),
        ("active", "masked", "True", "Running"),  # masked while it runs
        ("active", "not-found", "True", "Running"),  # its unit file was removed
        ("reloading", "loaded", "True", "Reloading"),
        ("refreshing", "loaded", "True", "Refreshing"),
        ("inactive", "loaded", "False", "Stopped"),
        ("inactive", "not-found", "False", "NotFound"),
        ("inactive", "masked", "False", "Masked"),
        ("inactive", "bad-setting", "False", "NotLoadable"),
        ("inactive", "error", "False", "NotLoadable"),
        ("inactive", "merged", "False", "Stopped"),
        ("inactive", "stub", "False", "Stopped"),
        ("failed", "loaded", "False", "Failed"),
        ("failed", "not-found", "False", "Failed"),
        ("activating", "loaded", "False", "Activating"),
        ("deactivating", "loaded", "False", "Deactivating"),
        ("maintenance", "loaded", "False", "Maintenance"),
        ("hibernating", "loaded", "Unknown", "Unknown"),
        ("", "", "Unknown", "Unknown"),
    ],
)
def test_every_state_has_a_condition(active: str, load: str, status: str, reason: str) -> None:
    verdict = decide(UnitState(LIBVIRTD, load=load, active=active))

    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.message == f"libvirtd.service: {active}, {load}"
    # The API server takes it.
    set_condition((), LIBVIRTD, status, verdict.reason, verdict.message, now=FakeClock().now())


class Watching:
    """Unit conditions of libvirtd and another unit, on a board."""

    def __init__(self) -> None:
        self.units = FakeUnits(UnitState(LIBVIRTD, load="loaded", active="active"))
        self.board = Board(FakeClock())
        self.concern = UnitConditions(self.units, self.board, (LIBVIRTD, "other.service"))

    def verdict(self, unit: str) -> ConditionReport:
        verdict = self.board.parts.conditions[unit]
        assert verdict is not None
        return verdict

    async def until(self, unit: str, reason: str) -> None:
        async with asyncio.timeout(2):
            while True:
                parts = self.board.parts
                if unit in parts.conditions and self.verdict(unit).reason == reason:
                    return
                await self.board.changed(parts)


@pytest.fixture
async def watching() -> AsyncIterator[Watching]:
    made = Watching()
    task = asyncio.create_task(made.concern.run())
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_conditions_follow_the_units(watching: Watching) -> None:
    await watching.until("other.service", "NotFound")
    assert watching.verdict(LIBVIRTD).message == "libvirtd.service: active, loaded"

    watching.units.set(LIBVIRTD, "failed")

    await watching.until(LIBVIRTD, "Failed")


async def test_conditions_have_the_reason_when_systemd_is_away(watching: Watching) -> None:
    await watching.until(LIBVIRTD, "Running")

    watching.units.leave("cannot connect to the system bus")
    await watching.until("other.service", "SystemdUnreachable")
    await watching.until(LIBVIRTD, "SystemdUnreachable")
    assert watching.verdict(LIBVIRTD).status == "Unknown"
    assert watching.verdict(LIBVIRTD).message == "cannot connect to the system bus"

    watching.units.come_back()
    await watching.until(LIBVIRTD, "Running")


def test_a_name_that_is_no_units_is_refused_at_once() -> None:
    with pytest.raises(UnitNameError, match="libvirtd'"):
        UnitConditions(FakeUnits(), Board(FakeClock()), ("libvirtd",))
