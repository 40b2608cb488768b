"""What a pass over a pod sees, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from hypercobalt.adapters.host.transient_model import UnitRun
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.lab.pods.running.launch import Launch, NotRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod, as the API and this host have it.

    Attributes:
        now: time of the pass, UTC.
        host: address of this host.
        pod: None if the API has none of this UID.
        wanted: how it would be run; None without a pod.
        run: its unit, or how that ended; None if the host has no unit of it.
        stopping: this process has told it to end.
        begun: it was started once, perhaps before a reboot.
        traces: it has a unit, a directory or a network namespace.
        missing: images that are not here.
        ip: its address; "" without one.
    """

    now: datetime
    host: str
    pod: Pod | None
    wanted: Launch | NotRun | None = None
    run: UnitRun | None = None
    stopping: bool = False
    begun: bool = False
    traces: bool = False
    missing: tuple[str, ...] = ()
    ip: str = ""

    @property
    def alive(self) -> bool:
        """Whether processes of the pod may run."""
        return self.run is not None and not self.run.over


class PodAct(Enum):
    """What a pass does on the host."""

    NOTHING = auto()
    START = auto()
    STOP = auto()  # SIGTERM to the first process
    KILL = auto()
    CLEAR = auto()  # remove unit, network and directories


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An Event about a pod, a warning."""

    reason: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The next step.

    Attributes:
        act: what is done on the host.
        status: what is reported then, unless the pod shows it; None for nothing.
        event: for people.
        delete: the object goes, for good.
        again: decide once more at once.
        look_again: when to decide again if nothing happens.
    """

    act: PodAct = PodAct.NOTHING
    status: PodStatus | None = None
    event: PodEvent | None = None
    delete: bool = False
    again: bool = False
    look_again: timedelta | None = None
