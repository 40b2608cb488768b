"""Maintenance, drift and the way out, on a real API server and a compute service in memory."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import pytest
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import QUICK, message, set_spec, site
from tests.integration.operator.service import in_service
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.eviction import Eviction, EvictionSpec, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import HostAggregate, Server, Size
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")


def host_of(compute: FakeCompute, name: str) -> tuple[bool, str]:
    host = compute.world.hosts[name]
    return host.enabled, host.disabled_reason


async def test_host_goes_into_maintenance_and_comes_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.add(Server("i1", "web", name, "BUILD"))
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
        found = await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") != "")
        assert reason(found, "HypervisorDisabled") == "True/Succeeded"
        assert host_of(compute, name) == (False, "Hypervisor CRD: spec.maintenance=manual")
        eviction = await kube.get(Eviction, name)
        assert eviction is not None
        assert eviction.spec.reason == "openstack-hypervisor-operator maintenance"
        assert eviction.metadata.ownerReferences[0].controller
        assert eviction.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"

        await set_spec(kube, name, maintenance="auto", maintenanceReason="")
        await eventually(lambda: host_of(compute, name)[1].endswith("=auto"))
        compute.moves.remove("i1")
        done = await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        assert reason(done, "Ready") == "False/Evicted"

        await set_spec(kube, name, maintenance="")
        back = await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "")
        assert reason(back, "Ready") == "True/Ready"
        assert back.status.evicted is False
        assert await kube.get(Eviction, name) is None
        await eventually(lambda: host_of(compute, name) == (True, ""))


@pytest.mark.parametrize("named", [True, False], ids=["of one instance", "of the whole host"])
async def test_eviction_before_the_maintenance_does_not_count(
    kube: Kube, kubeconfig: Path, name: str, *, named: bool
) -> None:
    compute = site(name)
    gone = str(uuid.uuid4())
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        only = (gone,) if named else ()
        spec = EvictionSpec(hypervisor=name, reason="by hand", instances=only)
        old = await kube.create(Eviction(metadata=ObjectMeta(name=name), spec=spec))
        await until(kube, Eviction, name, lambda e: has_ended(e.status))
        await eventually(lambda: host_of(compute, name) == (True, ""))
        compute.moves.add(Server("i1", "web", name, "BUILD"))
        seen: list[Hypervisor] = []

        def notes(found: Hypervisor) -> bool:
            seen.append(found)
            return reason(found, "Evicting") == "False/Succeeded"

        await set_spec(kube, name, maintenance="auto")
        new = await until(kube, Eviction, name, lambda e: e.metadata.uid != old.metadata.uid)
        assert new.spec.instances == ()
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "True/Running")
        compute.moves.remove("i1")
        done = await until(kube, Hypervisor, name, notes)
    assert done.status.evicted
    assert not any(one.status.evicted for one in seen[:-1])


async def test_a_server_that_comes_to_an_emptied_host_shows_and_leaves(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.hosts = {"target": Size(100, 100_000)}
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="auto")
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        compute.moves.add(Server("i1", "web", name, "VERIFY_RESIZE"))  # its owner may revert it
        back = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "True/Running"
        )
        assert back.status.evicted is False
        came = message(back, "Evicting")
        assert "came when the host was empty: i1, since " in came
        assert reason(back, "Ready") == "False/Evicting"
        await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
        later = await until(
            kube, Hypervisor, name, lambda hv: "=manual" in message(hv, "HypervisorDisabled")
        )
        assert message(later, "Evicting") == came
        compute.moves.change("i1", status="ACTIVE", running=True)
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
    assert [server.id for server in compute.moves.on("target")] == ["i1"]


async def test_host_without_the_lifecycle_label_is_disabled_and_emptied_in_maintenance(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.add(Server("i1", "web", name, "BUILD"))
    async with operator(kubeconfig, compute):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") != "")
        assert not compute.world.calls
        await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
        await eventually(lambda: host_of(compute, name)[1].endswith("=manual"))
        compute.moves.remove("i1")
        held = await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        assert reason(held, "Onboarding") == ""

        await set_spec(kube, name, maintenance="", maintenanceReason="")
        await eventually(lambda: host_of(compute, name) == (True, ""))
        back = await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "")
        assert reason(back, "Onboarding") == ""
    assert compute.world.names_of(name) == set()


async def test_failed_eviction_is_not_success(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = site(name)
    compute.moves.add(Server("i1", "web", name, "ERROR", fault="i1 is stuck"))
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "False/Failed"
        )
        assert found.status.evicted is False
        waiting = await until(
            kube, Hypervisor, name, lambda hv: "i1 is stuck" in message(hv, "Offboarded")
        )
        assert reason(waiting, "Offboarded") == "False/Offboarding"
        assert reason(waiting, "AggregatesUpdated") == "False/EvictionInProgress"
        assert name in compute.world.hosts

        compute.moves.remove("i1")
        await kube.delete(Eviction, name)  # the way back
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))


async def test_drift_in_openstack_is_put_right(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        world = compute.world
        ours = "Hypervisor CRD: spec.maintenance=manual"
        world.change_host(name, enabled=False, disabled_reason=ours, forced_down=True)
        world.add_aggregate("foreign", hosts=[name])
        world.aggregates[4] = emptied(world.aggregates[4])
        await eventually(lambda: host_of(compute, name) == (True, ""))
        await eventually(lambda: world.names_of(name) == {"general", "zone-a"})
        assert not world.hosts[name].forced_down


async def test_host_disabled_in_nova_stays_disabled_until_a_maintenance_ends(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        compute.world.change_host(name, enabled=False, disabled_reason="bad disk")
        shown = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: reason(hv, "HypervisorDisabled") == "True/DisabledByOthers",
        )
        assert "bad disk" in message(shown, "HypervisorDisabled")
        seen = len(compute.world.calls)
        await eventually(lambda: compute.world.calls[seen:].count(f"hosts.get {name}") > 3)
        assert host_of(compute, name) == (False, "bad disk")

        await set_spec(kube, name, maintenance="manual", maintenanceReason="disk")
        await eventually(lambda: host_of(compute, name)[1].endswith("=manual"))
        await set_spec(kube, name, maintenance="", maintenanceReason="")
        await eventually(lambda: host_of(compute, name) == (True, ""))


def emptied(aggregate: HostAggregate) -> HostAggregate:
    return dataclasses.replace(aggregate, hosts=())


async def test_eviction_by_hand_keeps_the_host_disabled_while_it_runs(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.add(Server("i1", "web", name, "BUILD"))
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        spec = EvictionSpec(hypervisor=name, reason="kvm-node-agent: host reboot")
        await kube.create(Eviction(metadata=ObjectMeta(name=f"{name}-boot"), spec=spec))
        await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "HypervisorDisabled").startswith("True")
        )
        assert "host reboot" in host_of(compute, name)[1]
        compute.moves.remove("i1")
        await eventually(lambda: host_of(compute, name) == (True, ""))


@pytest.mark.parametrize("maintenance", ["manual", "termination"])
async def test_host_counts_as_empty_only_when_what_is_on_its_way_there_has_left_again(
    kube: Kube, kubeconfig: Path, name: str, maintenance: str
) -> None:
    other = f"{name}-other"
    compute = site(name, other)
    compute.moves.hosts = {name: Size(64, 65536), other: Size(64, 65536)}
    server = Server("i1", "web", other, "ACTIVE", running=True, size=Size(1, 1024))
    compute.moves.add(server)
    compute.moves.script("i1", Script(seconds=1.5))
    seen: list[Hypervisor] = []

    def is_over(found: Hypervisor) -> bool:
        seen.append(found)
        left = bool(found.status.evicted)
        assert not left or compute.moves.started["i1"] == 2, "empty before it has left again"
        return left and (maintenance == "manual" or reason(found, "Offboarded").startswith("True"))

    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await compute.moves.live_migrate(server, name)
        compute.moves.disabled.add(name)
        await set_spec(kube, name, maintenance=maintenance, maintenanceReason="fan")
        await until(kube, Hypervisor, name, is_over)
        on_its_way = [one for one in seen if reason(one, "IncomingMigrationsSettled") != ""]
        assert reason(on_its_way[0], "IncomingMigrationsSettled") == "False/Waiting"
        assert "i1 from" in message(on_its_way[0], "IncomingMigrationsSettled")
    assert [server.host for server in compute.moves.on(other)] == [other]
