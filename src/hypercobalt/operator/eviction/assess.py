"""Determines how far each instance is, from present reports of Nova and node agents. Pure.

The rules are in `leaving`, `restarting` and `evacuating`, one for each course that an Eviction
takes; any pass may be the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, InstancePhase
from hypercobalt.compute.model import Move, MoveKind
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW, About, Case
from hypercobalt.operator.eviction.assessing.course import (
    Course,
    is_requested_by_person,
)
from hypercobalt.operator.eviction.assessing.deaths import (
    has_just_died,
    is_revived,
    is_to_run,
    may_be_unnamed,
    ran_until_it_died,
)
from hypercobalt.operator.eviction.assessing.evacuating import evacuating
from hypercobalt.operator.eviction.assessing.leaving import leaving
from hypercobalt.operator.eviction.assessing.movability import OnItsWay, movability
from hypercobalt.operator.eviction.assessing.owner import incident_of, is_ended
from hypercobalt.operator.eviction.assessing.restarting import brought_up, left_to_owner, restarting
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.assessing.witnesses import sightings
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Crashed,
    Departed,
    Moment,
    Observed,
    Ready,
    Restarted,
    State,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Track

_OVER: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.SKIPPED})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def assess(situation: Situation, tracks: Mapping[str, Track]) -> tuple[Assessment, ...]:
    """Determine how far every instance is: those known so far, and those that have come since.

    Args:
        situation: of the pass; `spec.instances` are the only ones, if there are any.
        tracks: track of each instance, by UUID.
    """
    facts, policy, about = situation.facts, situation.policy, _about(situation)
    assessments: list[Assessment] = []
    for seen in _observed(facts, about.began):
        track = tracks.get(seen.entry.id, FRESH)
        assessment = _over(seen, track, about) or assess_one(
            seen, track, about, policy, facts.moment
        )
        if seen.held and isinstance(assessment.state, Ready | Crashed):
            assessment = replace(
                assessment,
                state=Waiting(f"Eviction {seen.held} has this instance; waiting for its end"),
            )
        elif isinstance(assessment.state, Ready) and _is_to_be_shown_off(seen, facts, policy):
            text = f"the node agent reports its crash; waiting until {facts.service} shows it off"
            assessment = replace(assessment, state=Waiting(text))
        assessments.append(assessment)
    return tuple(assessments)


def _observed(facts: Facts, began: datetime) -> Iterator[Observed]:
    """Return the observation of each instance that the Eviction is about."""
    here, trigger = {server.id: server for server in facts.servers}, facts.eviction.spec.trigger
    known = {entry.id: entry for entry in facts.status.instances}
    records: dict[str, list[Move]] = {}
    for move in facts.moves:
        records.setdefault(move.server, []).append(move)
    # Begun by a process that died before recording it, and arrived: no other client confirms it.
    arrived = [id_ for id_, (newest, *_) in records.items() if _is_to_be_confirmed(newest, began)]
    for id_ in dict.fromkeys((*known, *(facts.eviction.spec.instances or (*here, *arrived)))):
        moves = tuple(records.get(id_, ()))
        server = here.get(id_)
        yield Observed(
            known.get(id_) or EvictionInstance(id=id_),
            server,
            moves,
            facts.jobs.get(id_),
            elsewhere=facts.elsewhere.get(id_),
            sought=id_ in facts.sought,
            sightings=sightings(id_, moves, facts.neighbours),
            requests=facts.requests.get(id_, ()),
            restart=facts.restarts.get(id_),
            revived=server is not None and is_revived(server, facts.hypervisor, trigger),
            held=facts.held.get(id_, ""),
            ran=server is not None and ran_until_it_died(server, facts.hypervisor),
            unnamed=server is not None and may_be_unnamed(server, facts.hypervisor),
        )


def _is_to_be_shown_off(seen: Observed, facts: Facts, policy: Policy) -> bool:
    """Whether a move would fail, since the instance runs only in the compute service's records."""
    server, lag = seen.server, policy.power_lag
    return server is not None and has_just_died(server, facts.hypervisor, lag, facts.moment.now)


def _about(situation: Situation) -> About:
    facts = situation.facts
    made = facts.eviction.metadata.creationTimestamp or _EPOCH
    return About(
        made,
        incident_of(facts.eviction, facts.hypervisor),
        situation.course,
        situation.recovers,
        only_if_wanted=not is_requested_by_person(facts.eviction.spec),
        keeps_servers=facts.keeps_servers,
    )


def _over(seen: Observed, track: Track, about: About) -> Assessment | None:
    """Return the assessment of an instance that is done, or never was there; None for others."""
    entry, message = seen.entry, seen.entry.message or ""
    if entry.phase in _OVER and (seen.server is None or about.course.restarts):
        state: State = Unaffected(message, stays=seen.server is not None)
        if entry.phase == InstancePhase.SUCCEEDED:
            state = Departed(message) if seen.server is None else Restarted(message)
        return Assessment(seen, state, track, entry.attempts or 0)
    if seen.server is None and entry.phase is None and not _is_moving(seen, about.began):
        return Assessment(seen, Unaffected("is not on the host"), track)
    return None


def _is_moving(seen: Observed, began: datetime) -> bool:
    return seen.move is not None and (not seen.move.ended or _is_to_be_confirmed(seen.move, began))


def _is_to_be_confirmed(move: Move, began: datetime) -> bool:
    """Whether the move is a cold one since `began` that has arrived and waits for confirmation."""
    recent = move.created >= began - CLOCK_SKEW
    return recent and move.kind == MoveKind.COLD and move.status == "finished"


def assess_one(
    seen: Observed, track: Track, about: About, policy: Policy, moment: Moment
) -> Assessment:
    """Determine how far an instance of the Eviction is.

    Args:
        seen: observation of the instance.
        track: its track so far.
        about: facts that all instances of the Eviction share.
        policy: waits and attempts.
        moment: now.
    """
    if about.course is Course.EVACUATE:
        seen = _as_its_owner_wants_it(seen)
    left_over = tuple(move for move in seen.moves if _is_left_over(move, seen, policy, moment))
    case = Case(
        replace(seen, moves=tuple(move for move in seen.moves if move not in left_over)),
        track,
        left_over[0] if left_over else None,
        policy,
        moment,
        about,
    )
    case = case.trying(_mode(seen, about.course))
    result = left_to_owner(case) if about.recovers else None
    if result is None and case.mode is EvictionMode.RESTART:
        result = restarting(case)
        if result is None:  # every restart has failed
            unstarted = seen.restart is not None and seen.restart.failed
            runs = seen.server is not None and seen.server.running and not unstarted
            case = case.trying(EvictionMode.LIVE if runs else EvictionMode.COLD)
    if result is None:
        result = evacuating(case) if about.course is Course.EVACUATE else leaving(case)
    if about.recovers or (about.course is Course.LEAVE and is_to_run(seen.entry)):
        result = brought_up(case, result)
    state, track = result
    return Assessment(case.seen, state, track, case.attempts, case.mode)


def _as_its_owner_wants_it(seen: Observed) -> Observed:
    """Count a dead instance, which runs elsewhere, as stopped if its owner requested its end."""
    server = seen.server
    if server is None or not (server.died and is_ended(seen.requests)):
        return seen
    return replace(seen, server=replace(server, died=False))


def _mode(seen: Observed, course: Course) -> EvictionMode:
    """Return the mode to try; once restarts have failed, live and cold are the same here."""
    entry = seen.entry
    if course is Course.EVACUATE:
        return EvictionMode.EVACUATE
    moved = entry.mode in {EvictionMode.LIVE, EvictionMode.COLD}
    started_there = entry.mode == EvictionMode.RESTART and entry.target is not None
    if started_there or course is Course.RESTART or (course is Course.RECOVER and not moved):
        return EvictionMode.RESTART
    died = (entry.ran or seen.ran) and seen.server is not None and seen.server.died
    if course is Course.LEAVE and died and not is_ended(seen.requests):
        # Moved as it is, nothing would start it again: its agent has lost track of it.
        return EvictionMode.RESTART
    return EvictionMode.COLD if entry.mode == EvictionMode.COLD else EvictionMode.LIVE


def _is_left_over(move: Move, seen: Observed, policy: Policy, moment: Moment) -> bool:
    """Whether a record has no end, although its server is not moving any more.

    A compute service that dies in a move leaves one. The record of a move ends some time after its
    server is let go; a record that is still written is believed.
    """
    server = seen.server
    if move.ended or server is None or isinstance(movability(server), OnItsWay):
        return False
    if move.kind == MoveKind.EVACUATION and server.task_state:
        return False
    return moment.now - move.updated > policy.stall
