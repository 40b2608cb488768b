"""systemd's units, over D-Bus.

Signals are only hints: after one, the state of every watched unit is read again, in one call.
`UnitNew` and `UnitRemoved` are not listened to: reading an unused unit loads it and lets it go
again, which would be the next signal. Nothing is missed for that, because a unit that changes while
it is loaded emits `PropertiesChanged`, and new or masked unit files take a daemon-reload.

Source: org.freedesktop.systemd1(5).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.bus import RefusedError, Service
from hypercobalt.adapters.host.jobs import CHANGED, MANAGER, PATH, SYSTEMD, run_job, subscribe
from hypercobalt.adapters.host.model import UnitState, check_unit_name
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError
from hypercobalt.adapters.host.systemd import SystemdClient

_ROW = "a(ssssssouso)"
_NO_FILE: Final = {
    "org.freedesktop.DBus.Error.FileNotFound",
    "org.freedesktop.systemd1.NoSuchUnit",
}


class SystemdUnits(SystemdClient):
    """The units of the systemd behind a bus."""

    def watch(self, names: Sequence[str]) -> AsyncGenerator[tuple[UnitState, ...] | HostError]:
        for name in names:
            check_unit_name(name)
        return self._follow(lambda systemd: _Watched(systemd, names))

    async def state(self, name: str) -> UnitState:
        check_unit_name(name)
        async with self._reach() as systemd:
            states, _ = await _list(systemd, [name])
            return states[0]

    async def enablement(self, name: str) -> str:
        check_unit_name(name)
        async with self._reach() as systemd:
            try:
                reply = await systemd.call(PATH, f"{MANAGER}.GetUnitFileState", "s", [name])
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
        async with self._reach() as systemd:
            await systemd.call(PATH, f"{MANAGER}.StartUnit", "ss", [name, "replace"])

    async def _run_job(self, method: str, name: str, deadline: timedelta) -> None:
        check_unit_name(name)
        async with self._reach() as systemd:
            await run_job(systemd, method, name, deadline)


class _Watched:
    """Some units, for as long as one connection lasts."""

    def __init__(self, systemd: Service, names: Sequence[str]) -> None:
        self._systemd, self._names = systemd, names
        self._listened: set[str] = set()

    async def begin(self) -> None:
        await self._systemd.listen(f"{MANAGER}.Reloading", path=PATH)
        await subscribe(self._systemd)

    async def read(self) -> tuple[UnitState, ...]:
        while True:
            states, paths = await _list(self._systemd, self._names)
            if paths <= self._listened:
                return states
            for path in sorted(paths - self._listened):
                await self._systemd.listen(CHANGED, path=path)
            # Once more, as a unit may have changed before we listened.
            self._listened |= paths


async def _list(
    systemd: Service, names: Sequence[str]
) -> tuple[tuple[UnitState, ...], frozenset[str]]:
    """The state of each unit, and their object paths."""
    reply = await systemd.call(PATH, f"{MANAGER}.ListUnitsByNames", "as", [list(names)])
    rows: list[list[str]] = reply.body[0] if reply.signature == _ROW else []
    if len(rows) != len(names):
        raise HostError(f"{SYSTEMD} ListUnitsByNames: {len(rows)} answers for {len(names)} units")
    # The requested name, not the unit's own: it may be an alias.
    states = (
        UnitState(name=name, load=row[2], active=row[3], sub=row[4])
        for name, row in zip(names, rows, strict=True)
    )
    return tuple(states), frozenset(row[6] for row in rows)
