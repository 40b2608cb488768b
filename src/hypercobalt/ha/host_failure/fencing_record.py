"""The record of a fencing: what it proves, what may still act, and how it changes. Pure.

The steps that make and follow the record are in `hypercobalt.ha.host_failure.fencing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase

_LONGEST_CALL = timedelta(seconds=640)
"""Time of one call: one device's longest timeout, and the readings before and after.

A process that no longer leads calls no other device.
"""
A_SECOND = timedelta(seconds=1)
_MOST = 12  # texts of evidence that are kept: the first, and the newest ones
_LONGEST = 500  # characters of one


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """Answer of the device.

    Args:
        off: the power, or the access to the storage, is read as off.
        text: for people.
        second: independent source that reports the same; "" for none.
        already: it was off without an order, so nothing has shown that the device obeys.
        acts_late: an order was given, and may act yet.
        refused: what a person has to correct before another attempt can succeed; "" for nothing.
        setup: the document and Secrets that were used, to see whether they have been changed.
    """

    off: bool
    text: str
    second: str = ""
    already: bool = False
    acts_late: bool = True
    refused: str = ""
    setup: str = ""


def holds(stored: Fencing) -> bool:
    """Whether the boot is proven dead, and has shown no life since."""
    return stored.phase == FencingPhase.FENCED and stored.livesSince is None


def is_under_way(stored: Fencing, now: datetime) -> bool:
    """Whether a recorded attempt may still switch the host off, of any boot."""
    begun = stored.phase in {FencingPhase.ATTEMPTING, FencingPhase.FAILED}
    return begun and stored.deadline is not None and now < stored.deadline


def is_overtaken(before: Fencing | None, after: Fencing | None) -> bool:
    """Whether a host that was proven dead until now shows life."""
    if before is None or after is None or after.phase == FencingPhase.RELEASED:
        return False
    return holds(before) and not holds(after)


def may_act_late(stored: Fencing, now: datetime) -> bool:
    """Whether a call may still switch the host off, though another proof exists.

    A call whose answer is the proof is over.
    """
    proven = stored.phase == FencingPhase.FENCED and stored.method != FencingMethod.BMC
    late = proven and stored.deadline is not None and now < stored.deadline
    reboots = stored.rebootDeadline is not None and now < stored.rebootDeadline
    return late or reboots or is_under_way(stored, now)


def late_until(stored: Fencing) -> datetime | None:
    """Return when no call that may act late acts any more; None for no such call."""
    moments = (stored.deadline, stored.rebootDeadline)
    return max((at for at in moments if at is not None), default=None)


def by_this_clock(stored: Fencing, lasts: timedelta, now: datetime) -> Fencing:
    """Return the record with no time further ahead of the clock than when it was recorded.

    After the clock was set back an attempt would count as under way for that much longer, and its
    host would not be fenced, or not get its storage back. The attempt may be under way for as long
    as a call takes; the process that has recorded it makes another one instead.

    Args:
        stored: the record.
        lasts: how long an attempt may take, see `fencing.Means`.
        now: the clock of the record.
    """
    longest = (now + lasts + _LONGEST_CALL).replace(microsecond=0)
    awaited = may_act_late(stored, now) or stored.storageDevice is not None
    moved = replace(
        stored,
        poweredSince=_no_later(stored.poweredSince, now.replace(microsecond=0)),
        deadline=_no_later(stored.deadline, longest) if awaited else stored.deadline,
        unfenceDeadline=_no_later(stored.unfenceDeadline, longest),
        rebootDeadline=_no_later(stored.rebootDeadline, longest + lasts),
    )
    if moved.deadline == stored.deadline or not is_under_way(stored, now):
        return moved
    text = f"attempt {stored.attempts}: its deadline was moved, because the clock was set back"
    evidence = with_evidence(stored.evidence, text)
    return replace(moved, phase=FencingPhase.FAILED, evidence=evidence)


def _no_later(at: datetime | None, bound: datetime) -> datetime | None:
    return None if at is None else min(at, bound)


def answered(stored: Fencing, answer: DeviceAnswer, now: datetime) -> Fencing:
    """Return the record after the answer of a device: with a proof, or as a failed attempt.

    The deadline stays if an order was given: a device may switch off later than it answers.
    """
    doubt = stored.contradictedBy if answer.already and not answer.second else None
    if answer.off and not doubt:
        method = FencingMethod(stored.method or FencingMethod.BMC)
        return confirmed(proven(stored, method, answer.text, now), answer.second)
    text = f"{answer.text}; not believed, since {doubt}" if doubt else answer.text
    evidence = with_evidence(stored.evidence, f"attempt {stored.attempts}: {text}")
    ended = stored.deadline
    if ended is not None and not answer.acts_late:
        ended = min(ended, now.replace(microsecond=0))
    return replace(
        stored,
        phase=FencingPhase.FAILED,
        deadline=ended,
        refused=answer.refused[:_LONGEST] or None,
        refusedSetup=answer.setup if answer.refused else None,
        evidence=evidence,
    )


def void(stored: Fencing, evidence: tuple[str, ...], now: datetime) -> Fencing:
    """Return the record of a proof that was wrong; reports about it no longer count."""
    texts = stored.evidence
    for text in evidence:
        texts = with_evidence(texts, f"the proof was wrong: {text}")
    return replace(
        stored,
        phase=FencingPhase.FAILED,
        proof=None,
        startedAt=_anew(stored, now),
        fencedAt=None,
        evidence=texts,
    )


def overtaken(
    stored: Fencing,
    evidence: tuple[str, ...],
    now: datetime,
    *,
    powered: bool = False,
    contradicted: str = "",
) -> Fencing:
    """Return the record of a boot proven dead whose host shows life since, in any boot.

    Nothing was started elsewhere before the host was declared down. Earlier reports of its agent no
    longer count: the agent has to end what was started since, and report that.

    Args:
        stored: the proof.
        evidence: the signs of life.
        now: the clock of the record.
        powered: the host's power is on again, and nothing else is known.
        contradicted: evidence against the report of its fence device; "" for none.
    """
    texts = stored.evidence
    for text in evidence:
        texts = with_evidence(texts, f"the host shows life after the proof: {text}")
    since, begun = now.replace(microsecond=0), stored.forcedDownAt is not None
    return replace(
        stored,
        phase=stored.phase if begun else FencingPhase.FAILED,
        livesSince=since if begun else None,
        poweredSince=since if powered else None,
        contradictedBy=contradicted[:_LONGEST] or stored.contradictedBy,
        startedAt=_anew(stored, now),
        evidence=texts,
    )


def unproven(shown: Fencing, now: datetime) -> Fencing:
    """Return the first record of a host whose status shows a record that the operator has not made.

    The host may have written it, or an operator from before records were kept apart. So its proof
    does not count, but its warnings do: a call that may be under way, storage that must be given
    back, instances that may run elsewhere. Its order does not count either: the agent's answer to
    it would prove nothing, since the host would have written both. The operator gives its own order
    next.
    """
    if shown.phase == FencingPhase.RELEASED:
        return shown
    voided = overtaken(shown, ("no operator has recorded the proof",), now)
    return replace(voided, startedAt=None)


def reordered(stored: Fencing, now: datetime) -> Fencing:
    """Renew the order once the agent is silent: its report may not cover later starts."""
    return replace(stored, startedAt=_anew(stored, now))


def _anew(stored: Fencing, now: datetime) -> datetime:
    """Return a new start of the order that no report is about yet.

    This also holds within the same second, and after a step of the clock.
    """
    at = now.replace(microsecond=0)
    return max(at, stored.startedAt + A_SECOND) if stored.startedAt else at


def released(stored: Fencing, boot: str) -> Fencing:
    """Return the record of a host that is back."""
    evidence = with_evidence(stored.evidence, f"the host is back with boot {boot}")
    return replace(stored, phase=FencingPhase.RELEASED, evidence=evidence)


def proven(base: Fencing, method: FencingMethod, proof: str, now: datetime) -> Fencing:
    return replace(
        base,
        phase=FencingPhase.FENCED,
        method=method,
        proof=proof[:_LONGEST],
        fencedAt=now.replace(microsecond=0),
        refused=None,
        refusedSetup=None,
        confirmedBy=None,
        contradictedBy=None,
        livesSince=None,
        poweredSince=None,
        evidence=with_evidence(base.evidence, proof),
    )


def confirmed(fenced: Fencing, second: str) -> Fencing:
    """Return the record of a proof with what has confirmed it independently; "" leaves it."""
    if not second:
        return fenced
    text = second[:_LONGEST]
    evidence = with_evidence(fenced.evidence, f"confirmed: {text}")
    return replace(fenced, confirmedBy=text, evidence=evidence)


def with_evidence(texts: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the texts and one more; beyond the limit, the oldest after the first are dropped."""
    every = (*texts, text[:_LONGEST])
    return every if len(every) <= _MOST else (every[0], *every[-_MOST + 1 :])
