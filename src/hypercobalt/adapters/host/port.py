"""What the rooms above use of the host: ports with a real class and a fake behind each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final, Protocol

from hypercobalt.adapters.host.model import OperatingSystem, UnitState
from hypercobalt.adapters.host.pod_model import Commands, PodInterest, PodProcesses
from hypercobalt.adapters.host.transient_model import TransientUnit, UnitRun
from hypercobalt.errors import TransientError

JOB_DEADLINE: Final = timedelta(seconds=90)
"""Time that systemd, by default, lets a service take to start or to stop."""


class HostError(TransientError):
    """A call to the host's services failed or was not answered in time."""


class Units(Protocol):
    """systemd's units.

    Calls raise `HostError`, and `UnitNameError` for what is no unit's name; the connection comes
    back by itself.
    """

    def watch(self, names: Sequence[str]) -> AsyncGenerator[tuple[UnitState, ...] | HostError]:
        """The state of the named units: all of them now, and all of them after each change.

        Once systemd cannot be reached for a few seconds, one HostError with the reason; then states
        again. A unit that does not exist has load `not-found`.
        """
        ...

    async def state(self, name: str) -> UnitState:
        """One unit now."""
        ...

    async def enablement(self, name: str) -> str:
        """Whether a unit is started at boot, as systemd names it: enabled, disabled, masked.

        "" for a unit that has no file.
        """
        ...

    async def start(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        """Start a unit (mode replace) and wait until its job is done.

        Raises:
            HostError: systemd refuses, the job's result is not `done`, or it takes too long; the
                job itself then goes on.
        """
        ...

    async def restart(self, name: str) -> None:
        """Restart a unit if it runs, and wait until its job is done; errors as for `start`."""
        ...

    async def stop(self, name: str) -> None:
        """Stop a unit, and wait until its job is done; errors as for `start`."""
        ...

    async def begin(self, name: str) -> None:
        """Start a unit without waiting for it; `watch` shows how it goes."""
        ...


class TransientUnits(Protocol):
    """Services that are made by a call and have no unit file.

    Calls raise `HostError`, and `UnitNameError` for what is no unit's name; the connection comes
    back by itself.
    """

    async def start(self, unit: TransientUnit, *, deadline: timedelta = JOB_DEADLINE) -> None:
        """Make a unit and wait until its program is executed.

        Raises:
            UnitExistsError: there is one of that name, running or ended.
            HostError: systemd refuses; or its program cannot be executed, then the unit stays, with
                its result, until it is removed.
        """
        ...

    async def kill(self, name: str) -> None:
        """Kill all processes of a unit at once; without such a unit, nothing."""
        ...

    async def reload(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        """Run the reload command of a unit that runs; without such a unit, nothing.

        The unit is not stopped: where its program ends by that, it is kept as after every end.

        Raises:
            HostError: the unit has no such command, or it has not ended within the deadline.
        """
        ...

    async def remove(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> UnitRun | None:
        """Stop a unit if it runs, forget it, and return how it ended; None: no such unit.

        Its stop command, TimeoutStopUSec, KillMode and KillSignal decide how it stops. A second
        call, also by another process, joins the first.

        Raises:
            HostError: it has not stopped within the deadline; systemd goes on with it.
        """
        ...

    def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
        """The services whose names begin so, sorted by name: all now, and all after each change.

        Those that ended are among them until they are removed. Once systemd cannot be reached for
        a few seconds, one HostError with the reason; then units again.

        Raises:
            UnitNameError: no unit's name begins so.
        """
        ...


class Pods(Protocol):
    """The pods of the host, by their processes.

    A pod that was whole once is one with processes of interest for as long as it has any process.
    """

    def remember(self, interest: PodInterest, pods: Mapping[str, Commands]) -> None:
        """Take these pods for ones that were whole, with what they showed, by UID."""
        ...

    def watch(self, interest: PodInterest) -> AsyncGenerator[tuple[PodProcesses, ...] | HostError]:
        """The pods with processes of interest, sorted by UID: all now, and all after each change.

        Once systemd cannot be reached for a few seconds, one HostError with the reason.
        """
        ...

    async def running(self, interest: PodInterest) -> tuple[PodProcesses, ...]:
        """Read the pods with processes of interest now, sorted by UID.

        Raises:
            HostError: systemd cannot be reached, or does not show the processes of every pod.
        """
        ...

    async def kill(self, uid: str) -> None:
        """Kill all processes of a pod at once; without such a pod, nothing.

        Raises:
            HostError: systemd cannot be reached, or refuses.
        """
        ...


class Shutdown(Protocol):
    """logind's shutdown, and our right to delay it."""

    def delay(self, *, who: str, why: str) -> AbstractAsyncContextManager[None]:
        """Hold a delay inhibitor on shutdown while the context is entered.

        It is taken again when logind restarts. Leaving the context releases it at once.

        Raises:
            HostError: on entering, when it cannot be had.
        """
        ...

    async def limit(self) -> timedelta:
        """How long logind lets a shutdown be delayed: its InhibitDelayMaxSec."""
        ...

    def preparations(self) -> AsyncGenerator[bool]:
        """Whether a shutdown is being prepared: at first, and after each change.

        True when one begins, False when it was called off. While logind is away, nothing.
        """
        ...


class System(Protocol):
    """What the operating system is; files are watched, so an update shows by itself."""

    def watch(self) -> AsyncGenerator[OperatingSystem]:
        """The operating system now, and again after each change of what it is read from."""
        ...
