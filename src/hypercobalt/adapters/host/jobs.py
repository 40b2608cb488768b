"""Calls of systemd about units; jobs are changes of a unit that are queued and waited for.

Source: org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.bus import RefusedError, Service
from hypercobalt.adapters.host.port import HostError

SYSTEMD: Final = "org.freedesktop.systemd1"
PATH: Final = "/org/freedesktop/systemd1"
MANAGER: Final = "org.freedesktop.systemd1.Manager"
CHANGED: Final = "org.freedesktop.DBus.Properties.PropertiesChanged"

# systemd names an object that is no loaded unit by one of these.
_ABSENT: Final = {
    "org.freedesktop.systemd1.NoSuchUnit",
    "org.freedesktop.DBus.Error.UnknownObject",
    "org.freedesktop.DBus.Error.UnknownMethod",
}
_KILL: Final = 9
_ROWS: Final = "a(ssssssouso)"


class JobFailedError(HostError):
    """A job has ended, but not as `done`."""


@dataclass(frozen=True, slots=True)
class LoadedUnit:
    """A loaded unit in systemd's list."""

    name: str
    active: str
    sub: str
    path: str

    @property
    def states(self) -> tuple[str, str]:
        return self.active, self.sub


async def list_units(systemd: Service, *patterns: str) -> list[LoadedUnit]:
    """Return the loaded units whose names match one of the patterns.

    Raises:
        HostError: systemd refuses, or does not answer with such a list.
    """
    method = f"{MANAGER}.ListUnitsByPatterns"
    reply = await systemd.call(PATH, method, "asas", [[], [*patterns]])
    if reply.signature != _ROWS:
        raise HostError(f"{SYSTEMD} ListUnitsByPatterns: the answer is no list of units")
    rows: list[list[str]] = reply.body[0]
    return [LoadedUnit(name=row[0], active=row[3], sub=row[4], path=row[6]) for row in rows]


async def run_job(
    systemd: Service,
    method: str,
    name: str,
    deadline: timedelta,
    *,
    signature: str = "ss",
    arguments: Sequence[object] = ("replace",),
) -> None:
    """Queue a job and wait for its end; the job itself goes on if we stop waiting.

    Args:
        systemd: a connection of its own, with no other listener.
        method: of systemd's manager, whose first argument is the unit's name.
        name: of the unit.
        deadline: for the job.
        signature: of all arguments.
        arguments: after the name; the usual one is the mode.

    Raises:
        JobFailedError: the job's result is not `done`.
        HostError: systemd refuses, or it takes too long.
    """
    results: dict[object, object] = {}

    def note(signal: Sequence[object]) -> None:
        _, job, _, result = signal
        results[job] = result

    await systemd.listen(f"{MANAGER}.JobRemoved", path=PATH, handler=note)
    await subscribe(systemd)
    reply = await systemd.call(PATH, f"{MANAGER}.{method}", signature, [name, *arguments])
    job = reply.body[0]
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            while job not in results:
                await systemd.changed()
    except TimeoutError as error:
        seconds = deadline.total_seconds()
        raise HostError(f"{method} {name}: not done within {seconds:g} s") from error
    if results[job] != "done":
        raise JobFailedError(f"{method} {name}: the job ended with {results[job]}")


async def subscribe(systemd: Service) -> None:
    """Make systemd send signals at all."""
    try:
        await systemd.call(PATH, f"{MANAGER}.Subscribe")
    except RefusedError as error:
        if error.name != "org.freedesktop.systemd1.AlreadySubscribed":
            raise


async def kill_unit(systemd: Service, name: str) -> None:
    """Kill all processes of a unit, and of those below it, at once; without such a unit, nothing.

    Raises:
        HostError: systemd refuses, or does not answer.
    """
    with absent_is_fine():
        await systemd.call(PATH, f"{MANAGER}.KillUnit", "ssi", [name, "all", _KILL])


@contextmanager
def absent_is_fine() -> Generator[None]:
    """Leave the block when systemd answers that there is no such unit."""
    try:
        yield
    except RefusedError as error:
        if not is_absent(error):
            raise


def is_absent(error: RefusedError) -> bool:
    """Whether systemd answers that there is no such unit."""
    return error.name in _ABSENT
