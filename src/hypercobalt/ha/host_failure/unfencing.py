"""Decides when a host that was cut off from its storage gets the storage back. Pure.

1. Where instances may run elsewhere, the host must be clean: its node agent reports a boot other
   than those proven dead, and no running instance. A guest of the old boot would write data from
   its memory to disks that others write by now.
2. At once where nothing was begun because of the fencing: the host was away, and its guests wait.
3. The attempt is recorded before the devices are called, with its process and a deadline. No
   attempt to cut the host off begins before that: a late call would undo it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, is_declared_dead, proven_boots
from hypercobalt.ha.host_failure.fencing import Means, Nothing, Record, WaitUntil
from hypercobalt.ha.host_failure.fencing_record import with_evidence

_NAMED = 3  # instances in a message


@dataclass(frozen=True, slots=True)
class Back:
    """State of a host that lives.

    Args:
        boot: boot ID that its node agent reports; "" for none.
        node_boot: boot ID that its kubelet reports; "" for none.
        reporting: Node, node agent and libvirt are in order.
        running: names of the instances that run there.
        storage: devices that have to give the host its storage back.
        mine: deadline of the attempt that this process has recorded and not made yet.
    """

    boot: str
    node_boot: str
    reporting: bool
    running: tuple[str, ...]
    storage: Means
    mine: datetime | None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Call the storage devices now: this process has recorded the attempt."""

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Held:
    """The host stays cut off from its storage.

    Args:
        why: for people; "" while nobody has to act since the host is not in order yet.
    """

    why: str


Step = Nothing | Record | GiveBack | WaitUntil | Held


def next_step(stored: Fencing, back: Back, now: datetime) -> Step:
    """Return the next step; `Nothing` for a host that has its storage.

    Args:
        stored: the record.
        back: see there.
        now: the clock of the record.
    """
    if stored.storageDevice is None:
        return Nothing()
    if is_declared_dead(stored) and not back.reporting:
        return Held("")
    if why := _unclean(stored, back):
        return Held(f"{stored.storageDevice} keeps the host cut off from its storage: {why}")
    if stored.deadline is not None and now < stored.deadline:
        return WaitUntil(stored.deadline)  # a late call may still cut the host off
    if stored.unfenceDeadline is not None and now < stored.unfenceDeadline:
        mine = back.mine == stored.unfenceDeadline
        return GiveBack(stored) if mine else WaitUntil(stored.unfenceDeadline)
    if not back.storage.devices:
        return Held(
            f"{stored.storageDevice} has cut the host off from its storage, and is not among its "
            "fence devices any more: set it up again"
        )
    until = (now + back.storage.lasts).replace(microsecond=0) + timedelta(seconds=1)
    return Record(replace(stored, unfenceDeadline=until))


def given_back(stored: Fencing) -> Fencing:
    """Return the record once every device reports that the host reaches its storage."""
    text = f"{stored.storageDevice} reports that the host reaches its storage again"
    return replace(stored, storageDevice=None, evidence=with_evidence(stored.evidence, text))


def _unclean(stored: Fencing, back: Back) -> str:
    """Return why the host could write to disks that others write; "" where it could not."""
    if not is_declared_dead(stored):
        return ""
    if not back.boot or back.boot in proven_boots(stored):
        return f"its boot {back.boot} was fenced; reboot the host"
    if back.node_boot not in {"", back.boot}:
        return f"the node agent has not reported boot {back.node_boot} yet"
    if back.running:
        more = f" and {len(back.running) - _NAMED} more" if len(back.running) > _NAMED else ""
        return f"instances run there: {', '.join(back.running[:_NAMED])}{more}"
    return ""
