"""A host that lives in memory, for tests and for an agent without a host."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from hypercobalt.adapters.host.fake_service import FakeService, Watched
from hypercobalt.adapters.host.model import OperatingSystem, UnitState, check_unit_name
from hypercobalt.adapters.host.pod_model import Commands, KnownPods, PodInterest, PodProcesses
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError


class FakeUnits(FakeService):
    """Units that are what they are set to; starting one makes it active.

    Attributes:
        enabled: names of units that are started at boot.
        jobs: requests, as `start NAME`: start, begin, restart and stop.
        on_job: called with that text instead of making the unit active, or inactive; it may `set`
            states and raise HostError.
    """

    def __init__(self, *states: UnitState) -> None:
        super().__init__()
        self._states = {state.name: state for state in states}
        self.jobs: list[str] = []
        self.enabled: set[str] = set()
        self.on_job: Callable[[str], None] | None = None

    def set(self, name: str, active: str, load: str = "loaded", sub: str = "") -> None:
        """Change a unit."""
        self._states[name] = UnitState(name=name, load=load, active=active, sub=sub)
        self._notify()

    def watch(self, names: Sequence[str]) -> AsyncGenerator[tuple[UnitState, ...] | HostError]:
        for name in names:
            check_unit_name(name)
        return self._each(lambda: self._away or tuple(self._get(name) for name in names))

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


class FakeShutdown(FakeService):
    """A shutdown that tests prepare and call off.

    Attributes:
        delays: the inhibitors held now, as (who, why).
    """

    def __init__(self, limit: timedelta = timedelta(seconds=5)) -> None:
        super().__init__()
        self._limit = limit
        self._preparing = False
        self.delays: list[tuple[str, str]] = []

    def prepare(self, preparing: bool = True) -> None:
        """Begin a shutdown, or call it off."""
        self._preparing = preparing
        self._notify()

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
        self._check()
        self.delays.append((who, why))
        self._notify()
        try:
            yield
        finally:
            self.delays.remove((who, why))
            self._notify()

    async def limit(self) -> timedelta:
        self._check()
        return self._limit

    def preparations(self) -> AsyncGenerator[bool]:
        return self._each(lambda: self._preparing)


class FakePods(FakeService):
    """Pods whose processes are what they are set to.

    Attributes:
        stubborn: pods whose processes outlive a kill.
        killed: UIDs of the pods that were killed, in that order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stubborn = set[str]()
        self.killed = list[str]()
        self._commands: dict[str, Commands] = {}
        self._known: dict[PodInterest, KnownPods] = {}

    def remember(self, interest: PodInterest, pods: Mapping[str, Commands]) -> None:
        self._known_of(interest).remember(pods)
        self._notify()

    def _known_of(self, interest: PodInterest) -> KnownPods:
        return self._known.setdefault(interest, KnownPods(interest))

    def set(self, uid: str, *commands: tuple[str, ...]) -> None:
        """Have these processes in a pod; none ends it."""
        self._commands[uid] = commands
        self._notify()

    async def running(self, interest: PodInterest) -> tuple[PodProcesses, ...]:
        self._check()
        return self._found(interest)

    async def kill(self, uid: str) -> None:
        self._check()
        self.killed.append(uid)
        if uid not in self.stubborn:
            self.set(uid)

    def watch(self, interest: PodInterest) -> AsyncGenerator[tuple[PodProcesses, ...] | HostError]:
        return self._each(lambda: self._away or self._found(interest))

    def _found(self, interest: PodInterest) -> tuple[PodProcesses, ...]:
        known = self._known_of(interest)
        found = (
            known.read(uid, [shlex.join(one) for one in commands])
            for uid, commands in sorted(self._commands.items())
        )
        return tuple(pod for pod in found if pod is not None)


class FakeSystem(Watched):
    """An operating system that is what it is set to."""

    def __init__(self, now: OperatingSystem) -> None:
        super().__init__()
        self._now = now

    def set(self, now: OperatingSystem) -> None:
        self._now = now
        self._notify()

    def watch(self) -> AsyncGenerator[OperatingSystem]:
        return self._each(lambda: self._now)
