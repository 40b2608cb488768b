"""Checks whether a host is proven dead now: read past every cache, before each evacuation.

The record alone does not suffice: an operator that takes over finds it, and the host may have
booted since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport, doubts
from hypercobalt.runtime import Kube

ReadPower = Callable[[str], Awaitable[PowerReport]]
"""Returns the present report of the device that has proven a host dead."""


async def unread(_: str) -> PowerReport:
    """Return OFF without a read: where another service fences hosts, it reads their power."""
    return PowerReport.OFF


class Proofs:
    """Reader of evidence against the proofs of hosts.

    Args:
        kube: reads.
        power: see `ReadPower`.
    """

    def __init__(self, kube: Kube, power: ReadPower = unread) -> None:
        self._kube, self._power = kube, power

    async def missing(self, host: str) -> str:
        """Return why a host is not proven dead now; "" when it is."""
        power = await self._power(host)
        node = await self._kube.get(Node, host)
        found = await self._kube.get(Hypervisor, host)
        if found is None or found.fencing is None or not is_fenced(found):
            why = "the operator has no record of that about its last boot"
            return f"Hypervisor {host} is no longer proven dead: {why}"
        info = node.status.nodeInfo if node is not None else None
        latest = LatestReports(info.bootID if info is not None else "", power=power)
        if against := doubts(found.fencing, latest):
            return f"Hypervisor {host} is no longer proven dead: {'; '.join(against)}"
        if power is PowerReport.UNKNOWN:
            device = found.fencing.device or "its fence device"
            return f"Hypervisor {host} is proven dead, but {device} no longer confirms that"
        return ""
