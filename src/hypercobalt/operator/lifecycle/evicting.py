"""`Evicting` and `status.evicted`: maintenance makes an Eviction, and shows how far it is.

Only an Eviction that has succeeded counts as one: after a failed or cancelled one the host is not
empty, and a termination goes no further until somebody deletes the Eviction, which makes a new one.
The condition goes when the maintenance ends.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_maintenance_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import ConditionStatus, get_condition
from hypercobalt.api.eviction import (
    Eviction,
    EvictionConditionType,
    EvictionReason,
    EvictionSpec,
    Trigger,
)
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import SyncReason
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.step import Facts, Outcome, Type
from hypercobalt.operator.newest import Newest
from hypercobalt.runtime import AlreadyExistsError, Kube

log = get_logger(__name__)

NAME: Final = "evicting"
REASON: Final = "openstack-hypervisor-operator maintenance"
EMPTYING: Final = frozenset({Maintenance.MANUAL, Maintenance.AUTO, Maintenance.TERMINATION})
"""Modes in which the host is emptied."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass should do.

    Args:
        create: to create, if there is none of its name.
        delete: name of an Eviction to delete.
        say: status, reason and message of `Evicting`.
        evicted: for the status; None leaves it.
        unsay: take the condition away.
    """

    create: Eviction | None = None
    delete: str = ""
    say: tuple[str, SyncReason, str] | None = None
    evicted: bool | None = None
    unsay: bool = False


def decide(facts: Facts, eviction: Eviction | None, labels: Collection[str]) -> Plan:
    """Decide what belongs to the host's maintenance.

    Args:
        facts: of the pass.
        eviction: the one of the Hypervisor's name, if there is one.
        labels: keys of the labels to copy to a new one.
    """
    hypervisor, mode = facts.hypervisor, facts.hypervisor.spec.maintenance or Maintenance.NONE
    if facts.holds(Type.ONBOARDING, "True") or mode == Maintenance.HA:
        return Plan()
    if mode not in EMPTYING:
        if facts.condition(Type.EVICTING) is None and not hypervisor.status.evicted:
            return Plan()
        there = eviction is not None and eviction.metadata.deletionTimestamp is None
        delete = hypervisor.metadata.name if there else ""
        return Plan(delete=delete, evicted=False, unsay=True)
    if eviction is None:
        if facts.holds(Type.EVICTING, ConditionStatus.FALSE, SyncReason.SUCCEEDED):
            return Plan()  # finished, and somebody has tidied up
        made = _eviction(hypervisor, labels)
        return Plan(create=made, say=("True", SyncReason.RUNNING, "Evicting"), evicted=False)
    return _mirror(eviction)


def _mirror(eviction: Eviction) -> Plan:
    found = get_condition(eviction.status.conditions, EvictionConditionType.EVICTING)
    if found is None or found.status != ConditionStatus.FALSE:
        return Plan(say=("True", SyncReason.RUNNING, "Evicting"), evicted=False)
    if found.reason == EvictionReason.SUCCEEDED:
        return Plan(say=("False", SyncReason.SUCCEEDED, "Evicted"), evicted=True)
    text = f"Eviction {eviction.metadata.name} {found.reason}: {found.message}"
    return Plan(say=("False", SyncReason.FAILED, text), evicted=False)


def _eviction(hypervisor: Hypervisor, labels: Collection[str]) -> Eviction:
    meta, leaving = hypervisor.metadata, hypervisor.spec.maintenance == Maintenance.TERMINATION
    owner = OwnerReference(
        apiVersion="kvm.cloud.sap/v1",
        kind="Hypervisor",
        name=meta.name,
        uid=meta.uid,
        controller=True,
        blockOwnerDeletion=True,
    )
    # Owned by one that is deleted in the foreground, it would be deleted at once, and made again.
    going = meta.deletionTimestamp is not None
    return Eviction(
        metadata=ObjectMeta(
            name=meta.name,
            labels={key: meta.labels[key] for key in labels if key in meta.labels},
            ownerReferences=() if going else (owner,),
        ),
        spec=EvictionSpec(
            hypervisor=meta.name,
            reason=REASON,
            trigger=Trigger.TERMINATION if leaving else Trigger.MAINTENANCE,
        ),
    )


def keeps_disabled(evictions: Iterable[Eviction]) -> Eviction | None:
    """The Eviction for whose sake the host takes no new servers, maintenance or not.

    That is one that empties the whole host, until it has ended or is deleted. Those that a
    maintenance has made do not count: it says itself when the host is disabled.
    """
    for eviction in evictions:
        found = get_condition(eviction.status.conditions, EvictionConditionType.EVICTING)
        over = found is not None and found.status == ConditionStatus.FALSE
        leaving = eviction.metadata.deletionTimestamp is not None
        ours = eviction.spec.reason == REASON
        if not (eviction.spec.instances or over or leaving or ours):
            return eviction
    return None


@dataclass(frozen=True, slots=True)
class Evictions:
    """The Evictions of the cluster.

    Args:
        newest: by name.
        of: those of a Hypervisor, by its name.
    """

    newest: Newest[Eviction]
    of: Callable[[str], Iterable[Eviction]]


class EvictingSync:
    """The shell around `decide`."""

    name = NAME

    def __init__(self, kube: Kube, evictions: Evictions, labels: Collection[str]) -> None:
        self._kube, self._evictions, self._labels = kube, evictions, tuple(labels)

    async def run(self, facts: Facts) -> Outcome:
        name = facts.hypervisor.metadata.name
        plan = decide(facts, self._evictions.newest.get(name), self._labels)
        if plan.delete:
            log.info("deleting_eviction", eviction=name)
            await self._kube.delete(Eviction, name)
        if plan.create is not None:
            log.info("creating_eviction", eviction=name)
            try:
                self._evictions.newest.wrote(await self._kube.create(plan.create))
            except AlreadyExistsError:
                log.info("eviction_is_there", eviction=name)  # the watch tells of it
        if plan.say is not None:
            facts = facts.say(Type.EVICTING, *plan.say)
        if plan.unsay:
            facts = facts.unsaid(Type.EVICTING)
        return Outcome(facts if plan.evicted is None else facts.having(evicted=plan.evicted))
