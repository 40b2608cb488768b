"""Hypervisors of other shards are read before a host's service is taken, not at each pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.unit.operator.samples import NOW

from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle.other_shards import KEPT_SECONDS, OtherShards
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.runtime import Cache, Clock, Kube
from hypercobalt.runtime.client.collection import Page


def hypervisor(name: str, service: str = "", hostname: str = "") -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(
            name=name,
            labels={HOSTNAME_LABEL: hostname} if hostname else {},
            annotations={"large": "x" * 1000},
        ),
        spec=HypervisorSpec(lifecycleEnabled=True, customTraits=("CUSTOM_A",)),
        status=HypervisorStatus(serviceId=service or None, capabilities=None),
    )


def host(name: str) -> Host:
    return FakeCompute(lambda: NOW).world.add_host(name)


@dataclass
class Site:
    """An API server, a clock, and what the operator watches."""

    all: list[Hypervisor]
    own: dict[str, Hypervisor] = field(default_factory=dict[str, Hypervisor])
    reads: int = 0
    time: float = 0.0

    def monotonic(self) -> float:
        return self.time

    def get(self, name: str) -> Hypervisor | None:
        return self.own.get(name)

    async def pages(self, type_: type, *, limit: int) -> AsyncGenerator[Page[Hypervisor]]:
        assert type_ is Hypervisor
        assert limit > 0
        self.reads += 1
        await asyncio.sleep(0)
        half = len(self.all) // 2
        yield Page(self.all[:half], "9", "more", {})
        yield Page(self.all[half:], "9", "", {})

    def shards(self) -> OtherShards:
        own, clock = cast("Cache[Hypervisor]", self), cast("Clock", self)
        return OtherShards(cast("Kube", self), own, clock)


@pytest.mark.parametrize(
    "other",
    [
        hypervisor("kvm-b"),
        hypervisor("kvm-b.example.org"),
        hypervisor("node-7", hostname="kvm-b.example.org"),
        hypervisor("node-7", service=host("kvm-b").service_id),
    ],
    ids=["its name", "its first label", "its hostname", "its service"],
)
async def test_hypervisor_of_another_shard_has_a_claim_by(other: Hypervisor) -> None:
    (found,) = await Site([hypervisor("kvm-a"), other]).shards().claimants(host("kvm-b"))
    assert found.metadata.name == other.metadata.name
    assert found.metadata.labels == other.metadata.labels
    assert found.spec.lifecycleEnabled is True
    assert found.status.serviceId == other.status.serviceId
    assert (found.metadata.annotations, found.spec.customTraits) == ({}, ())  # which nothing needs


async def test_hypervisors_of_the_own_shard_are_not_read_again() -> None:
    mine = hypervisor("kvm-b")
    assert await Site([mine], {"kvm-b": mine}).shards().claimants(host("kvm-b")) == ()


async def test_one_read_serves_the_passes_of_some_seconds() -> None:
    site = Site([hypervisor("kvm-b"), hypervisor("kvm-c")])
    shards = site.shards()
    found = await asyncio.gather(*(shards.claimants(host(f"kvm-{one}")) for one in "abcd"))
    assert [len(one) for one in found] == [0, 1, 1, 0]
    assert site.reads == 1
    site.all.append(hypervisor("kvm-d"))
    site.time += KEPT_SECONDS
    assert len(await shards.claimants(host("kvm-d"))) == 1
    assert site.reads == 2
