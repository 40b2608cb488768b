"""Facts of a pass over a VMI, and what it decides. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.virt.wire.messages import DomainReport
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.phases import LifeCycle, LifeReason

DEAD: Final = frozenset({None, LifeCycle.SHUTOFF, LifeCycle.CRASHED})
"""States of a domain without a process; None: there is no domain."""
NO_REPORT: Final = timedelta(minutes=3)
"""How long a launcher may take until it reports for the first time."""
NO_GUEST: Final = timedelta(minutes=5)
"""How long one that has reported may take until its guest runs; one that works gives up earlier."""
NEVER_RAN: Final = frozenset({LifeReason.OTHER, LifeReason.UNKNOWN, LifeReason.FAILED})
"""Reasons of a domain that is off as it was defined, or whose start failed."""


class Contact(StrEnum):
    """What is known of a launcher; only `ENDED` and `ABSENT` are proofs of anything."""

    UNKNOWN = "Unknown"  # cannot be reached, and may live
    ABSENT = "Absent"  # the directory of its socket is there, the socket is not
    CONNECTED = "Connected"  # its report is that of now
    ENDED = "Ended"  # its process is gone


@dataclass(frozen=True, slots=True)
class LauncherView:
    """One launcher as this process knows it.

    Args:
        since: when this process began to look for it.
        report: the last one; None before the first.
        trouble: why it cannot be reached, for people.
    """

    since: datetime
    contact: Contact = Contact.UNKNOWN
    report: DomainReport | None = None
    trouble: str = ""

    @property
    def due(self) -> datetime:
        """When a guest that does not run yet is late."""
        return self.since + (NO_REPORT if self.report is None else NO_GUEST)

    @property
    def alive(self) -> bool:
        """Whether the launcher reports a domain that has a process."""
        return self.report is not None and self.report.state not in DEAD


class HandlerCall(StrEnum):
    """Calls to a launcher that a pass decides."""

    SYNC = "Sync"
    SHUTDOWN = "Shutdown"
    KILL = "Kill"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True)
class CallRecord:
    """How one call to one launcher went, in this process.

    Args:
        tries: how often it was sent, one shortly after the other.
        sent: when it was sent last; None: never.
        under_way: it has not been answered.
        succeeded: the last one that was answered succeeded.
        error: why it failed; "" if it did not.
        refused: the launcher will never accept it.
    """

    tries: int = 0
    sent: datetime | None = None
    under_way: bool = False
    succeeded: bool = False
    error: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class HandlerFacts:
    """What a pass knows.

    Args:
        vmi: as read.
        pod: the VMI's pod on this node, by the VMI's own record; None: not seen.
        launcher: of that pod.
        now: time of the pass.
        calls: that this process has made.
        stopping: when the guest was first asked to shut down, once this process has asked, too.
        unconnectable: why the network of the pod can never be set up; "" if it can.
        out_of_memory: the kernel has killed a process of the pod at the pod's memory limit.
    """

    vmi: VirtualMachineInstance
    pod: Pod | None
    launcher: LauncherView
    now: datetime
    calls: dict[HandlerCall, CallRecord]
    stopping: datetime | None = None
    unconnectable: str = ""
    out_of_memory: bool = False

    def call(self, call: HandlerCall) -> CallRecord:
        """How a call went."""
        return self.calls.get(call, CallRecord())


@dataclass(frozen=True, slots=True)
class HandlerPlan:
    """What is done.

    Args:
        vmi: the object as it should be.
        call: to the launcher.
        call_event: recorded with the call.
        events: recorded once the object is written.
        look_again: when to decide again if nothing happens.
    """

    vmi: VirtualMachineInstance
    call: HandlerCall | None = None
    call_event: VMIEvent | None = None
    events: tuple[VMIEvent, ...] = ()
    look_again: timedelta | None = None
