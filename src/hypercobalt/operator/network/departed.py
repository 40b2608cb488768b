"""Deletes the OVSNode of a host that has left: its Node is gone, and its OVS agent is silent.

An OVSNode has no owner, for its agent may not read Nodes; the agent makes it again whenever there
is none. So it is deleted only once the agent's Lease has run out, and the Node is read from the
server first. The Lease is owned by the OVSNode, and goes with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.leases import AgentLeases, LeaseState
from hypercobalt.operator.network.switches import Switches
from hypercobalt.runtime import ConflictError, Kube, Result

log = get_logger(__name__)

NAME: Final = "departed-switches"
"""Name of the controller."""

AGAIN: Final = timedelta(minutes=10)
"""How often the Node of a silent agent is read: one without a Hypervisor leaves unseen."""

SOON: Final = timedelta(seconds=1)
"""How soon it is tried again when the OVSNode was written meanwhile."""


def is_gone(_old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """Whether a Hypervisor was deleted, as it is with its Node."""
    return new is None


class DepartureReconciler:
    """Deletes the OVSNodes that remain of hosts.

    Args:
        kube: reads Nodes, deletes OVSNodes.
        leases: of the OVS agents.
        switches: the OVSNodes.
    """

    def __init__(self, kube: Kube, leases: AgentLeases, switches: Switches) -> None:
        self._kube, self._leases, self._switches = kube, leases, switches

    async def reconcile(self, name: str, /) -> Result:
        switch = self._switches.get(name)
        if switch is None:
            return Result()
        seen = await self._leases.of(name)
        if seen is None or seen.state not in {LeaseState.EXPIRED, LeaseState.ABSENT}:
            return Result()  # the Lease leads to a pass when it runs out
        if seen.left:
            return Result(seen.left)
        if await self._kube.get(Node, name) is not None:
            return Result(AGAIN)
        try:
            await self._kube.delete(
                OVSNode,
                name,
                self._switches.namespace,
                uid=switch.metadata.uid,
                resource_version=switch.metadata.resourceVersion,
            )
        except ConflictError:
            # By the agent, which is back, or by the operator's other controllers.
            return Result(SOON)
        log.info("ovsnode_deleted", host=name, reason="its Node is gone and its agent silent")
        return Result()
