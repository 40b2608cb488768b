"""Puts what follows the OVS agents under a manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypercobalt.operator.agents.leases import OVS_AGENT, AgentLeases
from hypercobalt.operator.network.silence import NAME, SilenceReconciler
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import Controller, Manager, Metrics, Recorder


def add_network(
    manager: Manager,
    namespace: str,
    bridge: str,
    *,
    known: Callable[[], Iterable[str]],
    events: Recorder,
    metrics: Metrics,
) -> Switches:
    """Add what follows the OVSNodes and their agents' Leases.

    No readiness check waits for either: a cluster may have no OVS agents.

    Args:
        manager: runs it.
        namespace: namespace of both.
        bridge: name of the integration bridge.
        known: names of all hosts that there are.
        events: for people.
        metrics: of the process.
    """
    switches = Switches(manager.kube, namespace, bridge, metrics, known=known)
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
    return switches
