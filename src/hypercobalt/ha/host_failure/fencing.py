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
class Pace:
    """Times between attempts.

    Args:
        pause: wait after a failed attempt, multiplied by the number of attempts.
        longest: upper bound of that wait, and the wait after a refusal that nobody has mended.
    """

    pause: timedelta = timedelta(seconds=15)
    longest: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Means:
    """Fence devices of a host that cut it off from the same thing.

    Args:
        devices: for people; "" for none.
        lasts: how long an attempt with them may take, retries and all.
    """

    devices: str = ""
    lasts: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that decide the next step.

    Args:
        boot: ID of the boot to fence, as the node agent reported last; "" for none, when nothing
            can be proven.
        node_boot: boot ID that the kubelet reported last; "" for none.
        stopped: what shows that the boot's agent has ended all its instances; "" for nothing.
        lease: when the node agent last renewed its Lease, as recorded there; "" for never,
            None: not known.
        asserted: who asserts that `boot` is dead, and how; "" for none. It counts only while
            nothing shows that the host lives.
        power: devices that switch the host's power.
        storage: devices that cut the host off from its storage.
        silent: nothing of the host answers.
        dead: it has been silent for long enough, and all gates are open.
        evidence: texts for people that explain this.
        mine: deadline of the attempt that this process has recorded and not called yet.
        unconfirmed: the device that has given the proof does not report the power any more.
        setup: version of the devices' document and Secrets; "" where it is not known.
    """

    boot: str
    node_boot: str
    lease: str | None
    stopped: str
    asserted: str
    power: Means
    storage: Means
    silent: bool
    dead: bool
    evidence: tuple[str, ...]
    mine: datetime | None
    unconfirmed: bool = False
    setup: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No step: the boot is proven dead, or fencing is not due."""


@dataclass(frozen=True, slots=True)
class Record:
    """Store this record before the next step."""

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """Call the devices of the record's method now: this process has recorded the attempt."""

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Do nothing before this time: an attempt may be under way, or the last one has failed."""

    at: datetime


FencingStep = Nothing | Record | SwitchOff | WaitUntil


def next_step(stored: Fencing | None, facts: Facts, pace: Pace, now: datetime) -> FencingStep:
    """Return the next step.

    Args:
        stored: the record; of another boot, it only matters while its attempt may go on.
        facts: of this pass.
        pace: of the site.
        now: the clock of the record.
    """
    if not facts.boot:
        return Nothing()
    of_boot = stored if stored is not None and _counts(stored, facts.boot) else None
    if of_boot is not None and holds(of_boot):
        return _confirmed(of_boot, facts, now)
    base = of_boot or _first(stored, facts, now)
    if free := _free(facts):
        method, proof = free
        return Record(proven(_known(base, facts), method, proof, now))
    if stored is not None and is_under_way(stored, now) and not _turns_to_storage(stored, facts):
        return _under_way(stored, facts, now)
    if not facts.dead:
        return Nothing()
    if (by := _method(base, facts)) is None:
        return _without_device(of_boot, base, facts)
    if (at := _earliest(base, facts, pace)) is not None and now < at:
        return WaitUntil(at)
    return Record(_attempt(base, by, facts, now))


def _counts(stored: Fencing, boot: str) -> bool:
    """Whether a record still applies: it is about the same boot, and has not been closed since."""
    return stored.bootID == boot and stored.phase != FencingPhase.RELEASED


def _confirmed(fenced: Fencing, facts: Facts, now: datetime) -> FencingStep:
    """Return the step for a boot proven dead; a report of its agent replaces any other proof."""
    if facts.stopped and fenced.method != FencingMethod.AGENT:
        return Record(proven(fenced, FencingMethod.AGENT, facts.stopped, now))
    if facts.asserted and facts.silent:
        if facts.unconfirmed:
            known = _known(fenced, facts)
            return Record(proven(known, FencingMethod.EXTERNAL, facts.asserted, now))
        if only_word(fenced):
            moment = now.replace(microsecond=0)
            return Record(replace(confirmed(fenced, facts.asserted), fencedAt=moment))
    return Nothing()


def _free(facts: Facts) -> tuple[FencingMethod, str] | None:
    if facts.stopped:
        return FencingMethod.AGENT, facts.stopped
    if facts.asserted and facts.silent:
        return FencingMethod.EXTERNAL, facts.asserted
    return None


def _under_way(stored: Fencing, facts: Facts, now: datetime) -> FencingStep:
    deadline = stored.deadline or now
    mine = stored.phase == FencingPhase.ATTEMPTING and facts.mine == stored.deadline
    if mine and facts.dead and stored.bootID == facts.boot:
        return SwitchOff(stored)
    return WaitUntil(deadline)  # a failed one may still take effect


def _turns_to_storage(stored: Fencing, facts: Facts) -> bool:
    """Whether the last attempt, on this boot's power, has failed, and storage devices are left."""
    failed = stored.phase == FencingPhase.FAILED and stored.method == FencingMethod.BMC
    of_boot = stored.bootID == facts.boot
    return failed and of_boot and facts.dead and bool(facts.storage.devices)


def _method(base: Fencing, facts: Facts) -> FencingMethod | None:
    """Return the method of the next attempt; None where no device is set up."""
    if facts.storage.devices and (not facts.power.devices or _turns_to_storage(base, facts)):
        return FencingMethod.STORAGE
    return FencingMethod.BMC if facts.power.devices else None


def _earliest(base: Fencing, facts: Facts, pace: Pace) -> datetime | None:
    """Return the time before which no attempt may be recorded; None for no such time."""
    moments = [
        None if _turns_to_storage(base, facts) else _pause_end(base, facts, pace),
        base.unfenceDeadline,  # the call would undo an attempt by the storage
        base.rebootDeadline,  # and this one would undo an attempt by the power
    ]
    return max((at for at in moments if at is not None), default=None)


def _without_device(of_boot: Fencing | None, base: Fencing, facts: Facts) -> FencingStep:
    if of_boot is not None and of_boot.phase == FencingPhase.FAILED:
        return Nothing()
    failed = replace(
        base,
        phase=FencingPhase.FAILED,
        evidence=with_evidence(facts.evidence, "no fence device is set up for the host"),
    )
    return Record(failed)


def _first(stored: Fencing | None, facts: Facts, now: datetime) -> Fencing:
    """Return the first record of a boot; a call or the lack of storage may be another boot's."""
    late = stored.deadline if stored is not None and may_act_late(stored, now) else None
    return Fencing(
        phase=FencingPhase.FAILED,
        bootID=facts.boot,
        attempts=0,
        deadline=late,
        storageDevice=stored.storageDevice if stored is not None else None,
        unfenceDeadline=stored.unfenceDeadline if stored is not None else None,
        rebootDeadline=stored.rebootDeadline if stored is not None else None,
        startedAt=now.replace(microsecond=0),
        evidence=facts.evidence,
    )


def _known(base: Fencing, facts: Facts) -> Fencing:
    """Return the record with the present state of the host: any later report is a sign of life."""
    newer = facts.node_boot if facts.node_boot != base.bootID else ""
    return replace(
        base,
        nodeBootID=newer or None,
        leaseRenewedAt=facts.lease,
    )


def _attempt(base: Fencing, method: FencingMethod, facts: Facts, now: datetime) -> Fencing:
    """Record an attempt; it keeps the later deadline of a power attempt that has just failed."""
    storage = method == FencingMethod.STORAGE
    means = facts.storage if storage else facts.power
    until = (now + means.lasts).replace(microsecond=0) + A_SECOND
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


def _pause_end(failed: Fencing, facts: Facts, pace: Pace) -> datetime | None:
    if failed.deadline is None or failed.phase != FencingPhase.FAILED or not failed.attempts:
        return None
    if failed.refused:
        changed = facts.setup not in {"", failed.refusedSetup}
        return failed.deadline if changed else failed.deadline + pace.longest
    return failed.deadline + min(pace.pause * failed.attempts, pace.longest)
