"""Puts the operator's controllers together under one manager, with shared informers.

Nodes and Hypervisors are chosen on the server, by labels; so are Deployments and disruption
budgets. Pods are watched on single Nodes only (`agents.pods`).

Source: openstack-hypervisor-operator, cmd/main.go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import labels_of
from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.compute.connect import ReadDefinitions
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.agents import reporting
from hypercobalt.operator.agents.leases import AgentLeases
from hypercobalt.operator.agents.pods import AgentPods
from hypercobalt.operator.agents.reporting import AgentReportingReconciler
from hypercobalt.operator.certificates.assembly import add_approval, add_certificates
from hypercobalt.operator.compute_assembly import add_compute
from hypercobalt.operator.eviction.observing.networks import BY_NETWORK, network_of
from hypercobalt.operator.ha.devices.assembly import add_fence_devices
from hypercobalt.operator.ha.devices.fences import Fences
from hypercobalt.operator.ha.devices.template_fences import BY_DEVICE, Open, connections
from hypercobalt.operator.network.assembly import add_network
from hypercobalt.operator.network.switches import Switches
from hypercobalt.operator.network.verdict import unwatched
from hypercobalt.operator.nodes import gardener, hypervisor, ready, taint
from hypercobalt.operator.nodes import reconciler as node_reconciler
from hypercobalt.operator.nodes.contested import (
    BY_IDENTITY,
    Contested,
    addresses_changed,
    identity_changed,
    identity_of,
)
from hypercobalt.operator.nodes.new_nodes import NewNodes
from hypercobalt.operator.nodes.shared_storage import BY_STORAGE, add_shared_storage, storages_of
from hypercobalt.operator.settings import OperatorOptions
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.operator.shared.hypervisors import INDEXES, Shared
from hypercobalt.operator.shared.node_facts import HYPERVISOR_LABEL, copied_labels
from hypercobalt.operator.shared.node_names import BY_CLAIM, claims
from hypercobalt.operator.shared.status_writer import StatusWriter
from hypercobalt.runtime import (
    Controller,
    Informer,
    Manager,
    Metrics,
    Recorder,
    generation_changed,
    mapped,
    owned,
    primary,
)
from hypercobalt.runtime.write_cache import WriteCache

Connect = Callable[
    [Callable[[], Iterable[Hypervisor]], LeaderGuard, ReadDefinitions | None], ComputeService
]
"""Makes a compute service from a source of Hypervisors, a guard of changes, and a reader of stored
definitions, where agents store them.
"""

REPORTER: Final = "kvm.cloud.sap/hypervisor-operator"
"""Reporter of the Events."""


def add_controllers(
    manager: Manager,
    options: OperatorOptions,
    metrics: Metrics,
    connect: Connect | None = None,
    fences: Fences | None = None,
    *,
    open_device: Open = AgentDevice,
) -> None:
    """Add every controller and what it watches.

    Args:
        manager: runs them.
        options: of the site.
        metrics: of the process.
        connect: makes the service where hosts are registered and instances run; None leaves out
            what needs such a service.
        fences: the hosts' fence devices; None: as the options have them.
        open_device: makes what speaks to one of the options' fence devices.
    """
    known = _hypervisors(manager, options)
    # An agent keeps its Lease where it keeps its Certificate, which need not be where its pod is.
    namespaces = (*options.agent_namespaces, options.issuing.namespace)
    leases = AgentLeases(
        manager.kube, namespaces, known.cache.keys, metrics, listed=known.wait_synced
    )
    events = manager.recorder(REPORTER)
    switches = None
    if options.ovs_namespace:
        bridge = options.lifecycle.bridge
        switches = add_network(
            manager,
            options.ovs_namespace,
            bridge,
            known=known,
            events=events,
            metrics=metrics,
        )
    shared = _shared(manager, options, known, leases, switches, events=events)
    if connect is not None:
        read = None
        if options.definitions_secret:
            # Imported here: what opens sealed definitions takes 8 MiB.
            from hypercobalt.operator.definitions.assembly import (  # noqa: PLC0415
                add_definitions,
            )

            read = add_definitions(manager, shared, options.definitions_secret, namespaces)
        service = connect(shared.hypervisors.all, manager.leader_guard, read)
        add_compute(
            manager,
            shared,
            service,
            leases,
            fences
            or add_fence_devices(
                manager,
                shared,
                options.fence_devices,
                options.fence_namespace,
                open_device,
                checked=options.ha.mode is HaMode.INTERNAL,
            ),
            lifecycle=dataclasses.replace(
                options.lifecycle, ha=options.ha.mode, ovs_namespace=options.ovs_namespace
            ),
            labels=copied_labels(options.label_selector),
            fence_labels=labels_of(options.fence_devices),
            policy=options.eviction,
            ha=options.ha,
            metrics=metrics,
        )
    recovers = connect is not None and options.ha.mode is HaMode.INTERNAL
    contested = Contested(shared.nodes.cache, known.cache, shared.hypervisors)
    _add_hypervisors(
        manager, options, shared, metrics, switches, contested=contested, recovers=recovers
    )
    _add_agents(manager, shared, leases)
    add_shared_storage(manager, shared)
    if options.gardener_namespace:
        _add_gardener(manager, options, shared)
    if options.issuing.source is CertificateSource.REQUEST:
        add_approval(
            manager,
            options.issuing,
            options.agent_namespaces,
            shared,
            metrics,
            holder=contested.holder,
        )
    else:
        add_certificates(
            manager,
            options.issuing,
            shared.nodes,
            shared.creation,
            metrics,
            holder=contested.holder,
        )


def _hypervisors(manager: Manager, options: OperatorOptions) -> Informer[Hypervisor]:
    return manager.informer(
        Hypervisor,
        labels=options.label_selector,
        indexes={
            **INDEXES,
            BY_IDENTITY: identity_of,
            BY_NETWORK: network_of,
            BY_STORAGE: storages_of,
            BY_DEVICE: connections(options.fence_devices),
        },
        managers=True,
    )


def _shared(
    manager: Manager,
    options: OperatorOptions,
    informer: Informer[Hypervisor],
    leases: AgentLeases,
    switches: Switches | None,
    *,
    events: Recorder,
) -> Shared:
    chosen = ",".join(part for part in (HYPERVISOR_LABEL, options.label_selector) if part)
    hypervisors = WriteCache(informer)

    def computed(found: Hypervisor) -> tuple[Condition, ...]:
        now = manager.clock.now()
        agent = reporting.initial(found, leases.glance(found.metadata.name), now)
        network = unwatched(found, now) if switches is None else switches.condition(found, now)
        mine = (*agent, *network)
        kept = (one for one in found.conditions if get_condition(mine, one.type) is None)
        whole = replace(found, status=replace(found.status, conditions=(*kept, *mine)))
        return *mine, ready.condition(whole, now), taint.condition(whole, now)

    return Shared(
        nodes=manager.informer(Node, labels=chosen, indexes={BY_CLAIM: claims}),
        informer=informer,
        hypervisors=hypervisors,
        statuses=StatusWriter(
            manager.kube,
            hypervisors,
            computed,
            external_ha=options.ha.mode is HaMode.EXTERNAL,
        ),
        events=events,
        shard=options.label_selector,
    )


def _add_hypervisors(
    manager: Manager,
    options: OperatorOptions,
    shared: Shared,
    metrics: Metrics,
    switches: Switches | None,
    *,
    contested: Contested,
    recovers: bool,
) -> None:
    """Add what needs nothing but the API: Hypervisors of Nodes, `Ready` and `Tainted`."""
    kube, clock = manager.kube, manager.clock
    pods = AgentPods(kube, options.agent_namespaces, metrics)
    manager.add_service("agent-pods", pods.run)
    shared.nodes.add_handler(NewNodes(shared.informer, shared.creation))
    manager.add(
        Controller(
            node_reconciler.NAME,
            node_reconciler.HypervisorReconciler(
                kube,
                shared.nodes.cache,
                shared.hypervisors,
                shared.statuses,
                pods,
                contested=contested,
                # A dead host whose Node is gone is fenced by the labels that it had.
                copied=(*copied_labels(options.label_selector), *labels_of(options.fence_devices)),
                recovers=recovers,
                precedence=shared.creation,
                clock=clock,
                events=shared.events,
            ),
            watches=(
                primary(shared.nodes),
                primary(shared.informer, when=hypervisor.worth_a_pass),
                mapped(shared.nodes, contested.beside, when=addresses_changed),
                mapped(shared.informer, contested.beside_hypervisor, when=identity_changed),
                pods.source.watch,
            ),
        )
    )
    manager.add(
        Controller(
            ready.NAME,
            ready.ReadyReconciler(shared.hypervisors, shared.statuses),
            watches=(
                primary(shared.informer, when=ready.worth_a_pass),
                *((switches.judged.watch,) if switches is not None else ()),
            ),
            yields_to=shared.creation,
        )
    )
    manager.add(
        Controller(
            taint.NAME,
            taint.TaintReconciler(shared.hypervisors, shared.statuses),
            watches=(primary(shared.informer, when=generation_changed),),
            yields_to=shared.creation,
        )
    )


def _add_agents(manager: Manager, shared: Shared, leases: AgentLeases) -> None:
    """Add what follows the node agents' Leases."""
    manager.add_service("agent-leases", leases.run)
    manager.add_check("agent-leases", leases.unread, readiness=True)
    manager.add(
        Controller(
            reporting.NAME,
            AgentReportingReconciler(
                manager.kube,
                leases,
                shared.hypervisors,
                shared.statuses,
                clock=manager.clock,
                events=shared.events,
            ),
            watches=(
                primary(shared.informer, when=reporting.worth_a_pass),
                leases.source.watch,
            ),
        )
    )


def _add_gardener(manager: Manager, options: OperatorOptions, shared: Shared) -> None:
    namespace = options.gardener_namespace
    budgets = manager.informer(PodDisruptionBudget, namespace, labels=gardener.LABEL)
    deployments = manager.informer(Deployment, namespace, labels=gardener.LABEL)
    manager.add(
        Controller(
            gardener.NAME,
            gardener.GardenerReconciler(
                manager.kube,
                shared.nodes.cache,
                shared.hypervisors,
                WriteCache(budgets),
                WriteCache(deployments),
                image=options.signal_image,
                namespace=namespace,
            ),
            watches=(
                primary(shared.nodes),
                primary(shared.informer, when=gardener.worth_a_pass),
                owned(budgets, Node, when=generation_changed),
                owned(deployments, Node, when=generation_changed),
            ),
            yields_to=shared.creation,
        )
    )
