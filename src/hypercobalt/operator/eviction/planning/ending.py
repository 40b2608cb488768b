"""Decides whether an Eviction is over: no instance is left, nor counted to the host. Pure.

VirtualMachineInstances on the host do not move: the Eviction does not succeed while there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypercobalt.api.eviction import EvictionInstance, EvictionReason
from hypercobalt.operator.eviction.assessing.arrivals import as_seen
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.decision import End, Preflight
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Observed,
    Restarted,
    State,
    Stranded,
    Unaffected,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Instances of a pass, and how the Eviction ends with them.

    Args:
        instances: with those that the compute service counts but does not list, at the end.
        end: None while the Eviction goes on.
        lingering: the host counts instances that are listed nowhere.
        unseen: instances have left that are not seen to be well where they are yet.
    """

    instances: tuple[Assessment, ...]
    end: End | None = None
    lingering: bool = False
    unseen: bool = False


def ending(situation: Situation, expected: tuple[Assessment, ...], checks: Preflight) -> Ending:
    """Decide whether no instance is left, and none is on its way there.

    Args:
        situation: with the host's count, if it was read.
        expected: instances as they are once the actions are accepted.
        checks: of the pass.
    """
    facts = situation.facts
    if checks.obstacles or any(instance.is_open for instance in expected) or facts.counted is None:
        return Ending(expected)
    if facts.incoming:
        return Ending(expected)
    left = still_counted(facts.eviction.spec.instances, facts.counted, expected)
    if left and facts.counted_for <= situation.policy.patience:
        return Ending(expected, lingering=True)
    found = tuple(as_seen(situation, instance) for instance in expected)
    if any(instance.is_open for instance in found):
        return Ending(found, lingering=bool(left), unseen=True)
    listed = (instance for instance in found if instance.id not in left)
    instances = (*listed, *map(_unlisted, sorted(left)))
    failed = any(isinstance(instance.state, Stranded) for instance in instances)
    if facts.guests.any and not failed:
        return Ending(instances)
    return Ending(instances, End(EvictionReason.FAILED if failed else EvictionReason.SUCCEEDED))


def still_counted(
    only: Sequence[str], counted: Iterable[str], instances: Iterable[Assessment]
) -> frozenset[str]:
    """Return servers counted to the host that must leave, except those known to stay."""
    stay = {instance.id for instance in instances if _stays(instance.state)}
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
