"""Puts the Eviction controller under a manager."""

from __future__ import annotations

from collections.abc import Iterable

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.ha_switch import recovery_off
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.port import ComputeService
from hypercobalt.compute.server_port import Owners
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.eviction import unlocking
from hypercobalt.operator.eviction.act import Actions
from hypercobalt.operator.eviction.assessing.deaths import reported
from hypercobalt.operator.eviction.metrics import EvictionMetrics
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.observe import Observer
from hypercobalt.operator.eviction.observing.migrations import Migrations
from hypercobalt.operator.eviction.observing.networks import networks
from hypercobalt.operator.eviction.reconciler import NAME, EvictionReconciler
from hypercobalt.operator.eviction.turns import HostTurns
from hypercobalt.operator.shared.guests import reported as guests_of
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import (
    Controller,
    Informer,
    Manager,
    Metrics,
    Recorder,
    Source,
    initially,
    mapped,
    primary,
)
from hypercobalt.runtime.write_cache import WriteCache

_WORKERS = 16
"""Passes at once, each for another Eviction: they wait for the compute service."""


def add_eviction(
    manager: Manager,
    compute: ComputeService,
    hypervisors: Informer[Hypervisor],
    *,
    proofs: Proofs,
    policy: Policy,
    events: Recorder,
    metrics: Metrics,
) -> None:
    """Add the controller that works off Evictions.

    Args:
        manager: runs it.
        compute: where the instances are.
        hypervisors: those of this shard, with the index `BY_NETWORK`.
        proofs: that hosts are dead.
        policy: limits and choices of the site.
        events: for people.
        metrics: of the process.
    """
    evictions = manager.informer(Eviction)

    def of_hypervisor(hypervisor: Hypervisor) -> Iterable[str]:
        name = hypervisor.metadata.name
        return [e.metadata.name for e in evictions.cache if e.spec.hypervisor == name]

    kube = manager.kube.as_manager(NAME)
    migrations = Migrations(manager.kube, metrics)
    manager.add_service("eviction-migrations", migrations.run)
    launchers = LauncherPods(manager.kube, metrics)
    manager.add_service("eviction-launchers", launchers.run)
    turns = Source()
    reconciler = EvictionReconciler(
        kube,
        WriteCache(evictions),
        Observer(
            kube,
            hypervisors.cache,
            compute,
            migrations,
            launchers,
            policy=policy,
            clock=manager.clock,
            networks=lambda name: networks(hypervisors.cache, name),
        ),
        Actions(compute, proofs),
        policy,
        events=events,
        migrations=migrations,
        launchers=launchers,
        hypervisor=hypervisors.cache.get,
        turns=HostTurns(turns.enqueue),
        metrics=EvictionMetrics(metrics.registry),
    )
    if compute.owners is not None:
        _add_unlocking(manager, compute.owners, hypervisors, evictions)
    manager.add(
        Controller(
            NAME,
            reconciler,
            watches=(
                primary(evictions, when=_worth_a_pass),
                mapped(hypervisors, of_hypervisor, when=_matters),
                migrations.source.watch,
                launchers.source.watch,
                turns.watch,
            ),
            concurrency=_WORKERS,
        )
    )


def _add_unlocking(
    manager: Manager,
    owners: Owners,
    hypervisors: Informer[Hypervisor],
    evictions: Informer[Eviction],
) -> None:
    manager.add(
        Controller(
            unlocking.NAME,
            unlocking.UnlockingReconciler(
                owners,
                lambda: evictions.cache,
                lambda: frozenset(hypervisor.metadata.uid for hypervisor in hypervisors.cache),
            ),
            watches=(
                mapped(evictions, lambda _: (unlocking.KEY,), when=unlocking.worth_a_pass),
                mapped(hypervisors, lambda _: ()),  # whose locks they are is known then
                initially(unlocking.KEY),
            ),
        )
    )


def _worth_a_pass(old: Eviction | None, new: Eviction | None) -> bool:
    """Whether another client has changed the Eviction: own status writes lead to no pass."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (before.generation, before.deletionTimestamp, before.uid) != (
        after.generation,
        after.deletionTimestamp,
        after.uid,
    )


def _matters(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """Whether a change of the Hypervisor may let moves begin, or must stop them."""
    if old is None or new is None:
        return True
    return _facts(old) != _facts(new)


def _facts(hypervisor: Hypervisor) -> tuple[object, ...]:
    disabled = {
        (c.status, c.reason) for c in hypervisor.conditions if c.type == "HypervisorDisabled"
    }
    status, fencing = hypervisor.status, hypervisor.fencing
    proof = (
        (fencing.phase, fencing.bootID, fencing.forcedDownAt, fencing.livesSince, status.bootID)
        if fencing
        else None
    )
    off, deaths, guests = recovery_off(hypervisor), reported(hypervisor), guests_of(hypervisor)
    registered = (status.hypervisorId, status.serviceId)
    return off, proof, deaths, guests, disabled, hypervisor.spec.maintenance, registered
