"""The protocol of fencing: who may take which step next, according to the record. Pure.

1. An attempt is recorded before the device is called: boot, method, device, deadline.
2. Only the process that recorded it calls the device, before the deadline. Another one that finds
   it waits until the deadline: the first one's call may still switch the host off.
3. The proof is recorded before any process acts on it. It is about the boot that was known then,
   and stays when nothing contradicts it (`doubts`); a boot proven dead is never fenced again.
4. A proof without a call comes first: the agent may have ended all instances, an administrator or
   another system may assert that the boot is dead. Another boot proves nothing: of a silent host
   the newest boot runs, as far as is known.
5. A host that lives, or is back with another boot, is not switched off.
6. A host that shows life after a proof must be fenced again when it is silent again.
7. Each attempt is by one kind of device. A host is cut off from its storage where no device
   switches its power, or at once after such an attempt has failed: the device may have lost its
   power with the host. The attempt after that is by the power again.
8. What may have cut a host off from its storage is recorded until the host has its storage back
   (`unfencing`), through later attempts, proofs and boots.

Source: docs/decisions, proof before evacuation; medik8s fence-agents-remediation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase, only_word
from hypercobalt.ha.host_failure.facts import HostFacts
from hypercobalt.ha.host_failure.fencing_record import (
    A_SECOND,
    confirmed,
    holds,
    is_under_way,
    may_act_late,
    proven,
    with_evidence,
)


@dataclass(frozen=True, slots=True)
class AttemptPace:
    """Times between attempts.

    Args:
        pause: wait after a failed attempt, multiplied by the number of attempts.
        longest: upper bound of that wait, and the wait after a refusal whose cause stays.
    """

    pause: timedelta = timedelta(seconds=15)
    longest: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No step: the boot is proven dead, or fencing is not due."""


@dataclass(frozen=True, slots=True)
class Record:
    """Store this record before the next step."""

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Fence:
    """Call the devices of the record's method now: this process has recorded the attempt.

    Args:
        fencing: the record.
        reached_by: the peer that alone reports that the host answers: the devices are read only.
    """

    fencing: Fencing
    reached_by: str = ""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing before this time: an attempt may be under way, or the last one has failed."""

    at: datetime


FencingStep = Nothing | Record | Fence | WaitUntil


def next_step(stored: Fencing | None, facts: HostFacts, pace: AttemptPace) -> FencingStep:
    """Return the next step.

    Args:
        stored: the record; of another boot, it only matters while its attempt may go on.
        facts: of this pass.
        pace: of the site.
    """
    now = facts.now
    if not facts.boot:
        return Nothing()
    of_boot = stored if stored is not None and _counts(stored, facts.boot) else None
    if of_boot is not None and holds(of_boot):
        return _confirmed(of_boot, facts)
    base = of_boot or _first(stored, facts)
    if free := _free(facts):
        method, proof = free
        return Record(proven(_known(base, facts), method, proof, now))
    if stored is not None and is_under_way(stored, now) and not _turns_to_storage(stored, facts):
        return _under_way(stored, facts)
    if not facts.is_dead:
        return Nothing()
    if (by := _method(base, facts)) is None:
        return _without_device(of_boot, base, facts)
    if (at := _earliest(base, facts, pace)) is not None and now < at:
        return WaitUntil(at)
    return Record(_attempt(base, by, facts))


def _counts(stored: Fencing, boot: str) -> bool:
    """Whether a record still applies: it is about the same boot, and has not been closed since."""
    return stored.bootID == boot and stored.phase != FencingPhase.RELEASED


def _confirmed(fenced: Fencing, facts: HostFacts) -> FencingStep:
    """Return the step for a boot proven dead; a report of its agent replaces any other proof."""
    now = facts.now
    if facts.is_stopped and fenced.method != FencingMethod.AGENT:
        return Record(proven(fenced, FencingMethod.AGENT, facts.stopped, now))
    if facts.asserted and facts.is_silent:
        if facts.is_unconfirmed:
            known = _known(fenced, facts)
            return Record(proven(known, FencingMethod.EXTERNAL, facts.asserted, now))
        if only_word(fenced):
            moment = now.replace(microsecond=0)
            return Record(replace(confirmed(fenced, facts.asserted), fencedAt=moment))
    return Nothing()


def _free(facts: HostFacts) -> tuple[FencingMethod, str] | None:
    if facts.is_stopped:
        return FencingMethod.AGENT, facts.stopped
    if facts.asserted and facts.is_silent:
        return FencingMethod.EXTERNAL, facts.asserted
    return None


def _under_way(stored: Fencing, facts: HostFacts) -> FencingStep:
    deadline = stored.deadline or facts.now
    mine = stored.phase == FencingPhase.ATTEMPTING and facts.mine == stored.deadline
    if mine and facts.is_dead and stored.bootID == facts.boot:
        return Fence(stored, facts.reached_by)
    return WaitUntil(deadline)  # a failed one may still take effect


def _turns_to_storage(stored: Fencing, facts: HostFacts) -> bool:
    """Whether the last attempt, on this boot's power, has failed, and storage devices are left."""
    failed = stored.phase == FencingPhase.FAILED and stored.method == FencingMethod.BMC
    of_boot = stored.bootID == facts.boot
    return failed and of_boot and facts.is_dead and bool(facts.fence.storage.devices)


def _method(base: Fencing, facts: HostFacts) -> FencingMethod | None:
    """Return the method of the next attempt; None where no device is set up."""
    if facts.fence.storage.devices and (
        not facts.fence.power.devices or _turns_to_storage(base, facts)
    ):
        return FencingMethod.STORAGE
    return FencingMethod.BMC if facts.fence.power.devices else None


def _earliest(base: Fencing, facts: HostFacts, pace: AttemptPace) -> datetime | None:
    """Return the time before which no attempt may be recorded; None for no such time."""
    moments = [
        None if _turns_to_storage(base, facts) else _pause_end(base, facts, pace),
        base.unfenceDeadline,  # the call would undo an attempt by the storage
        base.rebootDeadline,  # and this one would undo an attempt by the power
    ]
    return max((at for at in moments if at is not None), default=None)


def _without_device(of_boot: Fencing | None, base: Fencing, facts: HostFacts) -> FencingStep:
    if of_boot is not None and of_boot.phase == FencingPhase.FAILED:
        return Nothing()
    failed = replace(
        base,
        phase=FencingPhase.FAILED,
        evidence=with_evidence(facts.silence, "no fence device is set up for the host"),
    )
    return Record(failed)


def _first(stored: Fencing | None, facts: HostFacts) -> Fencing:
    """Return the first record of a boot; a call or the lack of storage may be another boot's."""
    late = stored.deadline if stored is not None and may_act_late(stored, facts.now) else None
    return Fencing(
        phase=FencingPhase.FAILED,
        bootID=facts.boot,
        attempts=0,
        deadline=late,
        storageDevice=stored.storageDevice if stored is not None else None,
        unfenceDeadline=stored.unfenceDeadline if stored is not None else None,
        rebootDeadline=stored.rebootDeadline if stored is not None else None,
        startedAt=facts.now.replace(microsecond=0),
        evidence=facts.silence,
    )


def _known(base: Fencing, facts: HostFacts) -> Fencing:
    """Return the record with the present state of the host: any later report is a sign of life."""
    node_boot = facts.latest.node_boot
    newer = node_boot if node_boot != base.bootID else ""
    return replace(
        base,
        nodeBootID=newer or None,
        leaseRenewedAt=facts.latest.lease,
    )


def _attempt(base: Fencing, method: FencingMethod, facts: HostFacts) -> Fencing:
    """Record an attempt; it keeps the later deadline of a power attempt that has just failed."""
    storage = method == FencingMethod.STORAGE
    means = facts.fence.storage if storage else facts.fence.power
    until = (facts.now + means.lasts).replace(microsecond=0) + A_SECOND
    return replace(
        _known(base, facts),
        phase=FencingPhase.ATTEMPTING,
        method=method,
        device=means.devices,
        storageDevice=means.devices if storage else base.storageDevice,
        refused=None,
        refusedSetup=None,
        attempts=(base.attempts or 0) + 1,
        deadline=max(until, base.deadline) if base.deadline is not None else until,
    )


def _pause_end(failed: Fencing, facts: HostFacts, pace: AttemptPace) -> datetime | None:
    if failed.deadline is None or failed.phase != FencingPhase.FAILED or not failed.attempts:
        return None
    if failed.refused:
        changed = facts.fence.version not in {"", failed.refusedSetup}
        return failed.deadline if changed else failed.deadline + pace.longest
    return failed.deadline + min(pace.pause * failed.attempts, pace.longest)
