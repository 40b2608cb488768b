"""What one pass does with an Eviction, and what it writes. Pure.

Two halves, because what begins depends on rooms that are only asked for when something may begin:
`look` says how far everything is, `settle` makes the status of it after the calls were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal

from msgspec.structs import replace as with_fields

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import (
    CheckResult,
    Eviction,
    EvictionConditionType,
    EvictionInstance,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
    Trigger,
)
from hypercobalt.operator.eviction import status as texts
from hypercobalt.operator.eviction.follow import LOST, Moment, Standing, Step
from hypercobalt.operator.eviction.plan import Start
from hypercobalt.operator.eviction.policy import Order, Policy
from hypercobalt.operator.eviction.preflight import Preflight

IDLE: Final = timedelta(seconds=10)
"""While nothing is under way: the compute service tells nobody that a host was disabled or an
instance was built."""

_SLOWEST: Final = timedelta(seconds=2)
_FASTEST: Final = timedelta(milliseconds=200)
_FIRST: Final = timedelta(milliseconds=500)
_SHARE: Final = 0.1  # of a move's length that may pass before its end is noticed
_EARLY: Final = 0.7  # of the time until the first move should end: lengths stray

WRITE_APART: Final = timedelta(seconds=1)
"""Progress is written at most so often: for people, who look no more often."""

WRITE_TEXTS_APART: Final = timedelta(seconds=10)
"""What only words and the estimate say may wait so long."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call for one instance ended.

    Args:
        step: what was called for.
        start: the move, when one was to begin.
        refusal: why not, in the service's words; "" when it was taken on.
        unknown: nothing is known of what the call did.
        needless: there was nothing to call for.
    """

    step: Step
    start: Start | None = None
    refusal: str = ""
    unknown: bool = False
    needless: bool = False

    @property
    def lost(self) -> bool:
        """Whether the instance stays in the ERROR that its move left it in."""
        return self.step is Step.RECOVER and bool(self.refusal) and not self.unknown


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to record."""

    type: Literal["Normal", "Warning"]
    reason: str
    text: str


def order_of(eviction: Eviction, policy: Policy) -> Order:
    """Which instances go first: before a shutdown the running ones, and as many as possible."""
    if eviction.spec.trigger == Trigger.HOST_SHUTDOWN:
        return Order.URGENT
    return policy.order


def after(
    standings: Sequence[Standing], outcomes: Mapping[str, Outcome], policy: Policy, moment: Moment
) -> tuple[Standing, ...]:
    """The standings after the calls were made."""
    return tuple(
        _after(standing, outcomes[standing.id], policy, moment)
        if standing.id in outcomes
        else standing
        for standing in standings
    )


def _after(standing: Standing, outcome: Outcome, policy: Policy, moment: Moment) -> Standing:
    if outcome.step is not Step.START or outcome.start is None:
        return _after_other(standing, outcome, policy, moment)
    target = outcome.start.target
    entry = with_fields(standing.seen.entry, target=target or None)
    seen = replace(standing.seen, entry=entry)
    if outcome.unknown:
        # It may have begun all the same: the next passes will see, and it holds its place.
        return replace(
            standing,
            seen=seen,
            phase=InstancePhase.MIGRATING,
            occupies=True,
            message=outcome.refusal,
        )
    attempts = standing.attempts + 1
    if not outcome.refusal:
        return replace(
            standing,
            seen=seen,
            phase=InstancePhase.MIGRATING,
            attempts=attempts,
            occupies=True,
            message="",
        )
    wait = policy.retry_after.total_seconds() * 2**standing.attempts
    given_up = attempts >= policy.attempts
    why = outcome.refusal
    return replace(
        standing,
        seen=replace(seen, entry=with_fields(entry, target=None)),
        phase=InstancePhase.FAILED if given_up else InstancePhase.PENDING,
        attempts=attempts,
        message=f"{why}; given up after {attempts} attempts" if given_up else why,
        track=replace(
            standing.track,
            move="refused",
            not_before=moment.at + wait,
            refused=standing.track.refused | ({target} if target else set()),
        ),
    )


def _after_other(standing: Standing, outcome: Outcome, policy: Policy, moment: Moment) -> Standing:
    if outcome.needless:
        text = f"moved to {standing.seen.move.target}" if standing.seen.move else ""
        return replace(standing, phase=InstancePhase.SUCCEEDED, message=text)
    if not outcome.refusal:
        return standing
    move = standing.seen.move
    if outcome.lost and move is not None:
        track = replace(standing.track, move=f"{LOST}{move.id}")
        text = f"is in ERROR after its move; {outcome.refusal}"
        return replace(standing, phase=InstancePhase.FAILED, track=track, message=text)
    wait = policy.retry_after.total_seconds()
    track = replace(standing.track, not_before=moment.at + wait)
    return replace(standing, track=track, message=f"{standing.message}; {outcome.refusal}")


@dataclass(frozen=True, slots=True)
class Settled:
    """What a pass ends with.

    Args:
        status: all of it.
        notes: Events to record.
        ended: the Eviction is over.
    """

    status: EvictionStatus
    notes: tuple[Note, ...]
    ended: bool


def is_done(standings: Sequence[Standing], found: Preflight) -> bool:
    """Whether nothing is left to do, as far as this pass knows."""
    return not found.obstacles and not any(s.phase in texts.OPEN for s in standings)


def settle(
    eviction: Eviction,
    before: EvictionStatus,
    standings: Sequence[Standing],
    found: Preflight,
    *,
    policy: Policy,
    moment: Moment,
    seconds_left: float | None,
    verified: bool,
) -> Settled:
    """Make the status of what was found and done.

    Args:
        eviction: as read.
        before: the status as it was decided last.
        standings: after the calls.
        found: by the checks.
        policy: for the order.
        moment: now.
        seconds_left: as estimated.
        verified: the compute service has confirmed that nothing is left.
    """
    host = eviction.spec.hypervisor
    status = texts.with_instances(before, standings, order_of(eviction, policy), moment.now)
    status = texts.with_progress(status, seconds_left, moment)
    status = with_fields(status, checks=found.checks)
    conditions = texts.Conditions(before.conditions, eviction.metadata.generation, moment.now)
    texts.set_preflight(conditions, found)
    texts.set_migrating(conditions, status)
    ended = verified and is_done(standings, found)
    if ended:
        texts.set_ended(conditions, status, host)
    else:
        texts.set_running(conditions, status, host)
    status = with_fields(status, conditions=conditions.value)
    return Settled(status, notes(before, status, host), ended)


def notes(before: EvictionStatus, now: EvictionStatus, host: str) -> tuple[Note, ...]:
    """The Events between two states: the start, each failure, the end."""
    found: list[Note] = []
    if not _reason(before, EvictionConditionType.EVICTING):
        text = f"Moving {texts.count(len(now.outstandingInstances))} away from {host}"
        found.append(Note("Normal", "EvictionStarted", text))
    preflight = get_condition(now.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
    was = get_condition(before.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
    fails = preflight is not None and preflight.status == "False" and not _passes_soon(now)
    if preflight and fails and (not was or was.message != preflight.message):
        found.append(Note("Warning", "PreflightFailed", preflight.message))
    old = {entry.id: entry for entry in before.instances}
    for entry in now.instances:
        found += _entry_notes(old.get(entry.id), entry)
    evicting = get_condition(now.conditions, EvictionConditionType.EVICTING)
    if evicting and evicting.status == "False":
        good = evicting.reason == EvictionReason.SUCCEEDED
        kind: Literal["Normal", "Warning"] = "Normal" if good else "Warning"
        found.append(Note(kind, f"Eviction{evicting.reason}", evicting.message))
    return tuple(found)


def _passes_soon(status: EvictionStatus) -> bool:
    stopped_by = {c.result for c in status.checks} & {CheckResult.PENDING, CheckResult.FAILED}
    return stopped_by == {CheckResult.PENDING}


def _entry_notes(old: EvictionInstance | None, entry: EvictionInstance) -> list[Note]:
    was = old.phase if old else None
    if entry.phase == InstancePhase.FAILED and was != InstancePhase.FAILED:
        text = f"Instance {texts.called(entry)}: {entry.message}"
        return [Note("Warning", "InstanceNotMoved", text)]
    retried = (
        entry.phase == InstancePhase.PENDING
        and entry.attempts
        and entry.message
        and (old is None or was == InstancePhase.MIGRATING or old.attempts != entry.attempts)
    )
    if retried:
        text = f"Instance {texts.called(entry)}, attempt {entry.attempts}: {entry.message}"
        return [Note("Warning", "MoveFailed", text)]
    return []


def _reason(status: EvictionStatus, type_: str) -> str:
    found = get_condition(status.conditions, type_)
    return found.reason if found else ""


def write_after(written: EvictionStatus, now: EvictionStatus, since: float) -> timedelta | None:
    """How long a write may wait; zero: not at all; None: there is nothing to write.

    Args:
        written: the status as the API has it.
        now: as it should be.
        since: seconds since this process wrote last.
    """
    if written == now:
        return None
    if _marks(written) != _marks(now):
        return timedelta(0)
    moved = _phases(written) != _phases(now)
    apart = WRITE_APART if moved else WRITE_TEXTS_APART
    return max(apart - timedelta(seconds=min(since, 1e6)), timedelta(0))


def _marks(status: EvictionStatus) -> list[tuple[str, str, str]]:
    """What programs wait for; of the running state it is the reason, not its words."""
    return [(c.type, c.status, c.reason) for c in status.conditions]


def _phases(status: EvictionStatus) -> list[tuple[str, str | None, str | None]]:
    return [(entry.id, entry.phase, entry.target) for entry in status.instances]


def is_quiet(standings: Iterable[Standing]) -> bool:
    """Whether a move is under way, and only its end makes a difference: others wait for a place.

    A move that was begun and has no record yet is not under way for sure.
    """
    still_open = [s for s in standings if s.phase in texts.OPEN]
    under_way = [
        s for s in still_open if s.occupies and s.seen.move is not None and not s.seen.move.ended
    ]
    waiting = [s for s in still_open if s.phase == InstancePhase.PENDING and s.step is Step.START]
    return bool(under_way) and len(under_way) + len(waiting) == len(still_open)


def poll_after(
    standings: Sequence[Standing],
    found: Preflight,
    moment: Moment,
    typical: float | None,
    soonest: float = 0.0,
) -> timedelta:
    """When to look again.

    A compute service tells nobody that a move has ended, so it is asked, more often when moves are
    short: a place stays empty for a small share of a move's time, and long moves cost few calls.
    Shortly before the first should end it is asked for the first time.

    Args:
        standings: of all instances.
        found: by the checks.
        moment: now.
        typical: seconds that a move takes; None while none has ended.
        soonest: seconds until the first move under way should end, by the pace.
    """
    if any(standing.occupies for standing in standings):
        ages = [moment.at - s.track.since for s in standings if s.occupies and s.track.since]
        long = typical if typical is not None else min(ages, default=0.0)
        if typical is None and long < _FIRST.total_seconds():
            return _FIRST
        wait = max(long * _SHARE, soonest * _EARLY)
        return min(max(timedelta(seconds=wait), _FASTEST), _SLOWEST)
    if found.obstacles:
        return IDLE
    waits = [s.track.not_before - moment.at for s in standings if s.phase in texts.OPEN]
    due = min((wait for wait in waits if wait > 0), default=_SLOWEST.total_seconds())
    return min(max(timedelta(seconds=due), _FASTEST), _SLOWEST)
