"""OVS agents, as far as their OVSNodes and Leases go."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.integration.operator.agents import Agent
from tests.integration.operator.conftest import SWITCHES

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import Bridge, NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.operator.agents.leases import OVS_AGENT
from hypercobalt.runtime import Kube

GOOD = {
    "OVSDBConnected": ("True", "Connected"),
    "VswitchdResponding": ("True", "Responding"),
    "OVNControllerConnected": ("True", "Connected"),
    "AllBridgesHealthy": ("True", "AllBridgesActive"),
    "AllBondsHealthy": ("True", "NoBonds"),
    "Ready": ("True", "AllChecksPassed"),
}
SB_AWAY = {
    "OVNControllerConnected": ("False", "SBDisconnected"),
    "Ready": ("False", "OVNControllerConnected"),
}
BRIDGE_DOWN = {
    "AllBridgesHealthy": ("False", "BridgeDown"),
    "Ready": ("False", "AllBridgesHealthy"),
}


class OVSAgent:
    """Reports by hand, as the agent does: all of its status, by a forced apply."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube, self._node = kube.as_manager("ovs-agent"), node
        self.lease = Agent(kube, node, SWITCHES, prefix=OVS_AGENT)
        self._conditions: tuple[Condition, ...] = ()

    async def appears(self) -> None:
        """Make the object and the Lease, and report a switch in order."""
        spec = OVSNodeSpec(nodeRef=NodeReference(name=self._node))
        await self._kube.create(OVSNode(metadata=self._meta, spec=spec))
        await self.lease.renews()
        await self.reports()

    async def reports(
        self, changed: dict[str, tuple[str, str]] | None = None, *, bridge: str = "Active"
    ) -> OVSNode:
        for type_, (state, reason) in (GOOD | (changed or {})).items():
            self._conditions = set_condition(
                self._conditions, type_, state, reason, "", now=datetime.now(UTC)
            )
        status = OVSNodeStatus(
            ovsVersion="3.1.0",
            bridges=(Bridge(name="br-int", status=bridge),),
            conditions=self._conditions,
        )
        spec = OVSNodeSpec(nodeRef=NodeReference(name=self._node))
        mine = OVSNode(metadata=self._meta, spec=spec, status=status)
        return await self._kube.apply(mine, force=True, subresource="status")

    async def dies(self) -> None:
        """Renew the Lease for the last time."""
        await self.lease.renews(lasts=1)

    @property
    def _meta(self) -> ObjectMeta:
        return ObjectMeta(name=self._node, namespace=SWITCHES)
