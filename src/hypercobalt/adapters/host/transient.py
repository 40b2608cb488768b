"""Services without unit files, made over D-Bus.

A unit has Type=exec, so that its job is done once its program is executed, and RemainAfterExit, so
that systemd does not forget one that ended well; one that failed is kept anyway.

Source: org.freedesktop.systemd1(5), systemd.service(5).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from dbus_fast.signature import Variant

from hypercobalt.adapters.host.bus import RefusedError, Service
from hypercobalt.adapters.host.jobs import (
    CHANGED,
    MANAGER,
    PATH,
    JobFailedError,
    LoadedUnit,
    absent_is_fine,
    kill_unit,
    list_units,
    run_job,
    subscribe,
)
from hypercobalt.adapters.host.model import check_unit_name
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError
from hypercobalt.adapters.host.systemd import SystemdClient
from hypercobalt.adapters.host.transient_model import (
    PAIRS,
    SIGNATURES,
    Setting,
    TransientUnit,
    UnitExistsError,
    UnitRun,
)

_OF_ALL_INTERFACES: Final = ""
_PROPERTIES: Final = "a(sv)"
_EXISTS: Final = "org.freedesktop.systemd1.UnitExists"
_EXITED: Final = 1  # CLD_EXITED; others: a signal


class SystemdTransientUnits(SystemdClient):
    """The transient units of the systemd behind a bus."""

    async def start(self, unit: TransientUnit, *, deadline: timedelta = JOB_DEADLINE) -> None:
        arguments: tuple[object, ...] = ("fail", properties(unit), [])
        signature = f"ss{_PROPERTIES}a(s{_PROPERTIES})"
        async with self._reach() as systemd:
            try:
                await run_job(
                    systemd,
                    "StartTransientUnit",
                    unit.name,
                    deadline,
                    signature=signature,
                    arguments=arguments,
                )
            except RefusedError as error:
                if error.name != _EXISTS:
                    raise
                raise UnitExistsError(f"unit {unit.name} exists; remove it first") from error
            except JobFailedError as error:
                # Also what a program causes that was executed, and failed before systemd looked.
                rows = await list_units(systemd, unit.name)
                run = await _read(systemd, rows[0]) if rows else None
                if run is None or not run.executed:
                    why = f"exit code {run.exit_code}: systemd.exec(5)" if run else "it is gone"
                    raise HostError(f"{error}; its program was not executed ({why})") from error

    async def kill(self, name: str) -> None:
        check_unit_name(name)
        async with self._reach() as systemd:
            await kill_unit(systemd, name)

    async def reload(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        check_unit_name(name)
        async with self._reach() as systemd:
            with absent_is_fine(), suppress(JobFailedError):  # it has ended meanwhile
                await run_job(systemd, "ReloadUnit", name, deadline)

    async def remove(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> UnitRun | None:
        check_unit_name(name)
        async with self._reach() as systemd:
            with absent_is_fine():
                # Referenced, the unit is not forgotten before its end was read.
                await systemd.call(PATH, f"{MANAGER}.RefUnit", "s", [name])
                await run_job(systemd, "StopUnit", name, deadline)
                rows = await list_units(systemd, name)
                if not rows:
                    return None
                run = await _read(systemd, rows[0])
                await systemd.call(PATH, f"{MANAGER}.ResetFailedUnit", "s", [name])
                # Not left to the connection's end, which a new unit of that name could overtake.
                await systemd.call(PATH, f"{MANAGER}.UnrefUnit", "s", [name])
                return run
        return None

    def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
        check_unit_name(f"{prefix}.service")
        return self._follow(lambda systemd: _WatchedRuns(systemd, f"{prefix}*.service"))


class _WatchedRuns:
    """The services whose names match, for as long as one connection lasts.

    One is read again only when systemd has announced a change of it.
    """

    def __init__(self, systemd: Service, pattern: str) -> None:
        self._systemd, self._pattern = systemd, pattern
        self._listened: set[str] = set()
        self._stale: set[str] = set()
        self._read: dict[str, UnitRun] = {}

    async def begin(self) -> None:
        for signal in ("UnitNew", "UnitRemoved", "Reloading"):
            await self._systemd.listen(f"{MANAGER}.{signal}", path=PATH)
        await subscribe(self._systemd)

    async def read(self) -> tuple[UnitRun, ...]:
        rows = await list_units(self._systemd, self._pattern)
        while fresh := {row.path for row in rows} - self._listened:
            for path in sorted(fresh):
                await self._listen(path)
            # Once more, as a unit may have changed before we listened.
            rows = await list_units(self._systemd, self._pattern)
        for path in self._listened - {row.path for row in rows}:
            await self._forget(path)
        runs = [run for row in rows if (run := await self._run(row))]
        return tuple(sorted(runs, key=lambda run: run.name))

    async def _listen(self, path: str) -> None:
        self._stale.add(path)
        self._listened.add(path)
        await self._systemd.listen(CHANGED, path=path, handler=lambda _: self._stale.add(path))

    async def _forget(self, path: str) -> None:
        self._listened.remove(path)
        self._stale.discard(path)
        self._read.pop(path, None)
        await self._systemd.ignore(CHANGED, path)

    async def _run(self, row: LoadedUnit) -> UnitRun | None:
        known = self._read.get(row.path)
        if row.path in self._stale or (known and (known.active, known.sub)) != row.states:
            self._stale.discard(row.path)  # first: what changes while it is read makes it so again
            self._read.pop(row.path, None)
            with absent_is_fine():
                self._read[row.path] = await _read(self._systemd, row)
        return self._read.get(row.path)


async def _read(systemd: Service, row: LoadedUnit) -> UnitRun:
    """Read a unit, all of it at one moment.

    With states from the list a unit that is being started would seem to have ended: not yet active
    in the list, and with a start time when it is read.
    """
    found = await systemd.properties(row.path, _OF_ALL_INTERFACES)

    def number(name: str) -> int:
        value = found.get(name)
        return value if isinstance(value, int) else 0

    code, status = number("ExecMainCode"), number("ExecMainStatus")
    return UnitRun(
        name=row.name,
        active=str(found.get("ActiveState", "")),
        sub=str(found.get("SubState", "")),
        pid=number("MainPID"),
        result=str(found.get("Result", "")),
        exit_code=status if code == _EXITED else None,
        signal=status if code not in {0, _EXITED} else None,
        started=_time(number("ExecMainStartTimestamp")),
        ended=_time(number("ExecMainExitTimestamp")),
    )


def _time(microseconds: int) -> datetime | None:
    return datetime.fromtimestamp(microseconds / 1e6, UTC) if microseconds else None


def properties(unit: TransientUnit) -> list[list[object]]:
    """What systemd is given to make a unit: names and values with their types on D-Bus."""
    # Without expansion: an argument may hold what a guest's owner wrote.
    start = [[unit.command[0], list(unit.command), ["no-env-expand"]]]
    given = {
        "Type": Variant("s", "exec"),
        "RemainAfterExit": Variant("b", True),
        "ExecStartEx": Variant("a(sasas)", start),
    }
    for name, command in (("ExecStop", unit.stop_command), ("ExecReload", unit.reload_command)):
        if command:
            given[name] = Variant("a(sasb)", [[command[0], list(command), False]])
    for name, value in unit.settings.items():
        given[name] = Variant(SIGNATURES[name], _on_the_bus(name, value))
    return [[name, value] for name, value in given.items()]


def _on_the_bus(name: str, value: Setting) -> object:
    if not isinstance(value, tuple):
        return value
    if SIGNATURES[name] == PAIRS:
        return [text.split(" ", 1) for text in value]
    return list(value)
