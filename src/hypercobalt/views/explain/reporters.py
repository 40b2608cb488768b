"""Those whose reports make a host's state, and when each was last seen. Pure.

The node agent renews the Lease `node-agent-NODE`, the kubelet the Node's own, the operator's leader
the Lease of its election: each within its own duration, or its reports count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node
from hypercobalt.operator.election import LEASE
from hypercobalt.views.explain.model import Finding, Remedy, ReporterSighting, age

AGENT: Final = "node agent"
OVS_AGENT: Final = "OVS agent"
KUBELET: Final = "kubelet"
OPERATOR: Final = "operator"

KUBELET_NAMESPACE: Final = "kube-node-lease"
"""Where kubelets renew their Leases."""

_PODS: Final = (
    "kubectl get pods --all-namespaces -l app.kubernetes.io/component=hypervisor-operator -o wide"
)
_DURATION: Final = timedelta(seconds=40)  # of a Lease that names none
_HOLDER: Final = 24  # characters of an identity: the host and the process
_HEARTBEAT: Final = timedelta(minutes=6)  # a kubelet without a Lease reports each 5 minutes


@dataclass(frozen=True, slots=True)
class Reporters:
    """The objects that show who is alive.

    Args:
        agent: Lease of the host's node agent; None, here and below: there is none.
        kubelet: Lease of the Node.
        operator: Lease of the election of the operator whose shard has the host.
        node: the Node.
        unreadable: kinds that the person may not read; what they would show is unknown.
    """

    agent: Lease | None = None
    kubelet: Lease | None = None
    operator: Lease | None = None
    node: Node | None = None
    unreadable: tuple[str, ...] = ()

    def sightings(self, node: str, now: datetime) -> tuple[ReporterSighting, ...]:
        """Return one sighting of each reporter, seen or not.

        Args:
            node: name of the host.
            now: of the reading.
        """
        if "Lease" in self.unreadable:
            none = "Leases cannot be read with these credentials"
            return tuple(
                ReporterSighting(who, None, False, none) for who in (AGENT, KUBELET, OPERATOR)
            )
        agent = _sighting(AGENT, self.agent, now, f"no Lease node-agent-{node} in any namespace")
        return (agent, self._kubelet(node, now), self._operator(now))

    def _kubelet(self, node: str, now: datetime) -> ReporterSighting:
        if "Node" in self.unreadable:
            return ReporterSighting(
                KUBELET, None, False, "Nodes cannot be read with these credentials"
            )
        if self.node is None:
            return ReporterSighting(KUBELET, None, True, f"there is no Node {node}")
        ready = next((c for c in self.node.status.conditions if c.type == "Ready"), None)
        detail = f"Node {node}, Ready {ready.status if ready else 'not reported'}"
        if self.kubelet is not None:
            return _sighting(KUBELET, self.kubelet, now, "", detail)
        seen = ready.lastHeartbeatTime if ready else None
        return ReporterSighting(KUBELET, seen, seen is None or now - seen > _HEARTBEAT, detail)

    def _operator(self, now: datetime) -> ReporterSighting:
        if self.operator is None:
            missing = (
                f"no Lease {LEASE}, and none of a shard with this host; leader election may be off"
            )
            return ReporterSighting(OPERATOR, None, False, missing)
        return _sighting(OPERATOR, self.operator, now, "")


def unseen_by_operator(kind: str) -> Finding:
    """Finding that the operator has written no condition yet."""
    return Finding(
        f"The operator to reconcile this {kind} for the first time",
        remedies=(Remedy("check that it runs, leads, and has this host in its shard", _PODS),),
    )


def operator_findings(reporters: Reporters, now: datetime) -> tuple[Finding, ...]:
    """Finding that the operator is away, if it is: all that it reported may be out of date."""
    lease = reporters.operator
    if lease is None or not is_late(lease, now):
        return ()
    seen = f"for {age(lease.spec.renewTime, now)}" if lease.spec.renewTime else "yet"
    remedy = Remedy("check that the operator runs and reaches the API server", _PODS)
    text = (
        f"The operator has not renewed its Lease {seen}; its conditions may be out of date"
        if lease.spec.holderIdentity
        else "No operator leads: its Lease is released; its conditions may be out of date"
    )
    return (Finding(text, remedies=(remedy,)),)


def is_late(lease: Lease, now: datetime) -> bool:
    """Whether the Lease is released or has run out, by its own duration."""
    spec = lease.spec
    if not spec.holderIdentity or spec.renewTime is None:
        return True
    lasts = timedelta(seconds=spec.leaseDurationSeconds) if spec.leaseDurationSeconds else _DURATION
    return now - spec.renewTime > lasts


def renewed(lease: Lease) -> datetime | None:
    """When a Lease was renewed last, to the second."""
    at = lease.spec.renewTime
    return None if at is None else datetime.fromtimestamp(int(at.timestamp()), UTC)


def _sighting(
    who: str, lease: Lease | None, now: datetime, missing: str, detail: str = ""
) -> ReporterSighting:
    if lease is None:
        return ReporterSighting(who, None, True, missing)
    meta, holder = lease.metadata, lease.spec.holderIdentity
    short = holder if holder is None or len(holder) <= _HOLDER else f"{holder[:_HOLDER]}…"
    held = f"held by {short}" if short else "released"
    shown = f"Lease {meta.namespace}/{meta.name}, {held}"
    whole = f"{detail}; {shown}" if detail else shown
    return ReporterSighting(who, renewed(lease), is_late(lease, now), whole)
