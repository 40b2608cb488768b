"""Node agents, as far as their Leases go."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.operator.agents.leases import NODE_AGENT
from hypercobalt.runtime import Kube, SystemClock

NAMESPACE = "monsoon3"  # of the agents' Certificates, where they keep their Leases, too


class Agent:
    """The Lease of a host's node agent, or of another agent; renewed by hand."""

    def __init__(
        self, kube: Kube, node: str, namespace: str = NAMESPACE, *, prefix: str = NODE_AGENT
    ) -> None:
        self._kube, self.name, self._namespace = kube, f"{prefix}{node}", namespace
        self._number = 0

    async def renews(self, *, lasts: int = 600, holder: str = "agent") -> None:
        self._number += 1
        meta = ObjectMeta(name=self.name, namespace=self._namespace)
        spec = LeaseSpec(
            holderIdentity=holder,
            leaseDurationSeconds=lasts,
            renewTime=micro_time(SystemClock().now() - timedelta(days=self._number)),
        )
        await self._kube.apply(Lease(metadata=meta, spec=spec), force=True)

    async def ends(self) -> None:
        await self._kube.delete(Lease, self.name, self._namespace)
