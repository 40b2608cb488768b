"""A Node that vanishes half-way: what was begun for it in OpenStack is brought to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import REAL, operator, reason, until
from tests.integration.operator.lifecycle import QUICK, agent_reports, message, set_spec, site
from tests.integration.operator.service import TESTED, begun, in_service, is_ready
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Server, Size
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

HUGE = Size(1000, 1_000_000, 0)


async def vanish(kube: Kube, name: str) -> None:
    """Delete the Node; a cluster's collector deletes what belongs to it."""
    await kube.delete(Node, name)
    if REAL:  # there is no collector beside the tests' kube-apiserver
        await kube.delete(Hypervisor, name)


async def gone(kube: Kube, name: str) -> None:
    left: list[object] = []

    async def is_gone() -> bool:
        left[:] = [await kube.get(Hypervisor, name), await kube.get(Eviction, name)]
        if REAL and left[0] is None and left[1] is not None:
            await kube.delete(Eviction, name)
        return left == [None, None]

    try:
        await eventually(is_gone)
    except TimeoutError:
        raise AssertionError(f"still there: {left}") from None


def occupied(name: str, *others: str, **server: object) -> FakeCompute:
    compute = site(name, *others)
    compute.moves.hosts = {name: HUGE, "target": HUGE}
    size = Size(1, 1024, 0)
    compute.moves.add(Server("i1", "web", name, size=size, **server))  # type: ignore[arg-type]
    return compute


async def terminating(kube: Kube, name: str, compute: FakeCompute) -> None:
    """Have the host terminate, with the move of its server under way."""
    await in_service(kube, name)
    await set_spec(kube, name, maintenance="termination")
    await eventually(lambda: compute.moves.under_way == 1)


async def test_record_kept_for_a_recovery_goes_when_the_operator_does_not_recover(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The host failed before `--ha` was changed."""
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
    kept = {"metadata": {"finalizers": [FINALIZER]}}
    await kube.merge_patch(Hypervisor, name, kept)
    await vanish(kube, name)
    assert await kube.get(Hypervisor, name) is not None
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await gone(kube, name)


async def test_test_server_of_a_vanished_node_is_deleted_and_the_node_may_come_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, other = site(name, f"{name}-other"), f"{name}-other"
    compute.world.boots = ("BUILD", "")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, lambda hv: hv.status.smokeTest is not None)
        await eventually(lambda: len(compute.world.tests) == 1)
        await vanish(kube, name)
        await gone(kube, name)
        assert compute.world.tests == {}
        compute.world.boots = ("ACTIVE", "{name}")
        for one in (other, name):
            await begun(kube, one, labels=TESTED)
            await until(kube, Hypervisor, one, is_ready)
    assert sum("smoke_tests.create" in call for call in compute.world.calls) == 3


async def test_test_server_of_a_vanished_node_is_not_forgotten_while_openstack_is_away(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, away = site(name), [False]
    compute.world.boots = ("BUILD", "")

    def fault(what: str, about: str) -> Exception | None:
        return UnreachableError("no answer") if away[0] else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await eventually(lambda: len(compute.world.tests) == 1)
        away[0] = True
        await vanish(kube, name)
        held = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: "cannot delete the test servers yet" in message(hv, "Onboarding"),
        )
        assert "being deleted" in message(held, "Onboarding")
        assert held.metadata.deletionTimestamp
    away[0] = False
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await gone(kube, name)
    assert compute.world.tests == {}


async def test_moves_of_a_vanished_node_are_stopped(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    other = f"{name}-other"
    compute = occupied(name, other, status="ACTIVE", running=True)
    compute.moves.script("i1", Script(seconds=60))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="auto")
        await eventually(lambda: compute.moves.under_way == 1)
        await vanish(kube, name)
        await gone(kube, name)
        assert compute.moves.under_way == 0
        await in_service(kube, other)
    assert [server.id for server in compute.moves.on(name)] == ["i1"]


async def test_terminating_host_leaves_openstack_although_its_node_vanishes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = occupied(name, status="ACTIVE", running=True)
    compute.moves.script("i1", Script(seconds=1))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await terminating(kube, name, compute)
        await vanish(kube, name)
        await gone(kube, name)
    assert compute.moves.started == {"i1": 1}
    assert not compute.moves.on(name)
    assert name not in compute.world.hosts
    assert compute.world.names_of(name) == set()


async def test_terminating_host_leaves_openstack_although_its_eviction_is_deleted(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = occupied(name, status="ACTIVE", running=True)
    compute.moves.script("i1", Script(seconds=3))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await terminating(kube, name, compute)
        await kube.delete(Node, name, propagation="Foreground")
        if REAL:
            await kube.delete(Hypervisor, name, propagation="Foreground")
            await kube.delete(Eviction, name)
            await until(kube, Eviction, name, lambda e: not e.metadata.deletionTimestamp)
            await kube.modify(Hypervisor, name, without_foreground)
        await gone(kube, name)
    assert not compute.moves.on(name)
    assert name not in compute.world.hosts
    assert compute.moves.started["i1"] <= 2


def without_foreground(found: Hypervisor) -> Hypervisor:
    left = tuple(one for one in found.metadata.finalizers if one != "foregroundDeletion")
    return replace(found, metadata=replace(found.metadata, finalizers=left))


async def test_hypervisor_deleted_by_hand_in_a_termination_is_recreated_while_its_node_lives(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = occupied(name, status="ACTIVE", running=True)
    compute.moves.script("i1", Script(seconds=60))
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await terminating(kube, name, compute)
        await kube.delete(Hypervisor, name)
        if REAL:
            await kube.delete(Eviction, name)
        await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        await agent_reports(kube, name)
        await until(kube, Hypervisor, name, is_ready)
        await eventually(lambda: compute.moves.under_way == 0)
    assert compute.world.hosts[name].enabled
    assert [server.id for server in compute.moves.on(name)] == ["i1"]


async def test_terminating_host_is_done_once_openstack_no_longer_lists_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = occupied(name, status="ERROR", fault="i1 is stuck")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "False/Failed")
        await vanish(kube, name)
        compute.moves.remove("i1")
        del compute.world.hosts[name]  # openstack compute service delete
        await gone(kube, name)


async def test_servers_left_on_a_terminating_host_are_named(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = occupied(name, status="ERROR", fault="i1 is stuck")
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") != "")
        await vanish(kube, name)
        await until(kube, Hypervisor, name, lambda hv: hv.metadata.deletionTimestamp is not None)
        await until(kube, Hypervisor, name, lambda hv: "i1 is stuck" in message(hv, "Offboarded"))
        compute.moves.remove("i1")
        await kube.delete(Eviction, name)
        await gone(kube, name)
    assert name not in compute.world.hosts
