"""The facts of a pass over a host, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Assertion, Fencing
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.api.recovery import Recovery
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure.doubts import Latest
from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.ha.host_failure.node_failure import HostVerdict, Question
from hypercobalt.operator.ha.devices.fences import Setup

BEFORE: Final = "kvm.cloud.sap/maintenance-before-ha"
"""Annotation of a Hypervisor: the mode that comes back when the HA service gives the host back."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a host that is unwell, or was.

    Args:
        hypervisor: as just read.
        verdict: what its signs mean.
        ready: status of its Node's condition Ready.
        latest: its last reports.
        silenced: why no action may be taken on this host; "" for no reason.
        abandoned: the host is silenced, and not only while the compute service cannot be read.
        gates: every gate's answer.
        host: as the compute service has it; None when it has no such host or could not be read.
        evictions: of all its instances, that are not being deleted.
        fence: fence devices that are set up for it.
        stopped: what shows that its agent has ended all its instances; "" for nothing.
        asserted: who asserts that its boot is dead; "" for none.
        rejected: why such an assertion does not count; "" for none.
        assertion: the record of an assertion that the host is dead; None for none.
        mine: see `hypercobalt.ha.host_failure.fencing.Facts`.
        now: the only clock of a decision.
        question: to peers, with their answers; None: none counts.
        unstored: servers that have left the host, and are recorded with it alone; None: not known.
            Read only while the Hypervisor is being deleted.
        fell: other hosts that are proven dead, and when each fell silent; {} unless this one is.
    """

    hypervisor: Hypervisor
    verdict: HostVerdict
    ready: str
    latest: Latest
    silenced: str
    abandoned: bool
    gates: tuple[Gate, ...]
    host: Host | None
    evictions: tuple[Eviction, ...]
    fence: Setup
    stopped: str
    asserted: str
    rejected: str
    assertion: Assertion | None
    mine: datetime | None
    now: datetime
    question: Question | None = None
    unstored: frozenset[str] | None = frozenset()
    fell: Mapping[str, datetime] = field(default_factory=dict[str, datetime])


@dataclass(frozen=True, slots=True)
class AskPeers:
    """Have other hosts' agents probe whether a program of this one answers."""


@dataclass(frozen=True, slots=True)
class SetMaintenance:
    """Set `spec.maintenance`, and note the mode to restore afterwards.

    Args:
        mode: the new one.
        before: the one that comes back; "" for none.
    """

    mode: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Fence:
    """Call the fence devices of the record's method; the attempt is recorded.

    Args:
        fencing: the record.
        reached_by: the peer that alone reports that the host answers: the devices are read only.
    """

    fencing: Fencing
    reached_by: str = ""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give a host that was cut off its storage back; the attempt is recorded.

    Args:
        fencing: the record.
    """

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Reboot:
    """Switch a host that was fenced wrongly and is empty off and on; the order is recorded.

    Args:
        fencing: the record.
    """

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class ForceDown:
    """Declare the host dead in the compute service: the proof is recorded.

    Args:
        fencing: the record.
    """

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Have a host that is back no longer count as dead, and clean it of evacuated servers.

    Args:
        host: as the compute service has it.
        fencing: the record, closed: it is stored once that is done.
    """

    host: Host
    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Evict:
    """Have all instances moved or evacuated."""

    eviction: Eviction


@dataclass(frozen=True, slots=True)
class DeleteEviction:
    """Delete an Eviction that is not needed any more."""

    eviction: Eviction


Action = (
    AskPeers
    | SetMaintenance
    | Fence
    | GiveBack
    | Reboot
    | ForceDown
    | TakeBack
    | Evict
    | DeleteEviction
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass does: at most one action, then one write of the status.

    Args:
        unhealthy_since: for the status.
        fencing: for the status.
        assertion: for the status.
        removes_assertion: remove the disproved annotation that asserts that the host is dead.
        blocked: reason and message of `RecoveryBlocked`; None leaves the condition as it is.
        action: to be taken before that.
        look_again: after this long; None waits for a change.
        recovery: for the status; see `hypercobalt.operator.ha.recording.phase`.
        returns: the host is Ready in another boot than those that were proven dead.
    """

    unhealthy_since: datetime | None
    fencing: Fencing | None
    blocked: tuple[RecoveryBlockedReason, str] | None = None
    action: Action | None = None
    look_again: timedelta | None = None
    recovery: Recovery | None = None
    assertion: Assertion | None = None
    removes_assertion: bool = False
    returns: bool = False
