"""Chooses the call that an instance's state requires, and the state after it. Pure.

The effect of a call is remembered before the call (`once_accepted`): a pass that is cut off is
not repeated by the next one. Its outcome is added afterwards (`with_outcomes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from msgspec.structs import replace as with_fields

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.operator.eviction.model.actions import (
    Abort,
    Accepted,
    Action,
    CallOutcome,
    Confirm,
    Force,
    Needless,
    NotYet,
    Outdated,
    Recover,
    Refused,
    Restart,
    Start,
    Unanswered,
)
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Damaged,
    Departed,
    Evacuating,
    Mode,
    Moment,
    Moving,
    Restarting,
    Stranded,
    Stuck,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import (
    Begun,
    Rebooted,
    Recorded,
    Track,
    Unrecoverable,
)


def remedy(instance: Assessment) -> Action | None:
    """Return the action for an instance with a move that needs one; None without one."""
    match instance.state:
        case Stuck(move, force):
            return Force(move) if force else Abort(move)
        case Arrived(due=True):
            return Confirm()
        case Damaged(server, due=True):
            return Recover(server)
        case Crashed(server):
            return Restart(server)
        case _:
            return None


def remedies(instances: Iterable[Assessment], *, restarts: bool) -> dict[str, Action]:
    """Return the actions for moves under way, whatever the checks; restarts only if allowed."""
    needed = {
        instance.id: action for instance in instances if (action := remedy(instance)) is not None
    }
    return {
        id_: action for id_, action in needed.items() if restarts or not isinstance(action, Restart)
    }


def expected_after(
    actions: Mapping[str, Action], instances: Iterable[Assessment], policy: Policy, moment: Moment
) -> tuple[Assessment, ...]:
    """Return all instances after the actions, by UUID, are accepted."""
    return tuple(
        once_accepted(instance, actions.get(instance.id), policy, moment) for instance in instances
    )


def once_accepted(
    instance: Assessment, action: Action | None, policy: Policy, moment: Moment
) -> Assessment:
    """Return the instance after an action is accepted."""
    track, at = instance.track, moment.at
    match action:
        case Start(mode=mode, target=target):
            known = instance.move.id if instance.move else ""
            unsure = policy.unsure.total_seconds()
            entry = with_fields(instance.observed.entry, target=target or None)
            return Assessment(
                replace(instance.observed, entry=entry),
                Evacuating() if mode is Mode.EVACUATE else Moving(),
                track.anew(Begun(known), since=at, not_before=at + unsure),
                instance.attempts + 1,
                EvictionMode(mode),
            )
        case Restart(server):
            again = instance.mode is EvictionMode.RESTART
            entry = instance.observed.entry
            if instance.server is None:
                entry = with_fields(entry, target=server.host)
            return Assessment(
                replace(instance.observed, entry=entry),
                Restarting(),
                track.anew(Rebooted(), since=at, not_before=at),
                instance.attempts + 1 if again else 1,
                EvictionMode.RESTART,
            )
        case Force() if isinstance(track.follows, Recorded):
            track = replace(track, follows=replace(track.follows, helped=True), since=at)
        case Abort() if isinstance(track.follows, Recorded):
            before = track.follows
            record = replace(before, aborts=before.aborts + 1, refused=False)
            track = replace(track, follows=record, since=track.since if before.aborts else at)
        case _:
            return instance
    return replace(instance, track=track)


def with_outcomes(
    expected: tuple[Assessment, ...],
    actions: Mapping[str, Action],
    outcomes: Mapping[str, CallOutcome],
    policy: Policy,
    moment: Moment,
) -> tuple[Assessment, ...]:
    """Return the instances after the calls: a call that was not accepted changes its instance.

    Args:
        expected: as they are if every action is accepted.
        actions: by UUID.
        outcomes: how each ended, by UUID.
        policy: waits and attempts.
        moment: now.
    """
    return tuple(
        _with_outcome(instance, actions[instance.id], outcomes[instance.id], policy, moment)
        if instance.id in outcomes
        else instance
        for instance in expected
    )


def _with_outcome(
    instance: Assessment, action: Action, outcome: CallOutcome, policy: Policy, moment: Moment
) -> Assessment:
    match outcome:
        case Accepted():
            return instance
        case Needless():
            move = instance.move
            return replace(instance, state=Departed(f"moved to {move.target}" if move else ""))
        case Refused() | Outdated() | NotYet() | Unanswered():
            return _failed(instance, action, outcome, policy, moment)
        case _:
            assert_never(outcome)


def _failed(
    instance: Assessment,
    action: Action,
    outcome: Refused | Outdated | NotYet | Unanswered,
    policy: Policy,
    moment: Moment,
) -> Assessment:
    why = outcome.why
    retry = policy.retry_after.total_seconds()
    match action:
        case Start():
            if isinstance(outcome, NotYet):
                # The compute service got no call: that is no attempt, nor is a target bad.
                again = moment.at + retry
                track = replace(instance.track, follows=None, not_before=again)
                attempts = instance.attempts - 1
                return replace(instance, state=Waiting(why), track=track, attempts=attempts)
            if not isinstance(outcome, Unanswered):
                return _refused(instance, action, why, policy, moment)
            # It may have begun all the same: the next passes will show, and it holds its place.
            state = replace(instance.state, message=why)
            return replace(instance, state=state, attempts=instance.attempts - 1)
        case Restart():
            if isinstance(outcome, Unanswered):
                # It may arrive yet: that there is no record of it counts only later.
                later = moment.at + policy.unsure.total_seconds()
                track = replace(instance.track, not_before=later)
                return replace(instance, state=Restarting(why), track=track)
            # Failed at once: when to try again, and whether, is decided in the next pass.
            again = moment.at + policy.restart_wait(instance.attempts)
            track = replace(instance.track, follows=Rebooted(why), not_before=again)
            # What was not begun is no attempt: it is waited for, however long that takes.
            attempts = instance.attempts - isinstance(outcome, NotYet)
            return replace(instance, state=Waiting(why), track=track, attempts=attempts)
        case Recover() if isinstance(outcome, Refused) and instance.move is not None:
            track = replace(instance.track, follows=Unrecoverable(instance.move.id))
            state = Stranded(f"is in ERROR after its move; {why}")
            return replace(instance, state=state, track=track)
        case Abort() if isinstance(instance.track.follows, Recorded):
            record = instance.track.follows
            wait = retry * 2 ** (record.aborts - 1)
            track = replace(instance.track, follows=replace(record, refused=True))
            return _again(instance, why, track, moment.at + wait)
        case Confirm() | Force() | Abort() | Recover():
            return _again(instance, why, instance.track, moment.at + retry)
        case _:
            assert_never(action)


def _again(instance: Assessment, why: str, track: Track, not_before: float) -> Assessment:
    """Return the instance for which the call may be made again, but not at once."""
    state = replace(instance.state, message=f"{instance.state.message}; {why}")
    return replace(instance, state=state, track=replace(track, not_before=not_before))


def _refused(
    instance: Assessment, start: Start, why: str, policy: Policy, moment: Moment
) -> Assessment:
    """Return the instance after a move was not begun: it is tried later and elsewhere."""
    attempts, target = instance.attempts, start.target
    given_up = attempts >= policy.most_attempts(evacuates=start.mode is Mode.EVACUATE)
    seen = instance.observed
    return Assessment(
        replace(seen, entry=with_fields(seen.entry, target=None)),
        Stranded(f"{why}; given up after {attempts} attempts") if given_up else Waiting(why),
        replace(
            instance.track,
            follows=None,
            not_before=moment.at + policy.retry_wait(attempts),
            refused=instance.track.refused | ({target} if target else set()),
        ),
        attempts,
        instance.mode,
    )
