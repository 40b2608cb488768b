"""A host that lives in memory, for tests and for an agent without a host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from hypercobalt.adapters.host.model import OperatingSystem, UnitState, check_unit_name
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError


@dataclass(slots=True)
class _Change:
    """What wakes every waiter, once for each change."""

    event: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        await self.event.wait()

    def notify(self) -> None:
        self.event.set()
        self.event = asyncio.Event()


class FakeUnits:
    """Units that are what they are set to; starting one makes it active.

    Attributes:
        enabled: names of units that are started at boot.
        jobs: requests, as `start NAME`: start, begin, restart and stop.
        on_job: called with that text instead of making the unit active, or inactive; it may `set`
            states and raise HostError.
    """

    def __init__(self, *states: UnitState) -> None:
        self._states = {state.name: state for state in states}
        self._away: HostError | None = None
        self._change = _Change()
        self.jobs: list[str] = []
        self.enabled: set[str] = set()
        self.on_job: Callable[[str], None] | None = None

    def set(self, name: str, active: str, load: str = "loaded", sub: str = "") -> None:
        """Change a unit."""
        self._states[name] = UnitState(name=name, load=load, active=active, sub=sub)
        self._change.notify()

    def leave(self, why: str = "cannot connect to the system bus") -> None:
        """From now on, systemd cannot be reached."""
        self._away = HostError(why)
        self._change.notify()

    def come_back(self) -> None:
        self._away = None
        self._change.notify()

    async def watch(
        self, names: Sequence[str]
    ) -> AsyncGenerator[tuple[UnitState, ...] | HostError]:
        for name in names:
            check_unit_name(name)
        given: tuple[UnitState, ...] | HostError | None = None
        while True:
            change = self._change.event
            now = self._away or tuple(self._get(name) for name in names)
            if now != given:
                given = now
                yield now
            else:
                await change.wait()

    async def state(self, name: str) -> UnitState:
        check_unit_name(name)
        self._check()
        return self._get(name)

    async def enablement(self, name: str) -> str:
        check_unit_name(name)
        self._check()
        if self._get(name).load == "not-found":
            return ""
        return "enabled" if name in self.enabled else "disabled"

    async def start(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        del deadline
        self._job("start", name)

    async def restart(self, name: str) -> None:
        self._job("restart", name)

    async def stop(self, name: str) -> None:
        self._job("stop", name)

    async def begin(self, name: str) -> None:
        self._job("begin", name)

    def _job(self, verb: str, name: str) -> None:
        check_unit_name(name)
        self._check()
        self.jobs.append(f"{verb} {name}")
        if self._get(name).load != "loaded":
            raise HostError(f"{verb} {name}: Unit {name} not found.")
        if self.on_job:
            self.on_job(f"{verb} {name}")
        elif verb == "stop":
            self.set(name, "inactive", sub="dead")
        elif verb != "restart" or self._get(name).active == "active":
            self.set(name, "active", sub="running")

    def _get(self, name: str) -> UnitState:
        absent = UnitState(name=name, load="not-found", active="inactive", sub="dead")
        return self._states.get(name, absent)

    def _check(self) -> None:
        if self._away:
            raise self._away


class FakeShutdown:
    """A shutdown that tests prepare and call off.

    Attributes:
        delays: the inhibitors held now, as (who, why).
    """

    def __init__(self, limit: timedelta = timedelta(seconds=5)) -> None:
        self._limit = limit
        self._preparing = False
        self._away: HostError | None = None
        self._change = _Change()
        self.delays: list[tuple[str, str]] = []

    def prepare(self, preparing: bool = True) -> None:
        """Begin a shutdown, or call it off."""
        self._preparing = preparing
        self._change.notify()

    def leave(self, why: str = "cannot connect to the system bus") -> None:
        """From now on, logind cannot be reached."""
        self._away = HostError(why)

    def come_back(self) -> None:
        self._away = None

    async def released(self) -> None:
        """Wait until no inhibitor is held."""
        while self.delays:
            await self._change.wait()

    async def held(self) -> None:
        """Wait until an inhibitor is held."""
        while not self.delays:
            await self._change.wait()

    @asynccontextmanager
    async def delay(self, *, who: str, why: str) -> AsyncGenerator[None]:
        if self._away:
            raise self._away
        self.delays.append((who, why))
        self._change.notify()
        try:
            yield
        finally:
            self.delays.remove((who, why))
            self._change.notify()

    async def limit(self) -> timedelta:
        if self._away:
            raise self._away
        return self._limit

    async def preparations(self) -> AsyncGenerator[bool]:
        given: bool | None = None
        while True:
            change = self._change.event
            if self._preparing != given:
                given = self._preparing
                yield given
            else:
                await change.wait()


class FakeSystem:
    """An operating system that is what it is set to."""

    def __init__(self, now: OperatingSystem) -> None:
        self._now = now
        self._change = _Change()

    def set(self, now: OperatingSystem) -> None:
        self._now = now
        self._change.notify()

    async def watch(self) -> AsyncGenerator[OperatingSystem]:
        given: OperatingSystem | None = None
        while True:
            change = self._change.event
            if self._now != given:
                given = self._now
                yield given
            else:
                await change.wait()
