"""What every class behind `TransientUnits` does; run on the fake and on a real systemd."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from hypercobalt.adapters.host.model import UnitNameError
from hypercobalt.adapters.host.port import HostError, TransientUnits
from hypercobalt.adapters.host.transient_model import TransientUnit, UnitExistsError, UnitRun

PREFIX = "contract-transient-"
NAME = f"{PREFIX}a.service"
OTHER = f"{PREFIX}b.service"

RUNS = ("/bin/sleep", "infinity")
ENDS = ("/bin/sh", "-c", "exit 0")
FAILS = ("/bin/sh", "-c", "exit 3")
ENDS_WHEN_STOPPED = ("/bin/sh", "-c", "trap 'exit 7' TERM; sleep infinity & wait")
_WAITS = "until [ -e /run/contract-reloaded ]; do sleep 0.05; done; rm /run/contract-reloaded"
ENDS_WHEN_RELOADED = ("/bin/sh", "-c", f"{_WAITS}; exit 0")
FAILS_WHEN_RELOADED = ("/bin/sh", "-c", f"{_WAITS}; exit 3")
RELOADS = ("/bin/sh", "-c", 'kill -0 "$MAINPID" && touch /run/contract-reloaded')
ABSENT = ("/nowhere/program",)

DEADLINE = 45.0


def unit(command: tuple[str, ...], name: str = NAME) -> TransientUnit:
    return TransientUnit(name=name, command=command)


async def until(
    units: TransientUnits, good: Callable[[tuple[UnitRun, ...]], bool]
) -> tuple[UnitRun, ...]:
    async with asyncio.timeout(DEADLINE), aclosing(units.watch(PREFIX)) as news:
        async for runs in news:
            assert isinstance(runs, tuple)
            if good(runs):
                return runs
    raise AssertionError("the watch ended")


def all_over(runs: tuple[UnitRun, ...]) -> bool:
    return bool(runs) and all(run.over for run in runs)


async def a_started_program_runs(units: TransientUnits) -> None:
    await units.start(unit(RUNS))
    (run,) = await until(units, bool)
    assert (run.name, run.active, run.sub, run.over) == (NAME, "active", "running", False)
    assert run.pid > 0
    assert run.started
    assert run.ended is None


async def the_end_of_a_program_is_kept_until_it_is_removed(units: TransientUnits) -> None:
    await units.start(unit(ENDS))
    (run,) = await until(units, all_over)
    assert (run.result, run.exit_code, run.signal, run.pid) == ("success", 0, None, 0)
    assert run.ended
    assert await until(units, bool) == (run,)
    removed = await units.remove(NAME)
    assert removed
    assert removed.exit_code == 0
    assert await until(units, lambda _: True) == ()


async def the_exit_code_of_a_failure_is_kept(units: TransientUnits) -> None:
    await units.start(unit(FAILS))
    (run,) = await until(units, all_over)
    assert (run.active, run.result, run.exit_code) == ("failed", "exit-code", 3)
    removed = await units.remove(NAME)
    assert removed
    assert (removed.result, removed.exit_code) == ("exit-code", 3)
    assert await until(units, lambda _: True) == ()


async def a_killed_program_shows_the_signal(units: TransientUnits) -> None:
    await units.start(unit(ENDS_WHEN_STOPPED))
    await units.kill(NAME)
    (run,) = await until(units, all_over)
    assert (run.active, run.result, run.exit_code, run.signal) == ("failed", "signal", None, 9)


async def a_program_that_cannot_be_executed_is_an_error_and_stays(units: TransientUnits) -> None:
    with pytest.raises(HostError, match=NAME):
        await units.start(unit(ABSENT))
    (run,) = await until(units, all_over)
    assert (run.active, run.exit_code) == ("failed", 203)


async def a_name_is_free_again_once_its_unit_was_removed(units: TransientUnits) -> None:
    for command in (RUNS, ENDS, FAILS):
        await units.start(unit(command))
        with pytest.raises(UnitExistsError, match=NAME):
            await units.start(unit(RUNS))
        await units.remove(NAME)
    await units.start(unit(RUNS))


async def removing_stops_and_returns_how_it_ended(units: TransientUnits) -> None:
    await units.start(unit(ENDS_WHEN_STOPPED))
    removed = await units.remove(NAME)
    assert removed
    assert (removed.exit_code, removed.pid, removed.over) == (7, 0, True)
    await units.start(unit(RUNS))
    removed = await units.remove(NAME)
    assert removed
    assert (removed.result, removed.signal, removed.over) == ("success", 15, True)


async def how_a_program_ended_by_its_reload_is_kept(units: TransientUnits) -> None:
    for command, code in ((ENDS_WHEN_RELOADED, 0), (FAILS_WHEN_RELOADED, 3)):
        await units.start(TransientUnit(name=NAME, command=command, reload_command=RELOADS))
        await units.reload(NAME)
        (run,) = await until(units, all_over)
        assert run.exit_code == code
        await units.reload(NAME)  # of one that has ended: nothing
        assert await until(units, bool) == (run,)
        removed = await units.remove(NAME)
        assert removed
        assert removed.exit_code == code


async def without_a_reload_command_a_reload_is_refused(units: TransientUnits) -> None:
    await units.start(unit(RUNS))
    (before,) = await until(units, bool)
    with pytest.raises(HostError, match="eload"):
        await units.reload(NAME)
    assert await until(units, bool) == (before,)


async def removing_killing_or_reloading_an_absent_unit_is_nothing(units: TransientUnits) -> None:
    assert await units.remove(NAME) is None
    await units.kill(NAME)
    await units.reload(NAME)


async def watching_shows_each_unit_that_comes_and_goes(units: TransientUnits) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(units.watch(PREFIX)) as news:

        async def until_names(*names: str) -> None:
            async for runs in news:
                assert isinstance(runs, tuple)
                if tuple(run.name for run in runs) == names:
                    return

        await until_names()
        await units.start(unit(RUNS, OTHER))
        await until_names(OTHER)
        await units.start(unit(RUNS))
        await until_names(NAME, OTHER)
        await units.remove(OTHER)
        await until_names(NAME)


async def an_invalid_unit_name_is_refused(units: TransientUnits) -> None:
    for attempt in (units.kill, units.reload, units.remove):
        with pytest.raises(UnitNameError):
            await attempt("a/b.service")
    with pytest.raises(UnitNameError):
        await anext(units.watch("*"))


CONTRACTS: tuple[Callable[[TransientUnits], Awaitable[None]], ...] = (
    a_started_program_runs,
    the_end_of_a_program_is_kept_until_it_is_removed,
    the_exit_code_of_a_failure_is_kept,
    a_killed_program_shows_the_signal,
    a_program_that_cannot_be_executed_is_an_error_and_stays,
    a_name_is_free_again_once_its_unit_was_removed,
    removing_stops_and_returns_how_it_ended,
    how_a_program_ended_by_its_reload_is_kept,
    without_a_reload_command_a_reload_is_refused,
    removing_killing_or_reloading_an_absent_unit_is_nothing,
    watching_shows_each_unit_that_comes_and_goes,
    an_invalid_unit_name_is_refused,
)
