"""Puts the steps of a host's lifecycle together under one controller."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, evicting, has_ended
from hypercobalt.api.hypervisor import Hypervisor, is_claimed
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.lifecycle.aggregates import AggregateSync
from hypercobalt.operator.lifecycle.claims import wants_host
from hypercobalt.operator.lifecycle.drift import Drift
from hypercobalt.operator.lifecycle.evictions import REASON, Evictions
from hypercobalt.operator.lifecycle.ha_enabled import FencingReadiness, HaEnabledSync
from hypercobalt.operator.lifecycle.maintenance_eviction import EvictingSync
from hypercobalt.operator.lifecycle.offboarding import Offboarding
from hypercobalt.operator.lifecycle.onboarding_steps import Onboarding
from hypercobalt.operator.lifecycle.other_shards import OtherShards
from hypercobalt.operator.lifecycle.reconciler import NAME, LifecycleReconciler
from hypercobalt.operator.lifecycle.registration import Registration
from hypercobalt.operator.lifecycle.service import ServiceSync
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleStep
from hypercobalt.operator.lifecycle.sweep import Sweep
from hypercobalt.operator.lifecycle.traits import TraitSync
from hypercobalt.operator.shared.evictions import BY_HYPERVISOR, hypervisor_of
from hypercobalt.operator.shared.hypervisors import (
    BY_HOST,
    BY_SERVICE,
    Shared,
    short_name,
    short_names,
)
from hypercobalt.runtime import (
    Cache,
    Controller,
    Kube,
    Manager,
    Metrics,
    mapped,
    primary,
)
from hypercobalt.runtime.write_cache import WriteCache

WORKERS: Final = 32
"""Passes at once: they wait for OpenStack, each for its own host's calls."""


def claimants_of(hypervisors: Cache[Hypervisor], found: Host) -> Iterable[Hypervisor]:
    """Return the Hypervisors that a compute service's host may belong to."""
    yield from hypervisors.find(BY_SERVICE, found.service_id)
    for one in hypervisors.find(BY_HOST, short_name(found.name)):
        if one.status.serviceId != found.service_id:
            yield one


def turned_away_by(hypervisors: Cache[Hypervisor], changed: Hypervisor) -> Iterable[str]:
    """Return names of the Hypervisors that wait for a host which this one may have released."""
    for host in short_names(changed):
        for one in hypervisors.find(BY_HOST, host):
            if is_claimed(one):
                yield one.metadata.name


def concerned_by(eviction: Eviction) -> Iterable[str]:
    """Return the Hypervisor of an Eviction, and the one whose maintenance requires its name."""
    return {eviction.spec.hypervisor, eviction.metadata.name}


def add_lifecycle(
    manager: Manager,
    shared: Shared,
    service: ComputeService,
    *,
    settings: LifecycleSettings,
    labels: Collection[str],
    fencing: FencingReadiness,
    metrics: Metrics,
) -> None:
    """Add the controller of hosts' lifecycle.

    Args:
        manager: runs it.
        shared: with the other controllers.
        service: where hosts are registered.
        settings: of the site.
        labels: keys of the labels that an Eviction gets from its Hypervisor.
        fencing: see there.
        metrics: of the process.
    """
    informer = manager.informer(Eviction, indexes={BY_HYPERVISOR: hypervisor_of})
    evictions = Evictions(
        WriteCache(informer), lambda name: informer.cache.find(BY_HYPERVISOR, name)
    )
    claimants = shared.informer.cache
    launchers = LauncherPods(manager.kube, metrics)
    manager.add_service("lifecycle-launchers", launchers.run)
    shared.informer.add_handler(_Releasing(launchers))
    steps = steps_after_registration(
        manager.kube,
        service,
        nodes=shared.nodes.cache,
        hypervisors=shared.hypervisors,
        evictions=evictions,
        settings=settings,
        labels=labels,
        launchers=launchers,
        fencing=fencing,
    )
    sweep = Sweep(claimants.keys, settings.resync)
    manager.add_service("sweep", sweep.run, leader_only=True)
    drift = Drift(service, shared.hypervisors.all, settings.compare, clock=manager.clock)
    manager.add_service("drift", drift.run, leader_only=True)
    reconciler = LifecycleReconciler(
        manager.kube,
        shared.hypervisors,
        shared.statuses,
        Registration(
            service,
            lambda found: claimants_of(claimants, found),
            shared.events,
            OtherShards(manager.kube, claimants, manager.clock).claimants if shared.shard else None,
        ),
        steps,
        drift=drift,
        clock=manager.clock,
        metrics=metrics,
        events=shared.events,
    )
    watches = (
        primary(shared.informer, when=reconciler.worth_a_pass),
        mapped(shared.informer, lambda one: turned_away_by(claimants, one), when=_claim_changed),
        mapped(informer, concerned_by, when=_state_changed),
        mapped(shared.nodes, lambda _: ()),  # a Node that is not read yet is not a missing one
        launchers.source.watch,
        sweep.source.watch,
        drift.source.watch,
    )
    manager.add(
        Controller(
            NAME, reconciler, watches=watches, concurrency=WORKERS, yields_to=shared.creation
        )
    )


def steps_after_registration(
    kube: Kube,
    service: ComputeService,
    *,
    nodes: Cache[Node],
    hypervisors: WriteCache[Hypervisor],
    evictions: Evictions,
    settings: LifecycleSettings,
    labels: Collection[str],
    launchers: LauncherPods,
    fencing: FencingReadiness,
) -> tuple[LifecycleStep, ...]:
    """The steps of a round, in their order; for the arguments see `add_lifecycle`."""
    return (
        Onboarding(kube, service, nodes, settings),
        TraitSync(service),
        AggregateSync(service, settings.test_aggregate),
        HaEnabledSync(kube, hypervisors, settings.ha, fencing),
        ServiceSync(service.hosts, evictions, settings.ha),
        EvictingSync(
            kube,
            service,
            evictions,
            labels,
            settings.forgotten,
            launchers=launchers,
            ha=settings.ha,
        ),
        Offboarding(service, launchers),
    )


class _Releasing:
    """Has the pods of a host whose Hypervisor is gone watched no longer."""

    def __init__(self, launchers: LauncherPods) -> None:
        self._launchers = launchers

    def on_add(self, obj: Hypervisor) -> None:
        pass

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        pass

    def on_delete(self, obj: Hypervisor) -> None:
        self._launchers.release(obj.metadata.name)


def _claim_changed(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: a Hypervisor may have released its host."""
    if old is None or new is None:
        return new is None

    def claim(one: Hypervisor) -> tuple[object, ...]:
        return short_names(one), one.status.serviceId, wants_host(one)

    return claim(old) != claim(new)


def _state_changed(old: Eviction | None, new: Eviction | None) -> bool:
    """A predicate: an Eviction was made by another client, changed or deleted, or has ended."""
    if new is None:
        return True
    if old is None:
        return new.spec.reason != REASON or has_ended(new.status)
    return (old.metadata.deletionTimestamp, old.spec, _end(old)) != (
        new.metadata.deletionTimestamp,
        new.spec,
        _end(new),
    )


def _end(eviction: Eviction) -> tuple[str, str] | None:
    found = evicting(eviction.status)
    if found is None or not has_ended(eviction.status):
        return None
    return found.reason, found.message
