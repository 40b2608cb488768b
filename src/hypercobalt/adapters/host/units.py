"""systemd's units, over D-Bus.

Signals are only hints: after one, the state of every watched unit is read again, in one call.
`UnitNew` and `UnitRemoved` are not listened to: reading an unused unit loads it and lets it go
again, which would be the next signal. Nothing is missed for that, because a unit that changes while
it is loaded emits `PropertiesChanged`, and new or masked unit files take a daemon-reload.

Source: org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.bus import PING, RefusedError, Retry, Service, reach
from hypercobalt.adapters.host.model import UnitState, check_unit_name
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError

GRACE: Final = timedelta(seconds=2)  # systemd executes itself again, the bus restarts, within this
RESYNC: Final = timedelta(minutes=5)
FIRST_RETRY: Final = timedelta(milliseconds=250)
LAST_RETRY: Final = timedelta(seconds=1)
_NAME, _PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_ROW = "a(ssssssouso)"
_NO_FILE: Final = {
    "org.freedesktop.DBus.Error.FileNotFound",
    "org.freedesktop.systemd1.NoSuchUnit",
}


class SystemdUnits:
    """The units of the systemd behind a bus.

    Args:
        address: of the system bus; None: the usual one.
        grace: how long systemd may be away before watchers get an error.
        ping: after so much silence systemd is pinged.
    """

    def __init__(
        self, address: str | None = None, *, grace: timedelta = GRACE, ping: timedelta = PING
    ) -> None:
        self._address, self._grace, self._ping = address, grace, ping

    async def watch(
        self, names: Sequence[str]
    ) -> AsyncGenerator[tuple[UnitState, ...] | HostError]:
        for name in names:
            check_unit_name(name)
        clock = asyncio.get_running_loop().time
        grace = self._grace.total_seconds()
        known: tuple[UnitState, ...] | HostError | None = None
        retry = Retry("reconnecting_to_systemd", FIRST_RETRY, LAST_RETRY)
        away_since = clock() - grace
        while True:
            try:
                async with reach(_NAME, self._address, ping=self._ping) as systemd:
                    watched = _Watched(systemd, names)
                    await watched.begin()
                    while True:
                        states = await watched.read()
                        retry.succeeded()
                        if states != known:
                            known = states
                            yield states
                        away_since = clock()
                        await watched.changed()
                        away_since = clock()
            except HostError as error:
                if not isinstance(known, HostError) and clock() - away_since >= grace:
                    known = error
                    yield error
                await retry.after(error)

    async def state(self, name: str) -> UnitState:
        check_unit_name(name)
        async with reach(_NAME, self._address) as systemd:
            states, _ = await _list(systemd, [name])
            return states[0]

    async def enablement(self, name: str) -> str:
        check_unit_name(name)
        async with reach(_NAME, self._address) as systemd:
            try:
                reply = await systemd.call(_PATH, f"{_MANAGER}.GetUnitFileState", "s", [name])
            except RefusedError as error:
                if error.name not in _NO_FILE:
                    raise
                return ""
        return str(reply.body[0])

    async def start(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        await self._run_job("StartUnit", name, deadline)

    async def restart(self, name: str) -> None:
        await self._run_job("TryRestartUnit", name, JOB_DEADLINE)

    async def stop(self, name: str) -> None:
        await self._run_job("StopUnit", name, JOB_DEADLINE)

    async def begin(self, name: str) -> None:
        check_unit_name(name)
        async with reach(_NAME, self._address) as systemd:
            await systemd.call(_PATH, f"{_MANAGER}.StartUnit", "ss", [name, "replace"])

    async def _run_job(self, method: str, name: str, deadline: timedelta) -> None:
        """Queue a job and wait for its end; the job itself goes on if we stop waiting."""
        check_unit_name(name)
        results: dict[object, object] = {}

        def note(arguments: Sequence[object]) -> None:
            _, job, _, result = arguments
            results[job] = result

        async with reach(_NAME, self._address) as systemd:
            await systemd.listen(f"{_MANAGER}.JobRemoved", path=_PATH, handler=note)
            await _subscribe(systemd)
            reply = await systemd.call(_PATH, f"{_MANAGER}.{method}", "ss", [name, "replace"])
            job = reply.body[0]
            try:
                async with asyncio.timeout(deadline.total_seconds()):
                    while job not in results:
                        await systemd.changed()
            except TimeoutError as error:
                seconds = deadline.total_seconds()
                raise HostError(f"{method} {name}: not done within {seconds:g} s") from error
        if results[job] != "done":
            raise HostError(f"{method} {name}: the job ended with {results[job]}")


async def _subscribe(systemd: Service) -> None:
    """Make systemd send signals at all."""
    try:
        await systemd.call(_PATH, f"{_MANAGER}.Subscribe")
    except RefusedError as error:
        if error.name != "org.freedesktop.systemd1.AlreadySubscribed":
            raise


class _Watched:
    """Some units, for as long as one connection lasts."""

    def __init__(self, systemd: Service, names: Sequence[str]) -> None:
        self._systemd, self._names = systemd, names
        self._listened: set[str] = set()

    async def begin(self) -> None:
        await self._systemd.listen(f"{_MANAGER}.Reloading", path=_PATH)
        await _subscribe(self._systemd)

    async def read(self) -> tuple[UnitState, ...]:
        while True:
            states, paths = await _list(self._systemd, self._names)
            if paths <= self._listened:
                return states
            for path in sorted(paths - self._listened):
                signal = "org.freedesktop.DBus.Properties.PropertiesChanged"
                await self._systemd.listen(signal, path=path)
            # Once more, as a unit may have changed before we listened.
            self._listened |= paths

    async def changed(self) -> None:
        """Wait for a hint that something changed; after a while, assume it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RESYNC.total_seconds()):
                await self._systemd.changed()


async def _list(
    systemd: Service, names: Sequence[str]
) -> tuple[tuple[UnitState, ...], frozenset[str]]:
    """The state of each unit, and their object paths."""
    reply = await systemd.call(_PATH, f"{_MANAGER}.ListUnitsByNames", "as", [list(names)])
    rows: list[list[str]] = reply.body[0] if reply.signature == _ROW else []
    if len(rows) != len(names):
        raise HostError(f"{_NAME} ListUnitsByNames: {len(rows)} answers for {len(names)} units")
    # The requested name, not the unit's own: it may be an alias.
    states = (
        UnitState(name=name, load=row[2], active=row[3], sub=row[4])
        for name, row in zip(names, rows, strict=True)
    )
    return tuple(states), frozenset(row[6] for row in rows)
