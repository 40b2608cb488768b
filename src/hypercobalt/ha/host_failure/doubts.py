"""Collects evidence against the proof that a host is dead. Pure.

A proof is about the boot that was known when the proof was recorded. A host that has been silent
since may run instances all the same: it may have booted unobserved, and fallen silent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.fencing import Fencing, FencingMethod, proven_boots


class PowerReport(Enum):
    """Report of the fence device of a host that counts as dead, or is asserted to be dead.

    It reports the power; for a host that was cut off from its storage, the access to the storage.
    """

    OFF = auto()
    """The device read it as off a moment ago, or nothing depends on it."""
    ON = auto()
    UNKNOWN = auto()
    """The device gave the proof, and has not answered for too long since."""


@dataclass(frozen=True, slots=True)
class LatestReports:
    """The last reports of a host.

    Args:
        node_boot: boot ID that the kubelet reported last; "" for none.
        lease: when the node agent renewed its Lease last, as its Lease has it; "" for never, None:
            not known.
        power: see there.
        agent: the node agent renews its Lease.
        in_use: what shows that its disks are still in use; see `held`.
    """

    node_boot: str = ""
    lease: str | None = None
    power: PowerReport = PowerReport.OFF
    agent: bool = True
    in_use: tuple[str, ...] = ()


_LOCK: Final = re.compile(r'Failed to get (shared )?"[\w ]+" lock')
_LONGEST: Final = 120  # characters of another refusal; its cause is at the end
LOCKS_LAST: Final = timedelta(minutes=2)
"""How long the locks of a dead host may be held: NFS 4 gives it 90 s to come back."""


_ENOUGH: Final = 2
"""Targets that have to report a lock: one may be captured, and lie."""


@dataclass(frozen=True, slots=True)
class LockRefusal:
    """A start of an instance elsewhere that a lock of its disks has stopped.

    Args:
        instance: UUID.
        target: host that reports the lock.
        after: time from the proof until the report.
        text: of the report.
    """

    instance: str
    target: str
    after: timedelta
    text: str


def held(refusals: Iterable[LockRefusal]) -> tuple[str, ...]:
    """Return what shows that a host proven dead still has its disks in use; () for nothing.

    Args:
        refusals: of instances that no host has started.
    """
    late = _late(refusals)
    targets = tuple(dict.fromkeys(one.target for one in late))
    if len(targets) < _ENOUGH:
        return ()
    first = late[0]
    return (
        f"{first.after.total_seconds():.0f} s later a disk of instance "
        f"{first.instance} is in use, as {' and '.join(targets[:_ENOUGH])} report: "
        f"{refusal(first.text)}",
    )


def unconfirmed(refusals: Iterable[LockRefusal]) -> LockRefusal | None:
    """Return the first refusal that would count if another target confirmed it."""
    late = _late(refusals)
    alone = len({one.target for one in late}) < _ENOUGH
    return late[0] if late and alone else None


def _late(refusals: Iterable[LockRefusal]) -> tuple[LockRefusal, ...]:
    return tuple(one for one in refusals if one.after >= LOCKS_LAST)


def refusal(text: str) -> str:
    """Return the part of a refusal that people need: QEMU's own text begins with its command line.

    The Eviction's entry of the instance has the whole text.
    """
    lock = _LOCK.search(text)
    return lock[0] if lock is not None else text[-_LONGEST:]


def doubts(proof: Fencing, latest: LatestReports) -> tuple[str, ...]:
    """Return what shows that the host has lived after it was proven dead; () for nothing.

    Args:
        proof: a record for which `holds` is true.
        latest: see there.
    """
    against: list[str] = []
    if latest.node_boot and latest.node_boot not in proven_boots(proof):
        against.append(f"the kubelet has reported boot {latest.node_boot}")
    by_agent = proof.method == FencingMethod.AGENT  # lives, and ends new instances
    if by_agent and not latest.agent:
        against.append("the node agent that has ended every instance no longer renews its Lease")
    known = proof.leaseRenewedAt is not None and not by_agent
    if known and latest.lease and latest.lease != proof.leaseRenewedAt:
        against.append(f"the node agent renewed its Lease at {latest.lease}")
    against.extend(latest.in_use)
    if latest.power is PowerReport.ON:
        storage = proof.method == FencingMethod.STORAGE
        what = "that it reaches its storage again" if storage else "its power as on"
        against.append(f"{proof.device or 'its fence device'} reports {what}")
    return tuple(against)
