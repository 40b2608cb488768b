"""Assembles the controllers that need a compute service: lifecycle, Evictions, failed hosts."""

from __future__ import annotations

import asyncio

from hypercobalt.api.eviction import Eviction
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.agents.leases import AgentLeases
from hypercobalt.operator.eviction.assembly import add_eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.ha.assembly import add_ha
from hypercobalt.operator.ha.devices.fences import Fences
from hypercobalt.operator.ha.devices.power import PowerReader
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.lifecycle.assembly import add_lifecycle
from hypercobalt.operator.lifecycle.ha_enabled import FencingReadiness
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.metrics import Overview
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Manager, Metrics


def add_compute(
    manager: Manager,
    shared: Shared,
    service: ComputeService,
    leases: AgentLeases,
    fences: Fences,
    *,
    lifecycle: LifecycleSettings,
    labels: tuple[str, ...],
    fence_labels: tuple[str, ...],
    policy: Policy,
    ha: HaSettings,
    metrics: Metrics,
) -> None:
    """Add the controllers.

    Args:
        manager: runs them.
        shared: with the other controllers.
        service: where the instances are.
        leases: of the node agents.
        fences: the hosts' fence devices.
        lifecycle: settings of hosts in the compute service.
        labels: keys of those that a Hypervisor has from its Node.
        fence_labels: keys of those by which a host's fence devices are found.
        policy: of Evictions.
        ha: reactions to hosts that fail.
        metrics: of the process.
    """

    def unfenced(name: str) -> str:
        node = shared.nodes.cache.get(name)
        return fences.setup(node).problem if node is not None else f"there is no Node {name}"

    internal = ha.mode is HaMode.INTERNAL
    power = PowerReader(fences, shared.hypervisors, shared.nodes.cache, manager.clock)
    add_lifecycle(
        manager,
        shared,
        service,
        settings=lifecycle,
        labels=labels,
        fencing=FencingReadiness(unfenced, fence_labels),
        metrics=metrics,
    )
    add_eviction(
        manager,
        service,
        shared.informer,
        proofs=Proofs(manager.kube, power.of) if internal else Proofs(manager.kube),
        policy=policy,
        events=shared.events,
        metrics=metrics,
    )
    if internal:
        add_ha(manager, shared, service, leases, fences, power=power, settings=ha, metrics=metrics)
    evictions = manager.informer(Eviction)
    metrics.registry.register(Overview(shared.hypervisors.all, lambda: list(evictions.cache)))
    manager.add_check(f"compute-{service.name}", lambda: service.trouble or None, readiness=True)

    async def close(stop: asyncio.Event) -> None:
        try:
            await stop.wait()
        finally:
            await service.close()

    manager.add_service("compute", close)
