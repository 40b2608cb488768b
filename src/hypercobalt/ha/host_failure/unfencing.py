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
from datetime import timedelta

from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, is_declared_dead, proven_boots
from hypercobalt.ha.host_failure.facts import HostFacts, healthy_since
from hypercobalt.ha.host_failure.fencing import Nothing, Record, WaitUntil
from hypercobalt.ha.host_failure.fencing_record import with_evidence

_NAMED = 3  # instances in a message


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Call the storage devices now: this process has recorded the attempt."""

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Held:
    """The host stays cut off from its storage.

    Args:
        why: for people; "" while no action is needed since the host is not in order yet.
    """

    why: str


UnfencingStep = Nothing | Record | GiveBack | WaitUntil | Held


def next_step(stored: Fencing, facts: HostFacts) -> UnfencingStep:
    """Return the next step; `Nothing` for a host that has its storage.

    Args:
        stored: the record.
        facts: of this pass.
    """
    now = facts.now
    if stored.storageDevice is None:
        return Nothing()
    if is_declared_dead(stored) and healthy_since(facts.hypervisor) is None:
        return Held("")
    if why := _unclean(stored, facts):
        return Held(f"{stored.storageDevice} keeps the host cut off from its storage: {why}")
    if stored.deadline is not None and now < stored.deadline:
        return WaitUntil(stored.deadline)  # a late call may still cut the host off
    if stored.unfenceDeadline is not None and now < stored.unfenceDeadline:
        mine = facts.mine == stored.unfenceDeadline
        return GiveBack(stored) if mine else WaitUntil(stored.unfenceDeadline)
    if not facts.fence.storage.devices:
        return Held(
            f"{stored.storageDevice} has cut the host off from its storage, and is not among its "
            "fence devices any more: set it up again"
        )
    until = (now + facts.fence.storage.lasts).replace(microsecond=0) + timedelta(seconds=1)
    return Record(replace(stored, unfenceDeadline=until))


def given_back(stored: Fencing) -> Fencing:
    """Return the record once every device reports that the host reaches its storage."""
    text = f"{stored.storageDevice} reports that the host reaches its storage again"
    return replace(stored, storageDevice=None, evidence=with_evidence(stored.evidence, text))


def _unclean(stored: Fencing, facts: HostFacts) -> str:
    """Return why the host could write to disks that others write; "" where it could not."""
    if not is_declared_dead(stored):
        return ""
    if not facts.boot or facts.boot in proven_boots(stored):
        return f"its boot {facts.boot} was fenced; reboot the host"
    if facts.is_booted_since:
        return f"the node agent has not reported boot {facts.latest.node_boot} yet"
    # Launcher pods are started on no other host, so none of them runs elsewhere.
    instances = [one for one in facts.hypervisor.status.instances if one.namespace is None]
    if running := [guest.name for guest in instances if guest.active]:
        more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
        return f"instances run there: {', '.join(running[:_NAMED])}{more}"
    return ""
