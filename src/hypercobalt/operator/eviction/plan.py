"""Plans one pass over an Eviction: from the facts to one `Plan`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hypercobalt.api.eviction import EvictionInstance, EvictionReason
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.assessing.course import Course, course_of
from hypercobalt.operator.eviction.assessing.locks import Lock, is_to_be_locked
from hypercobalt.operator.eviction.model.actions import Action, Restart, Start
from hypercobalt.operator.eviction.model.decision import (
    End,
    Load,
    Plan,
    Preflight,
    Questions,
)
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy, order_of
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Departed,
    Mode,
    Observed,
    Ready,
    Restarted,
    State,
    Stranded,
    Unaffected,
)
from hypercobalt.operator.eviction.planning import preflight
from hypercobalt.operator.eviction.planning.calls import once_accepted, remedy
from hypercobalt.operator.eviction.planning.cancel import cancel
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.planning.polling import ARRIVING, is_quiet, poll_after
from hypercobalt.operator.eviction.planning.settled import settled
from hypercobalt.operator.eviction.planning.starts import (
    Places,
    Starts,
    choose_starts,
    going,
    places,
    ready,
    to_be_placed,
)


def questions(
    facts: Facts, instances: Sequence[Assessment], others: Sequence[Load], policy: Policy
) -> Questions:
    """Return the further reads: capacity where a move may begin, the host's count at the end."""
    host, hypervisor = facts.host, facts.hypervisor
    if facts.is_deleted or facts.trouble or host is None or hypervisor is None:
        return Questions()
    policy = _in_course(facts, policy)
    due = preflight.is_instance_check_due(facts.status) and not course_of(facts).restarts
    servers = tuple(one.server for one in instances if one.server is not None) if due else ()
    if preflight.check_host(facts, hypervisor, host, instances).obstacles:
        return Questions(servers)
    if not any(one.is_open for one in instances):
        return Questions(servers, counted=True)
    first = None
    if facts.targets is None and _is_limited_by_targets(facts, policy):
        first = next((server for server, _ in ready(instances).values()), None)
    if not due and _places(facts, host, instances, others, policy).free:
        servers = to_be_placed(instances, policy, chooses=facts.chooses_target)
    return Questions(servers, first)


def plan(
    facts: Facts,
    instances: Sequence[Assessment],
    others: Sequence[Load],
    timings: Timings,
    policy: Policy,
) -> Plan:
    """Plan a pass.

    Args:
        facts: all that was read.
        instances: how far each is.
        others: what other Evictions have under way.
        timings: of the moves so far.
        policy: of the site.
    """
    if (early := settled(facts, policy)) is not None:
        return early
    if facts.is_deleted:
        return cancel(facts, instances, policy)
    if facts.host is None or facts.hypervisor is None:
        raise ValueError(f"Eviction {facts.eviction.metadata.name}: its host was not read")
    policy = _in_course(facts, policy)
    checks = preflight.check(facts, facts.hypervisor, facts.host, instances, policy.doubt)
    starts = Starts()
    if not checks.obstacles:
        starts = choose_starts(
            instances,
            facts.candidates,
            _places(facts, facts.host, instances, others, policy),
            policy,
            order=order_of(facts.eviction, policy),
            chooses=facts.chooses_target,
            networks=facts.networks,
            others=others,
            limits=_limits(facts),
        )
    stale = facts.reused and bool(starts.chosen)  # a place is free: the servers are listed first
    chosen = () if stale else starts.chosen
    begun: dict[str, Action] = {s.server.id: _locking(s, facts) for s in chosen}
    actions = _remedies(instances, restarts=not (checks.obstacles or facts.reused)) | begun
    expected = tuple(
        once_accepted(_placeless(one, starts.homeless), actions.get(one.id), policy, facts.moment)
        for one in instances
    )
    over = _over(facts, expected, checks, policy)
    polled = poll_after(expected, checks, timings, facts.moment)
    return Plan(
        instances=over.instances,
        actions=actions,
        checks=checks,
        end=over.end,
        release=over.end is not None,
        look_again=ARRIVING if facts.incoming else polled,
        load=_load(facts.host, expected),
        quiet=is_quiet(expected) and not stale,
        lingering=over.lingering,
    )


def _in_course(facts: Facts, policy: Policy) -> Policy:
    """Return the policy for the course of the instances."""
    return policy.for_evacuation if course_of(facts) is Course.EVACUATE else policy


def most_at_once(facts: Facts, policy: Policy) -> int:
    """Return how many instances of the host may be under way at the same time."""
    return facts.eviction.spec.parallelism or _in_course(facts, policy).per_source


def _is_limited_by_targets(facts: Facts, policy: Policy) -> bool:
    """Whether each host that could take an instance bears a part of the moves."""
    return not (facts.eviction.spec.parallelism or policy.per_target)


def _places(
    facts: Facts,
    host: Host,
    instances: Sequence[Assessment],
    others: Sequence[Load],
    policy: Policy,
) -> Places:
    return places(
        instances,
        others,
        policy,
        host=host.name,
        parallelism=facts.eviction.spec.parallelism,
        borne=_borne(facts, policy) if _is_limited_by_targets(facts, policy) else None,
    )


def _limits(facts: Facts) -> Mapping[str, int]:
    """Return the limits that targets have shown; none for an evacuation, which copies nothing."""
    return {} if course_of(facts) is Course.EVACUATE else facts.limits


def _borne(facts: Facts, policy: Policy) -> int | None:
    """Return how many moves the hosts that could take the next instance bear together."""
    if facts.targets is None:
        return None
    limits, lowest = _limits(facts), policy.per_possible_target
    return max(sum(limits.get(host, lowest) for host in facts.targets), lowest)


def _remedies(instances: Iterable[Assessment], *, restarts: bool) -> dict[str, Action]:
    """Return the actions for moves under way, whatever the checks; restarts only if allowed."""
    found = {one.id: action for one in instances if (action := remedy(one)) is not None}
    return {id_: one for id_, one in found.items() if restarts or not isinstance(one, Restart)}


def _locking(start: Start, facts: Facts) -> Start:
    """Return the start of an evacuation, with a lock against the owner's actions."""
    if start.mode is not Mode.EVACUATE or facts.hypervisor is None:
        return start
    lock = Lock(facts.eviction.metadata.uid, facts.hypervisor.metadata.uid)
    return replace(start, lock=lock.reason) if is_to_be_locked(start.server, lock) else start


def _placeless(instance: Assessment, homeless: Mapping[str, str]) -> Assessment:
    if instance.id not in homeless or not isinstance(instance.state, Ready):
        return instance
    return replace(instance, state=replace(instance.state, message=homeless[instance.id]))


def _load(host: Host, instances: Iterable[Assessment]) -> Load:
    return Load(host.name, {one.id: going(one) for one in instances if one.occupies})


@dataclass(frozen=True, slots=True)
class _Over:
    instances: tuple[Assessment, ...]
    end: End | None = None
    lingering: bool = False


def _over(
    facts: Facts, expected: tuple[Assessment, ...], checks: Preflight, policy: Policy
) -> _Over:
    """Whether no instance is left, by the host's count as well, and none is on its way there."""
    if checks.obstacles or any(one.is_open for one in expected) or facts.counted is None:
        return _Over(expected)
    if facts.incoming:
        return _Over(expected)
    left = still_counted(facts.eviction.spec.instances, facts.counted, expected)
    if left and facts.counted_for <= policy.patience:
        return _Over(expected, lingering=True)
    listed = (one for one in expected if one.id not in left)
    instances = (*(_as_it_is(one, facts) for one in listed), *map(_unlisted, sorted(left)))
    failed = any(isinstance(one.state, Stranded) for one in instances)
    return _Over(instances, End(EvictionReason.FAILED if failed else EvictionReason.SUCCEEDED))


def _as_it_is(instance: Assessment, facts: Facts) -> Assessment:
    """Return the instance as it is: one that has left counts only if it is not in ERROR there."""
    there = facts.in_error.get(instance.id)
    if there is None or not isinstance(instance.state, Departed):
        return instance
    fault = there.fault or "the compute service gives no reason"
    text = f"has left the host, and it is in ERROR on {there.host}: {fault}"
    return replace(instance, state=Stranded(text))


def still_counted(
    only: Sequence[str], counted: Iterable[str], instances: Iterable[Assessment]
) -> frozenset[str]:
    """Return servers counted to the host that must leave, except those known to stay."""
    stay = {one.id for one in instances if _stays(one.state)}
    return frozenset(id_ for id_ in counted if id_ not in stay and (not only or id_ in only))


def _stays(state: State) -> bool:
    return isinstance(state, Stranded | Restarted) or (
        isinstance(state, Unaffected) and state.stays
    )


def _unlisted(id_: str) -> Assessment:
    text = (
        "the compute service counts this instance on the host but does not list it; check the host"
    )
    return Assessment(Observed(EvictionInstance(id=id_), None), Stranded(text))
