"""Plans one pass over an Eviction: from its situation to one `EvictionPlan`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.decision import EvictionPlan, Load, Questions
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.states import Assessment, Departed
from hypercobalt.operator.eviction.planning import preflight
from hypercobalt.operator.eviction.planning.calls import expected_after, remedies
from hypercobalt.operator.eviction.planning.ending import ending
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.planning.polling import ARRIVING, IDLE, is_quiet, poll_after
from hypercobalt.operator.eviction.planning.starts import (
    Starts,
    load_of,
    next_ready,
    starts,
    unplaced,
)


def questions(
    situation: Situation, instances: Sequence[Assessment], others: Sequence[Load]
) -> Questions:
    """Return the further reads: capacity where a move may begin, and those of the end.

    Args:
        situation: not settled, and no deletion.
        instances: how far each is.
        others: what other Evictions have under way.
    """
    due = preflight.is_instance_check_due(situation.facts.status) and not situation.course.restarts
    servers = (
        tuple(instance.server for instance in instances if instance.server is not None)
        if due
        else ()
    )
    if preflight.check_host(situation, instances).obstacles:
        return Questions(servers)
    if not any(instance.is_open for instance in instances):
        left = frozenset(one.id for one in instances if isinstance(one.state, Departed))
        return Questions(servers, counted=True, left=left)
    return Questions(
        servers if due else unplaced(situation, instances, others), next_ready(situation, instances)
    )


def plan(
    situation: Situation,
    instances: Sequence[Assessment],
    others: Sequence[Load],
    timings: Timings,
) -> EvictionPlan:
    """Plan a pass.

    Args:
        situation: not settled, and no deletion, with the answers to its questions.
        instances: how far each is.
        others: what other Evictions have under way.
        timings: of the moves so far.
    """
    facts, checks = situation.facts, preflight.check(situation, instances)
    begin = Starts() if checks.obstacles else starts(situation, instances, others)
    stale = facts.reused and bool(begin.chosen)  # a place is free: the servers are listed first
    actions = remedies(instances, restarts=not (checks.obstacles or facts.reused))
    if not stale:
        actions |= {start.server.id: start for start in begin.chosen}
    expected = expected_after(actions, begin.explained(instances), situation.policy, facts.moment)
    over = ending(situation, expected, checks)
    polled = poll_after(expected, checks, timings, facts.moment)
    return EvictionPlan(
        instances=over.instances,
        actions=actions,
        checks=checks,
        end=over.end,
        release=over.end is not None,
        look_again=ARRIVING
        if facts.incoming or over.unseen
        else _unless_kept(facts, expected, polled),
        load=load_of(situation, expected),
        quiet=is_quiet(expected) and not stale,
        lingering=over.lingering,
    )


def _unless_kept(facts: Facts, instances: Sequence[Assessment], polled: timedelta) -> timedelta:
    """Return when to look again: where only guests are left, a watch reports their end."""
    only_guests = facts.guests.any and not any(instance.is_open for instance in instances)
    return max(polled, IDLE) if only_guests else polled
