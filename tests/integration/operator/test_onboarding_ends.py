"""Onboarding ends, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.conftest import (
    SWITCHES,
    add_node,
    operator,
    ready,
    reason,
    set_node_status,
    until,
)
from tests.integration.operator.lifecycle import (
    QUICK,
    TEST_AGGREGATE,
    agent_reports,
    message,
    set_spec,
    site,
)
from tests.integration.operator.service import GENERAL, SKIP, TESTED, begun, is_ready
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import Bridge, NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.model import Server
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    LIFECYCLE_LABEL,
    TRAITS_ANNOTATION,
    ZONE_LABEL,
)
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

WIPED: dict[str, object] = {"conditions": [], "serviceId": None}
ONCE = replace(QUICK, test_tries=2, retry_pause=timedelta(hours=1))


def onboarding(state: str) -> Callable[[Hypervisor], bool]:
    return lambda hv: reason(hv, "Onboarding") == state


async def test_host_without_custom_traits_is_onboarded(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, site(name)):
        await begun(kube, name)
        made = await until(kube, Hypervisor, name, is_ready)
    assert reason(made, "TraitsUpdated") == "True/Succeeded"


async def test_host_with_a_whole_domain_name_is_onboarded(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, whole = site(name), f"{name}.example.org"
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        labels = TESTED | {HOSTNAME_LABEL: whole}
        await begun(kube, whole, labels=labels)
        made = await until(kube, Hypervisor, whole, is_ready)
    assert made.status.serviceId == compute.world.hosts[name].service_id
    assert compute.world.names_of(name) == {"general", "zone-a"}
    assert compute.world.tests == {}


async def test_node1_and_node10_are_onboarded_side_by_side(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    first, tenth = f"{name}1", f"{name}10"
    compute = site(first, tenth)
    compute.world.boots = ("BUILD", "")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        for one in (tenth, first):
            await begun(kube, one, labels=TESTED)
            await until(kube, Hypervisor, one, lambda hv: hv.status.smokeTest is not None)
        assert len(compute.world.tests) == 2  # neither has deleted the other's
        compute.world.boots = ("ACTIVE", "{name}")
        for server in list(compute.world.tests.values()):
            compute.world.tests[server.id] = replace(
                server, status="ACTIVE", launched=server.created
            )
        for one in (first, tenth):
            made = await until(kube, Hypervisor, one, is_ready)
            assert made.status.serviceId == compute.world.hosts[one].service_id


async def test_two_nodes_of_one_host_do_not_share_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, other = site(name), f"{name}.other.example.org"
    async with operator(kubeconfig, compute):
        await begun(kube, name)
        await until(kube, Hypervisor, name, is_ready)
        await begun(kube, other, labels=SKIP | {HOSTNAME_LABEL: other})
        claimed = await until(
            kube, Hypervisor, other, lambda hv: reason(hv, "Registered") == "False/Claimed"
        )
    assert f"belongs to hypervisor {name}" in message(claimed, "Registered")
    assert claimed.status.serviceId is None


async def test_host_is_onboarded_although_its_test_server_cannot_be_deleted_for_a_while(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, broken = site(name), [True]

    def fault(what: str, about: str) -> Exception | None:
        return UnreachableError("no answer") if broken[0] and what.endswith("delete") else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, lambda hv: "no answer" in message(hv, "Onboarding"))
        broken[0] = False
        await until(kube, Hypervisor, name, is_ready)
    assert compute.world.tests == {}


async def test_host_is_tested_again_after_its_lifecycle_was_off(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, is_ready)
        await kube.merge_patch(Node, name, {"metadata": {"labels": {LIFECYCLE_LABEL: None}}})
        off = await until(kube, Hypervisor, name, onboarding("False/Aborted"))
        assert "LifecycleEnabled" in message(off, "Onboarding")
        await kube.merge_patch(Node, name, {"metadata": {"labels": TESTED}})
        await until(kube, Hypervisor, name, is_ready)
    assert sum("smoke_tests.create" in call for call in compute.world.calls) == 2


async def test_wiped_status_of_a_host_in_service_touches_no_guest(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, is_ready)
        compute.moves.add(Server("guest", "guest", name, "ACTIVE"))
        calls = len(compute.world.calls)
        await kube.merge_patch(
            Hypervisor,
            name,
            {"status": {"conditions": [], "serviceId": None}},
            subresource="status",
        )
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Onboarding") != "")
        await agent_reports(kube, name)
        await until(kube, Hypervisor, name, is_ready)
    since = compute.world.calls[calls:]
    assert not any("create" in call or TEST_AGGREGATE in call for call in since)


async def test_smoke_test_that_always_fails_is_given_up_and_has_a_way_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.boots = ("ERROR", "")
    async with operator(kubeconfig, compute, lifecycle=ONCE):
        await begun(kube, name, labels=TESTED)
        failed = await until(kube, Hypervisor, name, onboarding("False/Aborted"))
        assert "failed 2 times" in message(failed, "Onboarding")
        assert "No valid host was found" in message(failed, "Onboarding")
        assert compute.world.names_of(name) == {"zone-a", TEST_AGGREGATE}
        assert sum("smoke_tests.create" in call for call in compute.world.calls) == 2
        compute.world.boots = ("ACTIVE", "{name}")
        await set_spec(kube, name, version="2")
        await until(kube, Hypervisor, name, is_ready)


async def test_maintenance_of_a_host_whose_onboarding_failed_boots_and_enables_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.boots = ("ERROR", "")
    async with operator(kubeconfig, compute, lifecycle=ONCE):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, onboarding("False/Aborted"))
        calls = len(compute.world.calls)
        await set_spec(kube, name, maintenance="manual", maintenanceReason="swap NIC")
        held = await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        assert reason(held, "Onboarding") == "False/Aborted"
        assert "failed 2 times" in message(held, "Onboarding")
        assert not compute.world.hosts[name].enabled
        since = compute.world.calls[calls:]
        assert not any("create" in call or "enable" in call for call in since)
        compute.world.boots = ("ACTIVE", "{name}")
        await set_spec(kube, name, maintenance="", maintenanceReason="")
        await until(kube, Hypervisor, name, is_ready)
    assert compute.world.hosts[name].enabled


async def test_maintenance_in_the_middle_of_the_test_aborts_it_and_it_begins_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.boots = ("BUILD", "")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, lambda hv: hv.status.smokeTest is not None)
        await set_spec(kube, name, maintenance="manual", maintenanceReason="swap NIC")
        held = await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        assert reason(held, "Onboarding") == "False/Aborted"
        assert reason(held, "Ready") == "False/Evicted"
        assert "due to maintenance" in message(held, "Onboarding")
        assert compute.world.tests == {}
        assert not compute.world.hosts[name].enabled
        compute.world.boots = ("ACTIVE", "{name}")
        await set_spec(kube, name, maintenance="", maintenanceReason="")
        await until(kube, Hypervisor, name, is_ready)


async def test_server_that_is_never_built_counts_as_a_failure(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.boots = ("BUILD", "")
    settings = replace(ONCE, build_limit=timedelta(milliseconds=100))
    async with operator(kubeconfig, compute, lifecycle=settings):
        await begun(kube, name, labels=TESTED)
        failed = await until(kube, Hypervisor, name, onboarding("False/Aborted"))
    assert "still BUILD" in message(failed, "Onboarding")
    assert compute.world.tests == {}


async def test_server_that_is_never_gone_ends_the_test_and_is_deleted_later(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.boots, compute.world.undying = ("ERROR", ""), True
    settings = replace(ONCE, build_limit=timedelta(milliseconds=100))
    async with operator(kubeconfig, compute, lifecycle=settings):
        await begun(kube, name, labels=TESTED)
        failed = await until(kube, Hypervisor, name, onboarding("False/Aborted"))
        (left,) = compute.world.tests
        assert "after they were to be deleted" in message(failed, "Onboarding")
        assert left in message(failed, "Onboarding")
        compute.world.undying = False
        await kube.merge_patch(Node, name, {"metadata": {"labels": {LIFECYCLE_LABEL: None}}})
        await until(kube, Hypervisor, name, lambda hv: hv.status.smokeTest is None)
    assert compute.world.tests == {}


async def test_test_server_that_is_refused_counts_as_a_failure(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)

    def fault(what: str, about: str) -> Exception | None:
        refused = what == "smoke_tests.create"
        return RefusedError("there is no image 'cirros-kvm'") if refused else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=ONCE):
        await begun(kube, name, labels=TESTED)
        failed = await until(kube, Hypervisor, name, onboarding("False/Aborted"))
    assert "no image 'cirros-kvm'" in message(failed, "Onboarding")


async def test_missing_zone_is_named(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED | {ZONE_LABEL: ""})
        await until(kube, Hypervisor, name, lambda hv: ZONE_LABEL in message(hv, "Onboarding"))
        await kube.merge_patch(Node, name, {"metadata": {"labels": {ZONE_LABEL: "zone-a"}}})
        await until(kube, Hypervisor, name, is_ready)
    assert not any(call.startswith("aggregates.add  ") for call in compute.world.calls)


async def test_unhealthy_bridge_and_old_libvirt_hold_the_test_and_are_named(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
    meta = ObjectMeta(name=name, namespace=SWITCHES)
    elsewhere = ObjectMeta(name=name, namespace="agents")  # is no agent's report
    async with operator(kubeconfig, compute, lifecycle=QUICK, ovs_namespace=SWITCHES):
        await add_node(kube, name, labels=TESTED, annotations=GENERAL)
        for where in (meta, elsewhere):
            await kube.create(OVSNode(metadata=where, spec=spec))
        await until(
            kube,
            Hypervisor,
            name,
            lambda hv: "not reported libvirt" in message(hv, "Onboarding"),
        )
        await agent_reports(kube, name, version="7.0.0")
        await until(
            kube, Hypervisor, name, lambda hv: "older than 8.0.0" in message(hv, "Onboarding")
        )
        await agent_reports(kube, name)
        await until(
            kube, Hypervisor, name, lambda hv: "no bridge br-int" in message(hv, "Onboarding")
        )
        assert compute.world.tests == {}
        good = OVSNodeStatus(bridges=(Bridge(name="br-int", status="Active"),))
        await kube.apply(OVSNode(metadata=meta, spec=spec, status=good), subresource="status")
        await until(kube, Hypervisor, name, is_ready)
    for namespace in (SWITCHES, "agents"):
        await kube.delete(OVSNode, name, namespace)


async def test_storage_that_is_not_there_holds_the_test_and_is_named(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    probes = replace(QUICK, storage_probes=("node:PoolReachable", "hypervisor:SharedDirectory"))
    away = NodeCondition(type="PoolReachable", status="False", message="no monitor answers")
    async with operator(kubeconfig, compute, lifecycle=probes):
        await begun(kube, name, labels=TESTED, conditions=(*ready(), away))
        await until(
            kube, Hypervisor, name, lambda hv: "no monitor answers" in message(hv, "Onboarding")
        )
        there = NodeCondition(type="PoolReachable", status="True")
        await set_node_status(kube, name, NodeStatus(conditions=(*ready(), there)))
        await until(
            kube, Hypervisor, name, lambda hv: "no condition Shared" in message(hv, "Onboarding")
        )
        assert compute.world.tests == {}
        given = set_condition((), "SharedDirectory", "True", "Mounted", "", now=compute.world.now())
        mine = HypervisorStatus(numInstances=0, conditions=given)
        prober = kube.as_manager("prober")
        await prober.apply(
            Hypervisor(metadata=ObjectMeta(name=name), status=mine), subresource="status"
        )
        await until(kube, Hypervisor, name, is_ready)


async def test_invalid_traits_and_aggregates_are_named_until_they_are_put_right(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    wrong = {AGGREGATES_ANNOTATION: "general,nowhere", TRAITS_ANNOTATION: "CUSTOM_A,not a trait"}
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, annotations=wrong)
        await until(
            kube, Hypervisor, name, lambda hv: "'not a trait'" in message(hv, "TraitsUpdated")
        )
        right = {"metadata": {"annotations": {TRAITS_ANNOTATION: "CUSTOM_A"}}}
        await kube.merge_patch(Node, name, right)
        held = await until(
            kube, Hypervisor, name, lambda hv: "'nowhere'" in message(hv, "AggregatesUpdated")
        )
        assert reason(held, "AggregatesUpdated") == "False/Failed"
        await kube.merge_patch(Node, name, {"metadata": {"annotations": GENERAL}})
        await until(kube, Hypervisor, name, is_ready)


async def test_host_is_onboarded_without_traits_aggregates_and_tests(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, site(name, has=())):
        await begun(kube, name, labels=TESTED)
        made = await until(kube, Hypervisor, name, is_ready)
    assert message(made, "TraitsUpdated") == "fake has no traits"
    assert (
        message(made, "AggregatesUpdated")
        == "fake has no host aggregates; 2 of spec.aggregates are ignored"
    )


async def test_outside_ha_service_is_waited_for_and_not_overwritten(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, service = site(name), kube.as_manager("kvm-ha-service")

    async def ha(status: str) -> None:
        given = set_condition(
            (), "HaEnabled", status, "Succeeded", "by the service", now=compute.world.now()
        )
        mine = HypervisorStatus(numInstances=0, conditions=given)
        await service.apply(
            Hypervisor(metadata=ObjectMeta(name=name), status=mine), subresource="status"
        )

    async with operator(kubeconfig, compute, lifecycle=QUICK) as running:
        await add_node(kube, name, labels=SKIP, annotations=GENERAL)
        await until(kube, Hypervisor, name, onboarding("True/Initial"))
        await ha("False")
        await agent_reports(kube, name)
        made = await until(kube, Hypervisor, name, onboarding("True/Handover"))
        assert "HaEnabled" in message(made, "Onboarding")
        await ha("True")
        await until(kube, Hypervisor, name, is_ready)
        await set_spec(kube, name, highAvailability=False)
        passes = running.metrics.reconcile_total.labels("ha", "success")
        before = passes._value.get()
        await eventually(lambda: passes._value.get() > before)
        after = await kube.get(Hypervisor, name)
    assert after is not None
    assert message(after, "HaEnabled") == "by the service"
