"""Hypervisors of other shards that may have a claim to a host.

An operator watches the Hypervisors of its shard alone, and the compute service has one name for a
host of any shard. A kubelet writes its Node's labels, the hostname and those of the shard among
them: so before a Hypervisor gets a service that it did not have, the others are read. One read
serves the passes of some seconds, and keeps no more of each than a claim needs.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.operator.shared.hypervisors import short_name, short_names
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.runtime import Cache, Clock, Kube

KEPT_SECONDS: Final = 5.0
_AT_ONCE: Final = 100
"""Hypervisors in one answer."""


class OtherShards:
    """Reads Hypervisors that the operator does not watch.

    Args:
        kube: to read with.
        own: Hypervisors of this shard.
        clock: of the process.
    """

    def __init__(self, kube: Kube, own: Cache[Hypervisor], clock: Clock) -> None:
        self._kube, self._own, self._clock = kube, own, clock
        self._reading = asyncio.Lock()
        self._read: tuple[float, tuple[Hypervisor, ...]] | None = None

    async def claimants(self, found: Host) -> tuple[Hypervisor, ...]:
        """Return the Hypervisors of other shards that a host may belong to.

        Raises:
            HypercobaltError: they cannot be read.
        """
        async with self._reading:
            now = self._clock.monotonic()
            if self._read is None or now - self._read[0] >= KEPT_SECONDS:
                self._read = now, await self._all()
            known = self._read[1]
        return tuple(
            one
            for one in known
            if self._own.get(one.metadata.name) is None and _may_have(one, found)
        )

    async def _all(self) -> tuple[Hypervisor, ...]:
        briefs: list[Hypervisor] = []
        pages = self._kube.pages(Hypervisor, limit=_AT_ONCE)
        async with aclosing(pages):
            async for page in pages:
                briefs += [_brief(one) for one in page.items]
        return tuple(briefs)


def _may_have(hypervisor: Hypervisor, found: Host) -> bool:
    has = hypervisor.status.serviceId == found.service_id
    return has or short_name(found.name) in short_names(hypervisor)


def _brief(hypervisor: Hypervisor) -> Hypervisor:
    meta, spec = hypervisor.metadata, hypervisor.spec
    hostname = meta.labels.get(HOSTNAME_LABEL, "")
    return Hypervisor(
        metadata=ObjectMeta(
            name=meta.name,
            uid=meta.uid,
            creationTimestamp=meta.creationTimestamp,
            labels={HOSTNAME_LABEL: hostname} if hostname else {},
        ),
        spec=HypervisorSpec(lifecycleEnabled=spec.lifecycleEnabled, maintenance=spec.maintenance),
        status=HypervisorStatus(serviceId=hypervisor.status.serviceId),
    )
