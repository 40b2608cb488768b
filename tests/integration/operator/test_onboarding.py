"""A host's way into OpenStack, on a real API server and a compute service in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.failing import SOON
from tests.integration.operator.lifecycle import QUICK, TEST_AGGREGATE, agent_reports, message, site
from tests.integration.operator.service import GENERAL, SKIP, TESTED, is_ready

from hypercobalt.adapters.fencing.devices import DeviceTemplate
from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.shared.node_facts import TRAITS_ANNOTATION
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]


async def test_host_without_a_test_is_onboarded_with_few_writes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    annotations = GENERAL | {TRAITS_ANNOTATION: "CUSTOM_B,CUSTOM_A"}
    async with operator(kubeconfig, compute) as running:
        await add_node(kube, name, labels=SKIP, annotations=annotations)
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.serviceId))
        await agent_reports(kube, name)
        made = await until(kube, Hypervisor, name, is_ready)
        assert running.writes <= 12, running.calls
        assert running.requests("PATCH", "409") == 0
    host = compute.world.hosts[name]
    assert (made.status.hypervisorId, made.status.serviceId) == (
        host.hypervisor_id,
        host.service_id,
    )
    assert compute.world.names_of(name) == {"general", "zone-a"}
    assert made.status.traits == ("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX")
    assert reason(made, "Onboarding") == "False/Succeeded"
    assert reason(made, "HaEnabled") == "True/Succeeded"
    assert reason(made, "HypervisorDisabled") == "False/Succeeded"
    # Reads depend on how many passes there are; passes share them in the adapter.
    reads = ("hosts.get", "traits.get", "aggregates.list")
    changes = [call for call in compute.world.calls if not call.startswith(reads)]
    assert len(changes) <= 8, changes
    assert sorted(call for call in changes if call.startswith("aggregates.")) == [
        f"aggregates.add general {name}",
        f"aggregates.add {TEST_AGGREGATE} {name}",
        f"aggregates.add zone-a {name}",
        f"aggregates.remove {TEST_AGGREGATE} {name}",
    ]


@pytest.mark.parametrize(
    ("labels", "has"),
    [
        pytest.param(SKIP, None, id="with skip-tests"),
        pytest.param(TESTED, (), id="with a service that has neither tests nor aggregates"),
    ],
)
async def test_host_that_is_not_tested_waits_for_its_agent_all_the_same(
    kube: Kube, kubeconfig: Path, name: str, labels: dict[str, str], has: tuple[str, ...] | None
) -> None:
    compute = site(name, has=has)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await add_node(kube, name, labels=labels, annotations=GENERAL)
        held = await until(
            kube, Hypervisor, name, lambda hv: "not reported libvirt" in message(hv, "Onboarding")
        )
        assert reason(held, "Onboarding") == "True/Initial"
        await agent_reports(kube, name, version="7.0.0")
        held = await until(
            kube, Hypervisor, name, lambda hv: "older than 8.0.0" in message(hv, "Onboarding")
        )
        assert reason(held, "Ready") == "False/Onboarding"
        await agent_reports(kube, name)
        await until(kube, Hypervisor, name, is_ready)


async def test_host_is_tested_in_the_test_aggregate_before_it_is_handed_over(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.change_host(name, enabled=False, disabled_reason="new")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await add_node(kube, name, labels=TESTED, annotations=GENERAL)
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Onboarding") == "True/Initial")
        assert not any("create" in call for call in compute.world.calls)
        testing = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: hv.status.smokeTest is not None,
            doing=lambda: agent_reports(kube, name),  # followed before: the test takes an instant
        )
        assert reason(testing, "AggregatesUpdated") == "False/TestAggregates"
        made = await until(kube, Hypervisor, name, is_ready)
    assert compute.world.names_of(name) == {"general", "zone-a"}
    assert compute.world.tests == {}
    assert made.status.smokeTest is None


async def test_host_is_handed_over_once_a_label_of_its_node_leads_to_a_fence_device(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    lifecycle = LifecycleSettings(
        poll=timedelta(milliseconds=50), compare=timedelta(milliseconds=300)
    )
    label = "node-restriction.kubernetes.io/bmc"
    template = DeviceTemplate("bmc", "fence_ipmilan", {"ip": "192.0.2.9"}, nodes={label: "a"})
    async with operator(
        kubeconfig,
        site(name),
        open_device=lambda *_: FakeFenceDevice(),
        lifecycle=lifecycle,
        ha=SOON,
        fence_devices=(template,),
    ):
        await add_node(kube, name, labels=SKIP, annotations=GENERAL)
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.serviceId))
        await agent_reports(kube, name)
        await until(kube, Hypervisor, name, lambda hv: "no template" in message(hv, "HaEnabled"))
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Onboarding") == "True/Handover")
        await kube.merge_patch(Node, name, {"metadata": {"labels": {label: "a"}}})
        done = await until(kube, Hypervisor, name, is_ready)
    assert reason(done, "HaEnabled") == "True/Succeeded"
