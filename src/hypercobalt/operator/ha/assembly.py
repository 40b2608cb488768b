"""Puts the HA service together under one controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.agents.leases import AgentLeases
from hypercobalt.operator.ha.devices.fences import Fences
from hypercobalt.operator.ha.devices.power import PowerReader
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.ha.observe import Observation, Sources
from hypercobalt.operator.ha.observing import fleet
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.reconciler import NAME, HostFailureReconciler
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import BY_HYPERVISOR
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.runtime import Controller, Manager, Metrics, NotLeadingError, mapped, primary

WORKERS = 8
"""Passes at once: an attempt to fence takes as long as the device."""


def add_ha(
    manager: Manager,
    shared: Shared,
    compute: ComputeService,
    leases: AgentLeases,
    fences: Fences,
    *,
    power: PowerReader,
    settings: HaSettings,
    metrics: Metrics,
) -> None:
    """Add the controller of hosts that fail; after `add_lifecycle`.

    Args:
        manager: runs it.
        shared: with the other controllers.
        compute: where the instances are.
        leases: of the node agents.
        fences: the devices of the site.
        power: reads the power of hosts that are proven dead.
        settings: of the site.
        metrics: of the process.
    """
    evictions = manager.informer(Eviction)

    def contact() -> Mapping[str, timedelta | None]:
        of_leases = {
            f"Leases in {follower.namespace}": follower.informer.age
            for follower in leases.followers
        }
        return {"Nodes": shared.nodes.age, "Hypervisors": shared.informer.age, **of_leases}

    def leads() -> bool:
        try:
            manager.leader_guard()
        except NotLeadingError:
            return False
        return True

    sources = Sources(
        kube=manager.kube,
        nodes=shared.nodes.cache,
        hypervisors=shared.hypervisors,
        leases=leases,
        evictions=lambda name: evictions.cache.find(BY_HYPERVISOR, name),
        compute=compute,
        fences=fences,
        power=power,
        contact=contact,
        leads=leads,
    )
    peers = Peers(manager.kube, shared.hypervisors, manager.clock)
    reconciler = HostFailureReconciler(
        sources,
        Observation(sources, peers, settings, manager.clock),
        peers,
        shared.statuses,
        settings,
        guard=manager.leader_guard,
        clock=manager.clock,
        events=shared.events,
        metrics=HaMetrics(metrics.registry),
    )
    watches = (
        primary(shared.nodes, when=_node_changed),
        primary(shared.informer, when=_host_changed),
        mapped(evictions, lambda one: (one.spec.hypervisor,), when=_eviction_changed),
        mapped(shared.informer, _reported_on, when=_peers_answered),
        leases.source.watch,
    )
    manager.add(Controller(NAME, reconciler, watches=watches, concurrency=WORKERS))


def _node_changed(old: Node | None, new: Node | None) -> bool:
    """A predicate: Ready, the boot or a taint has changed."""
    if old is None or new is None:
        return True

    def seen(node: Node) -> tuple[object, ...]:
        info = node.status.nodeInfo
        return fleet.ready(node), info.bootID if info else "", node.spec.taints

    return seen(old) != seen(new)


def _host_changed(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: facts that a decision about the host depends on may have changed."""
    if old is None or new is None:
        return True

    def seen(host: Hypervisor) -> tuple[object, ...]:
        spec, status = host.spec, host.status
        wanted = (spec.maintenance, spec.highAvailability, host.metadata.annotations)
        return (
            *wanted,
            status.bootID,
            status.recentBoots,
            status.guestsStopped,
            status.fencing,
            status.assertion,
            status.unhealthySince,
            host.conditions,
        )

    return seen(old) != seen(new)


def _reported_on(peer: Hypervisor) -> Iterable[str]:
    """Return the hosts that a host's agent has to probe."""
    return (report.host for report in peer.status.peerReports)


def _peers_answered(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: an answer about another host has come."""
    before = old.status.peerReports if old is not None else ()
    return new is not None and new.status.peerReports != before


def _eviction_changed(old: Eviction | None, new: Eviction | None) -> bool:
    """A predicate: an Eviction was made, has ended, or is gone."""
    if old is None or new is None:
        return True
    return has_ended(old.status) != has_ended(new.status)
