"""Invalid objects: conditions name the mistake, and other objects are not affected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.eviction_world import state, words
from tests.integration.operator.lifecycle import QUICK, message, set_spec, site
from tests.integration.operator.service import GENERAL, SKIP, in_service, is_ready
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, EvictionSpec, Trigger
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Server, Size
from hypercobalt.operator.eviction import observe
from hypercobalt.operator.nodes.from_node import RECORD
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    LIFECYCLE_LABEL,
    TRAITS_ANNOTATION,
)
from hypercobalt.runtime import InvalidError, Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

HUGE, SMALL = Size(1000, 1_000_000, 0), Size(1, 1024, 0)


async def test_unknown_annotations_stay_and_change_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    strange = {
        "nova.openstack.cloud.sap/aggregate": "typo",
        "nova.openstack.cloud.sap/unknown": "\u2603,\n\x7f",
        "kvm.cloud.sap/unknown": "x" * 10_000,
    }
    async with operator(kubeconfig, site(name), lifecycle=QUICK):
        await in_service(kube, name, annotations=GENERAL | strange)
        theirs = strange | {RECORD: ",,not-a-label,"}
        await kube.merge_patch(Hypervisor, name, {"metadata": {"annotations": theirs}})
        kept = await until(
            kube, Hypervisor, name, lambda hv: hv.metadata.annotations[RECORD] != theirs[RECORD]
        )
        node = await kube.get(Node, name)
    assert {key: kept.metadata.annotations[key] for key in strange} == strange
    assert node is not None
    assert {key: node.metadata.annotations[key] for key in strange} == strange
    assert kept.spec.aggregates == ("general", "zone-a")
    assert is_ready(kept)


async def test_frozen_spec_refuses_edits_with_a_reason_and_continues_whatever_the_node_has(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, other = site(name, f"{name}-other"), f"{name}-other"
    compute.moves.add(Server("i1", "web", name, "BUILD"))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") != "")
        for change in ({"maintenance": "manual", "maintenanceReason": "no"}, {"version": "2"}):
            with pytest.raises(InvalidError, match="spec is immutable when maintenance"):
                await set_spec(kube, name, **change)
        wishes = {AGGREGATES_ANNOTATION: "other", TRAITS_ANNOTATION: "CUSTOM_LATE"}
        await kube.merge_patch(
            Node,
            name,
            {"metadata": {"annotations": wishes, "labels": {LIFECYCLE_LABEL: None}}},
        )
        held = await until(kube, Hypervisor, name, lambda hv: reason(hv, "SpecFrozen") != "")
        assert reason(held, "SpecFrozen") == "True/NodeDiffers"
        assert "aggregates, customTraits" in message(held, "SpecFrozen")
        await in_service(kube, other)
        compute.moves.remove("i1")
        left = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True")
        )
    assert left.spec.aggregates == ("general", "zone-a")
    assert left.spec.customTraits == ()
    assert left.spec.lifecycleEnabled


async def test_of_two_nodes_of_one_host_the_second_moves_and_removes_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, second = site(name), f"{name}.other.example.org"
    compute.moves.hosts = {name: HUGE, "target": HUGE}
    compute.moves.add(Server("i1", "web", name, "ACTIVE", running=True, size=SMALL))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await add_node(kube, second, labels=SKIP | {HOSTNAME_LABEL: second}, annotations=GENERAL)
        await until(
            kube, Hypervisor, second, lambda hv: reason(hv, "Registered") == "False/Claimed"
        )
        spec = EvictionSpec(hypervisor=second, reason="host reboot", trigger=Trigger.HOST_SHUTDOWN)
        await kube.create(Eviction(metadata=ObjectMeta(name=second), spec=spec))
        ended = await until(kube, Eviction, second, lambda e: state(e)[:5] == "False")
        assert f"{second} was never registered with fake" in words(ended)
        await kube.delete(Eviction, second)
        await set_spec(kube, second, maintenance="termination")
        await until(
            kube, Hypervisor, second, lambda hv: reason(hv, "Offboarded").startswith("True")
        )
        found = await kube.get(Hypervisor, name)
    assert found is not None
    assert is_ready(found)
    assert compute.moves.started.total() == 0
    assert compute.world.hosts[name].enabled
    assert compute.world.names_of(name) == {"general", "zone-a"}


async def test_eviction_of_a_missing_hypervisor_names_it_and_is_deleted_at_once(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, site(name)):
        spec = EvictionSpec(hypervisor="nowhere", reason="typo")
        await kube.create(Eviction(metadata=ObjectMeta(name=name), spec=spec))
        shown = await until(kube, Eviction, name, lambda e: "does not exist" in words(e))
        assert "Hypervisor nowhere" in words(shown)
        await kube.delete(Eviction, name)
        await eventually(lambda: absent(kube, name))


async def absent(kube: Kube, name: str) -> bool:
    return await kube.get(Eviction, name) is None


async def test_eviction_that_may_not_be_cancelled_gives_the_reason_and_goes_when_it_may(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "_HOST_AGE", 0.0)  # the refusal is noticed at the next pass
    compute, refused = site(name), [False]
    compute.moves.hosts = {name: HUGE, "target": HUGE}
    compute.moves.add(Server("i1", "web", name, "ACTIVE", running=True, size=SMALL))
    compute.moves.script("i1", Script(seconds=60))

    def fault(what: str, about: str) -> Exception | None:
        return RefusedError("policy does not allow it", code=403) if refused[0] else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="auto")
        await eventually(lambda: compute.moves.under_way == 1)
        refused[0] = True
        await kube.delete(Eviction, name)
        reason_given = re.compile("deleted; .*policy does not allow it")
        await until(kube, Eviction, name, lambda e: bool(reason_given.match(words(e))))
        refused[0] = False
        await set_spec(kube, name, maintenance="")
        await eventually(lambda: absent(kube, name))
    assert compute.moves.under_way == 0


async def test_hypervisor_without_a_node_shows_what_the_compute_service_reports(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, site()):
        spec = HypervisorSpec(lifecycleEnabled=True)
        await kube.create(Hypervisor(metadata=ObjectMeta(name=name), spec=spec))
        shown = await until(
            kube, Hypervisor, name, lambda hv: "has no host" in message(hv, "Registered")
        )
    assert reason(shown, "Ready") == "False/Onboarding"


async def test_host_that_has_the_name_of_the_label_is_emptied_and_leaves(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, node = site(name), f"machine-{name}"
    compute.moves.hosts = {name: HUGE, "target": HUGE}
    compute.moves.add(Server("i1", "web", name, "ACTIVE", running=True, size=SMALL))
    compute.moves.script("i1", Script(seconds=60))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, node, labels=SKIP | {HOSTNAME_LABEL: name})
        await set_spec(kube, node, maintenance="auto")
        await eventually(lambda: compute.moves.under_way == 1)
        await set_spec(kube, node, maintenance="")
        await eventually(lambda: absent(kube, node))
        assert compute.moves.under_way == 0
        compute.moves.script("i1", Script(seconds=0.2))
        await set_spec(kube, node, maintenance="termination")
        await until(kube, Hypervisor, node, lambda hv: reason(hv, "Offboarded").startswith("True"))
    assert not compute.moves.on(name)
    assert name not in compute.world.hosts
