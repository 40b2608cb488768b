"""What others change in OpenStack, on a simulated one: noticed by listings, at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.conftest import Operator, add_node, operator, reason, until
from tests.integration.operator.lifecycle import TEST_AGGREGATE, agent_reports, message
from tests.integration.operator.service import GENERAL, SKIP
from tests.integration.operator.simulated import SimulatedCloud, served, world_of
from tests.integration.runtime.scripted import eventually
from tests.simulated_openstack.compute.aggregates import make
from tests.simulated_openstack.model import Host
from tests.simulated_openstack.world import World

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.shared.node_facts import TRAITS_ANNOTATION
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

LISTINGS = LifecycleSettings(compare=timedelta(milliseconds=300), resync=timedelta(hours=1))
"""Nothing but the listings gets a host a pass."""
WISHES = GENERAL | {TRAITS_ANNOTATION: "CUSTOM_A"}
FLEET = 12
PROVIDERS = "placement GET /resource_providers"
TRAITS = "placement GET /resource_providers/{id}/traits"


@dataclass(slots=True)
class Compared(SimulatedCloud):
    """One whose hosts the running operator compares with what it last left."""

    running: Operator

    async def node(self, name: str) -> None:
        await add_node(self.kube, name, labels=SKIP, annotations=WISHES)
        await until(self.kube, Hypervisor, name, lambda _: True)
        await agent_reports(self.kube, name)

    async def ready(self, name: str) -> Hypervisor:
        return await until(self.kube, Hypervisor, name, in_service)

    async def comparisons(self, number: int) -> None:
        """Wait until the fleet has been compared so often."""
        seen = self.script.count(PROVIDERS)
        await eventually(lambda: self.script.count(PROVIDERS) >= seen + number)


def in_service(hypervisor: Hypervisor) -> bool:
    states = {type_: reason(hypervisor, type_) for type_ in ("Ready", "AggregatesUpdated")}
    return states == {"Ready": "True/Ready", "AggregatesUpdated": "True/Succeeded"}


@asynccontextmanager
async def around(
    kube: Kube, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, world: World
) -> AsyncIterator[Compared]:
    async with served(monkeypatch, world) as simulation:
        nova = Adapter(simulation).nova()
        async with operator(kubeconfig, nova, lifecycle=LISTINGS) as running:
            yield Compared(simulation, kube, kubeconfig, next(iter(world.hosts), ""), running)


def disable(world: World, host: Host) -> None:
    host.enabled, host.disabled_reason = False, "Hypervisor CRD: spec.maintenance=manual"


def force_down(world: World, host: Host) -> None:
    disable(world, host)
    host.forced_down = True


def leave_aggregate(world: World, host: Host) -> None:
    (general,) = (a for a in world.aggregates.values() if a.name == "general")
    general.hosts.pop(host.name)


def enter_aggregate(world: World, host: Host) -> None:
    made = make(world, "foreign")
    made.hosts[host.name] = None


def drop_trait(world: World, host: Host) -> None:
    host.traits.discard("CUSTOM_A")
    host.generation += 1


@pytest.mark.parametrize(
    "change", [disable, force_down, leave_aggregate, enter_aggregate, drop_trait]
)
async def test_drift_in_nova_and_placement_is_put_right_within_two_comparisons(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[World, Host], None],
) -> None:
    async with around(kube, kubeconfig, monkeypatch, world_of(name)) as site:
        await site.node(name)
        await site.ready(name)
        await site.comparisons(1)
        host = site.world.hosts[name]
        change(site.world, host)
        await site.comparisons(2)

        def right() -> bool:
            inside = {a.name for a in site.world.aggregates.values() if name in a.hosts}
            in_order = host.enabled and not host.forced_down and "CUSTOM_A" in host.traits
            return in_order and inside == {"zone-a", "general"}

        await eventually(right)


async def test_metadata_of_an_aggregate_is_followed(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with around(kube, kubeconfig, monkeypatch, world_of(name)) as site:
        await site.node(name)
        await site.ready(name)
        (general,) = (a for a in site.world.aggregates.values() if a.name == "general")
        for wanted in ({"cpu": "new"}, {}):
            general.metadata = dict(wanted)

            def shows(hypervisor: Hypervisor, wanted: dict[str, str] = wanted) -> bool:
                shown = {one.name: one.metadata for one in hypervisor.status.aggregates}
                return shown.get("general") == wanted

            await until(kube, Hypervisor, name, shows)


async def test_nova_compute_that_is_down_is_shown_until_it_reports_again(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with around(kube, kubeconfig, monkeypatch, world_of(name)) as site:
        await site.node(name)
        shown = await site.ready(name)
        assert reason(shown, "ComputeServiceUp") == "True/Up"
        host = site.world.hosts[name]
        host.power.clear()
        down = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "ComputeServiceUp") == "False/Down"
        )
        assert "check that nova-compute runs" in message(down, "ComputeServiceUp")
        host.power.set()
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "ComputeServiceUp") == "True/Up")


async def test_service_that_others_disabled_stays_disabled(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with around(kube, kubeconfig, monkeypatch, world_of(name)) as site:
        await site.node(name)
        await site.ready(name)
        host = site.world.hosts[name]
        host.enabled, host.disabled_reason = False, "bad disk"
        shown = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: reason(hv, "HypervisorDisabled") == "True/DisabledByOthers",
        )
        assert "bad disk" in message(shown, "HypervisorDisabled")
        before = message(shown, "HypervisorDisabled")
        await site.comparisons(3)
        after = await until(kube, Hypervisor, name, lambda _: True)
        assert (host.enabled, message(after, "HypervisorDisabled")) == (False, before)
        assert site.script.count("compute PUT *") == 1, "only to enable it at first"


async def test_fleet_without_drift_is_compared_by_three_listings_and_few_reads_of_traits(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}-{number}" for number in range(FLEET)]
    async with around(kube, kubeconfig, monkeypatch, world_of(*names)) as site:
        await asyncio.gather(*(site.node(host) for host in names))
        await asyncio.gather(*(site.ready(host) for host in names))
        await site.comparisons(2)
        site.script.forget()
        await site.comparisons(3)
        calls, compared = dict(site.script.calls), site.script.count(PROVIDERS)
    reads = calls.pop(TRAITS, 0)
    # Small as it is, each of its providers is among those that are read again.
    assert reads <= FLEET * (compared + 1)
    assert sum(calls.values()) <= 3 * (compared + 1), calls
    a_minute_and_host = (reads + sum(calls.values())) / (compared + 1) / FLEET
    assert a_minute_and_host <= 7


async def test_hosts_that_wait_cost_a_listing_for_all_and_no_pass(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}-{number}" for number in range(FLEET)]
    async with around(kube, kubeconfig, monkeypatch, world_of()) as site:
        await asyncio.gather(*(site.node(host) for host in names))
        for host in names:
            await until(
                kube, Hypervisor, host, lambda hv: reason(hv, "Registered") == "False/NotRegistered"
            )
        passes = site.running.metrics.reconcile_total.labels("lifecycle", "success")
        await site.comparisons(1)
        before, writes = passes._value.get(), site.running.writes
        site.script.forget()
        await site.comparisons(3)
        compared = site.script.count(PROVIDERS)
        assert site.script.calls.total() <= 3 * (compared + 1)
        assert (passes._value.get(), site.running.writes) == (before, writes)
        for host in names:
            site.world.add_host(host, enabled=False)
        await asyncio.gather(*(site.ready(host) for host in names))


async def test_aggregate_and_provider_that_come_later_are_noticed(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(name, aggregates=(TEST_AGGREGATE,))
    world.hosts[name].provider = False
    async with around(kube, kubeconfig, monkeypatch, world) as site:
        await site.node(name)
        await until(
            kube, Hypervisor, name, lambda hv: "no resource" in message(hv, "TraitsUpdated")
        )
        world.hosts[name].provider = True
        missing = "no aggregate 'general'"
        await until(kube, Hypervisor, name, lambda hv: missing in message(hv, "AggregatesUpdated"))
        make(world, "general")
        await site.ready(name)


async def test_traits_are_read_once_until_a_host_is_in_service(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.LISTINGS", replace(LISTINGS, compare=timedelta(minutes=1)))
    names = [f"{name}-{number}" for number in range(FLEET)]
    async with around(kube, kubeconfig, monkeypatch, world_of(*names)) as site:
        await asyncio.gather(*(site.node(host) for host in names))
        await asyncio.gather(*(site.ready(host) for host in names))
        assert site.script.count(TRAITS) == FLEET
