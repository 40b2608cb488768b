"""What every class behind the port `Units` does; run on the fake and on a real systemd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from hypercobalt.adapters.host.model import UnitNameError
from hypercobalt.adapters.host.port import HostError, Units

GOOD, BAD, ABSENT = "contract-good.service", "contract-bad.service", "contract-absent.service"
"""A service that runs when it is started, one that fails, and one that does not exist.

Both are loaded and inactive at the start of each contract.
"""

DEADLINE = 45.0


async def starting_waits_until_the_unit_runs(units: Units) -> None:
    await units.start(GOOD)
    assert (await units.state(GOOD)).active == "active"


async def starting_a_unit_that_fails_is_an_error(units: Units) -> None:
    with pytest.raises(HostError, match=BAD):
        await units.start(BAD)
    assert (await units.state(BAD)).active == "failed"


async def starting_an_absent_unit_is_an_error(units: Units) -> None:
    for attempt in (units.start, units.begin):
        with pytest.raises(HostError, match=ABSENT):
            await attempt(ABSENT)


async def an_absent_unit_has_a_state(units: Units) -> None:
    state = await units.state(ABSENT)
    assert (state.name, state.load, state.active) == (ABSENT, "not-found", "inactive")


async def a_unit_that_is_not_enabled_is_not_started_at_boot(units: Units) -> None:
    assert await units.enablement(GOOD) not in {"", "enabled"}
    assert await units.enablement(ABSENT) == ""


async def stopping_waits_until_the_unit_is_stopped(units: Units) -> None:
    await units.start(GOOD)
    await units.stop(GOOD)
    assert (await units.state(GOOD)).active == "inactive"


async def restarting_a_stopped_unit_starts_nothing(units: Units) -> None:
    await units.restart(GOOD)
    assert (await units.state(GOOD)).active == "inactive"


async def restarting_a_running_unit_leaves_it_running(units: Units) -> None:
    await units.start(GOOD)
    await units.restart(GOOD)
    assert (await units.state(GOOD)).active == "active"


async def watching_gives_all_units_in_the_requested_order_then_each_change(units: Units) -> None:
    names = (ABSENT, GOOD, BAD)
    async with asyncio.timeout(DEADLINE), aclosing(units.watch(names)) as news:
        first = await anext(news)
        assert isinstance(first, tuple)
        assert tuple(state.name for state in first) == names
        assert [state.active for state in first] == ["inactive"] * 3

        starting = asyncio.create_task(units.start(GOOD))
        now = first
        while now[1].active != "active":
            found = await anext(news)
            assert isinstance(found, tuple)
            now = found
        await starting
        assert [state.active for state in now] == ["inactive", "active", "inactive"]


async def watching_shows_units_that_start(units: Units) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(units.watch([BAD])) as news:
        await anext(news)
        await units.begin(BAD)
        async for states in news:
            assert isinstance(states, tuple)
            if states[0].active == "failed":
                return


async def an_invalid_unit_name_is_refused(units: Units) -> None:
    for name in ("libvirtd", "a/b.service", "a@.service", ""):
        for attempt in (units.state, units.start, units.stop, units.restart, units.begin):
            with pytest.raises(UnitNameError):
                await attempt(name)
        with pytest.raises(UnitNameError):
            await anext(units.watch([GOOD, name]))


CONTRACTS: tuple[Callable[[Units], Awaitable[None]], ...] = (
    starting_waits_until_the_unit_runs,
    starting_a_unit_that_fails_is_an_error,
    starting_an_absent_unit_is_an_error,
    an_absent_unit_has_a_state,
    a_unit_that_is_not_enabled_is_not_started_at_boot,
    stopping_waits_until_the_unit_is_stopped,
    restarting_a_stopped_unit_starts_nothing,
    restarting_a_running_unit_leaves_it_running,
    watching_gives_all_units_in_the_requested_order_then_each_change,
    watching_shows_units_that_start,
    an_invalid_unit_name_is_refused,
)
