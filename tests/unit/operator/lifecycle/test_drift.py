"""Which hosts get a pass because listings of the compute service differ from what was left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import facts

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import Aggregate, HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import ProviderTraits
from hypercobalt.operator.lifecycle.drift import FLEET, Compared, Drift, growth
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.runtime import FakeClock

PERIOD = timedelta(minutes=1)


class Site:
    """Some hosts, each with a pass behind it."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock()
        self.compute = FakeCompute(self.clock.now)
        self.compute.world.add_aggregate("general")
        self.hypervisors: list[Hypervisor] = []
        self.drift = Drift(self.compute, self._known, PERIOD, clock=self.clock)
        self.enqueued: list[str] = []
        self.drift.source.watch.attach(self.enqueued.append)
        for name in names:
            self.add(name)

    def _known(self) -> Sequence[Hypervisor]:
        return self.hypervisors

    def add(self, name: str, *, registered: bool = True) -> None:
        host = self.compute.world.add_host(name) if registered else None
        status = HypervisorStatus(hypervisorId=host.hypervisor_id if host else None)
        made = Hypervisor(metadata=ObjectMeta(name=name), status=status)
        after = LifecycleFacts(made, host, self.clock.now())
        if host is None:
            after = after.with_condition("Registered", "False", "NotRegistered", "")
        self.hypervisors.append(after.hypervisor)
        self.drift.leave(after)

    async def compare(self) -> list[str]:
        """Let a period pass, and return the hosts that get a pass."""
        self.clock.advance(PERIOD)
        return await self.look()

    async def look(self) -> list[str]:
        self.enqueued.clear()
        await self.drift.look()
        return sorted(self.enqueued)

    def calls(self, what: str) -> int:
        return sum(call.startswith(what) for call in self.compute.world.calls)


async def test_fleet_that_is_as_it_was_left_gets_no_pass_and_costs_three_listings() -> None:
    site = Site(*(f"kvm-{number}" for number in range(50)))
    assert await site.compare() == []
    assert sorted(site.compute.world.calls) == ["aggregates.list", "hosts.fleet", "traits.changed"]


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False, "disabled_reason": "by hand"},
        {"forced_down": True},
        {"up": False},
        {"servers": ("a-server",)},
        {"service_id": "another"},
    ],
    ids=["disabled", "forced down", "down", "a server came", "registered again"],
)
async def test_host_that_others_change_gets_one_pass(change: dict[str, object]) -> None:
    site = Site("kvm-a", "kvm-b")
    site.compute.world.change_host("kvm-a", **change)
    assert await site.compare() == ["kvm-a"]
    assert await site.compare() == [], "its pass left it so"


async def test_host_that_drifts_again_in_the_same_way_gets_another_pass() -> None:
    site = Site("kvm-a")
    site.compute.world.change_host("kvm-a", enabled=False)
    assert await site.compare() == ["kvm-a"]
    site.compute.world.change_host("kvm-a", enabled=True)  # by its pass
    assert await site.compare() == []
    site.compute.world.change_host("kvm-a", enabled=False)
    assert await site.compare() == ["kvm-a"]


async def test_host_that_others_take_out_of_an_aggregate_or_put_into_one_gets_a_pass() -> None:
    site = Site("kvm-a", "kvm-b")
    listed = await site.compute.aggregates.list() if site.compute.aggregates else ()
    general = listed[0]
    assert site.compute.aggregates is not None
    await site.compute.aggregates.add(general, "kvm-b")
    assert await site.compare() == ["kvm-b"]
    left = site.hypervisors[1]
    there = (Aggregate(name="general", uuid=general.uuid, metadata={}),)
    left = replace(left, status=replace(left.status, aggregates=there))
    host = site.compute.world.hosts["kvm-b"]
    site.drift.leave(LifecycleFacts(left, host, site.clock.now()))
    assert await site.compare() == []
    await site.compute.aggregates.remove(general, "kvm-b")
    assert await site.compare() == ["kvm-b"]


async def test_provider_whose_traits_others_change_gets_its_host_a_pass() -> None:
    site = Site("kvm-a", "kvm-b")
    provider = site.compute.world.hosts["kvm-a"].hypervisor_id
    assert site.compute.traits is not None
    await site.compute.traits.get(provider)
    assert await site.compare() == []
    site.compute.world.traits[provider] = ProviderTraits((), 2)
    assert await site.compare() == ["kvm-a"]
    assert await site.compare() == [], "no pass has read them since"


async def test_host_that_registers_gets_its_pass_before_the_period_is_over() -> None:
    site = Site("kvm-a")
    site.add("kvm-b", registered=False)
    assert await site.look() == []
    site.compute.world.add_host("kvm-b")
    assert await site.look() == ["kvm-b"]
    assert site.compute.world.calls == ["hosts.fleet"] * 2, "and nothing else was listed"


async def test_aggregate_that_is_created_gets_the_hosts_that_miss_it_a_pass() -> None:
    site = Site("kvm-a", "kvm-b")
    failed = facts().with_condition("AggregatesUpdated", "False", "Failed", "no aggregate 'x'")
    site.hypervisors[1] = replace(failed.hypervisor, metadata=site.hypervisors[1].metadata)
    await site.look()  # which aggregates there are is new to it
    assert await site.look() == []
    site.compute.world.add_aggregate("x")
    assert await site.look() == ["kvm-b"]


async def test_few_of_many_hosts_that_wait_look_for_themselves() -> None:
    site = Site()
    one = Hypervisor(metadata=ObjectMeta(name="kvm-a"))
    site.add("first")
    site.hypervisors = [
        replace(one, metadata=ObjectMeta(name=f"kvm-{n}")) for n in range(2 * FLEET)
    ]
    site.add("new-1", registered=False)
    site.add("new-2", registered=False)
    assert await site.look() == ["new-1", "new-2"]
    assert site.calls("hosts.fleet") == 0


async def test_listing_that_fails_leaves_the_others_and_is_tried_again() -> None:
    site = Site("kvm-a")
    site.compute.world.change_host("kvm-a", enabled=False)
    site.compute.world.fault = lambda what, _: (
        UnreachableError("away") if what == "hosts.fleet" else None
    )
    assert await site.compare() == []
    assert (site.calls("aggregates.list"), site.calls("traits.changed")) == (1, 1)
    site.compute.world.fault = None
    assert await site.compare() == ["kvm-a"]


async def test_process_that_has_made_no_pass_lists_nothing() -> None:
    site = Site("kvm-a")
    site.drift.forget("kvm-a")
    assert await site.compare() == []
    assert site.compute.world.calls == []


async def test_host_without_a_pass_and_one_that_is_gone_are_not_compared() -> None:
    site = Site("kvm-a", "kvm-b")
    site.drift.forget("kvm-a")
    site.compute.world.change_host("kvm-a", enabled=False)
    assert await site.compare() == []


@pytest.mark.parametrize(
    ("hosts", "by"), [(0, 1.0), (FLEET, 1.0), (2 * FLEET, 2.0), (10_000, 10.0)]
)
def test_periods_grow_with_a_fleet_that_is_larger_than_a_page(hosts: int, by: float) -> None:
    assert growth(hosts) == by


def test_a_difference_leads_to_one_pass_until_it_changes() -> None:
    seen = Compared()
    assert not seen.differs("a", 1), "its first pass is still to come"
    seen.left["a"] = 0
    assert [seen.differs("a", now) for now in (0, 1, 1, 2, 1, 0, 1)] == [
        *(False, True, False, True, True, False, True)
    ]


async def test_comparing_ends_when_the_process_stops() -> None:
    site, stop = Site("kvm-a"), asyncio.Event()
    running = asyncio.create_task(site.drift.run(stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(running, 1)
