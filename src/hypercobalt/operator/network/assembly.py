"""Puts what follows the OVS agents under a manager."""

from __future__ import annotations

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.agents.leases import OVS_AGENT, AgentLeases
from hypercobalt.operator.network import departed
from hypercobalt.operator.network.silence import NAME, SilenceReconciler
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import Controller, Informer, Manager, Metrics, Recorder, primary


def add_network(
    manager: Manager,
    namespace: str,
    bridge: str,
    *,
    known: Informer[Hypervisor],
    events: Recorder,
    metrics: Metrics,
) -> Switches:
    """Add what follows the OVSNodes and their agents' Leases.

    No readiness check waits for either: a cluster may have no OVS agents.

    Args:
        manager: runs it.
        namespace: namespace of both.
        bridge: name of the integration bridge.
        known: all hosts that there are.
        events: for people.
        metrics: of the process.
    """
    switches = Switches(manager.kube, namespace, bridge, metrics, known=known.cache.keys)
    leases = AgentLeases(manager.kube, (namespace,), switches.hosts, metrics, prefix=OVS_AGENT)
    manager.add_service("switches", switches.run)
    manager.add_service("ovs-agent-leases", leases.run)
    manager.add(
        Controller(
            NAME,
            SilenceReconciler(manager.kube, leases, switches, clock=manager.clock, events=events),
            watches=(switches.spoke.watch, leases.source.watch),
        )
    )
    manager.add(
        Controller(
            departed.NAME,
            departed.DepartureReconciler(manager.kube, leases, switches),
            watches=(
                switches.spoke.watch,
                leases.source.watch,
                primary(known, when=departed.is_gone),
            ),
        )
    )
    return switches
