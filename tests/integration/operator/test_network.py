"""The switches of hosts, on a real API server: silence of their agents, and whose fault what is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, cast

import msgspec
import pytest
from tests.conformance.wire import Body, Json
from tests.integration.operator.conftest import (
    REAL,
    SWITCHES,
    Operator,
    add_node,
    operator,
    reason,
    until,
)
from tests.integration.operator.lifecycle import QUICK, message, set_spec, site
from tests.integration.operator.service import in_service
from tests.integration.operator.switches import BRIDGE_DOWN, GOOD, SB_AWAY, OVSAgent
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.applier import Applier, Report
from hypercobalt.agent.board import Board, Parts
from hypercobalt.agent.status import conditions
from hypercobalt.api.conditions import ConditionStatus, get_condition
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ManagedFieldsEntry, Object, ObjectMeta, ResourceInfo
from hypercobalt.api.ovsnode import Bridge, NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.compute.direct.directory import place
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.model import Server, Size
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.agents import leases
from hypercobalt.operator.network.silence import NAME as SILENCE
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock
from hypercobalt.runtime.client.requests import Selection

pytestmark = pytest.mark.asyncio(loop_scope="session")


def watching(
    kubeconfig: Path, compute: ComputeService | None = None
) -> AbstractAsyncContextManager[Operator]:
    """An operator that follows OVSNodes."""
    return operator(kubeconfig, compute, ovs_namespace=SWITCHES, lifecycle=QUICK)


async def until_network(kube: Kube, name: str, expected: str) -> Hypervisor:
    return await until(kube, Hypervisor, name, lambda hv: reason(hv, "NetworkHealthy") == expected)


async def until_reason(kube: Kube, name: str, type_: str, expected: str) -> Hypervisor:
    return await until(kube, Hypervisor, name, lambda hv: reason(hv, type_) == expected)


async def until_switch(kube: Kube, name: str, expected: str) -> OVSNode:
    def good(found: OVSNode) -> bool:
        ready = get_condition(found.status.conditions, "Ready")
        return ready is not None and f"{ready.status}/{ready.reason}" == expected

    return await until(kube, OVSNode, name, good, namespace=SWITCHES)


class Entry(ManagedFieldsEntry, frozen=True):
    """An entry of managedFields with its fields."""

    fieldsV1: Body = msgspec.field(default_factory=dict[str, Json])


class Owners(ObjectMeta, frozen=True):
    managedFields: tuple[Entry, ...] = ()


class WithOwners(Object, frozen=True):
    """An OVSNode with the managers of its fields."""

    resource: ClassVar[ResourceInfo] = OVSNode.resource

    metadata: Owners = Owners()


async def owners(kube: Kube, name: str) -> dict[str, set[str]]:
    """Fields of the condition `Ready` by manager; of other conditions the managers alone."""
    found = await kube.get(WithOwners, name, SWITCHES)
    assert found is not None
    made: dict[str, set[str]] = {}
    for entry in found.metadata.managedFields:
        status = cast("Body", entry.fieldsV1.get("f:status", {}))
        conditions = status.get("f:conditions", {})
        fields = conditions.get('k:{"type":"Ready"}', {}).keys() - {"."}
        made.setdefault(entry.manager, set()).update(one.removeprefix("f:") for one in fields)
    return made


async def test_silent_agent_leaves_no_healthy_status_and_takes_its_condition_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, agent = site(name), OVSAgent(kube, name)
    async with watching(kubeconfig, compute):
        await in_service(kube, name)
        await agent.appears()
        await until_network(kube, name, "True/Healthy")

        for _ in range(2):
            await agent.lease.renews()
            await agent.dies()
            switch = await until_switch(kube, name, "Unknown/AgentSilent")
            down = await until_network(kube, name, "Unknown/AgentSilent")
            assert f"{SWITCHES}/ovs-agent-{name}" in message(down, "NetworkHealthy")
            assert "last renewed at" in message(down, "NetworkHealthy")
            bridges = get_condition(switch.status.conditions, "AllBridgesHealthy")
            assert bridges is not None
            assert (bridges.status, bridges.reason) == ("Unknown", "AgentSilent")
            assert "AllBridgesHealthy was True/" in bridges.message
            assert switch.status.ovsVersion == "3.1.0"
            assert reason(down, "Ready") == "True/Ready"
            assert compute.world.hosts[name].enabled  # nothing is known to be broken

            await agent.lease.renews()
            await agent.reports()
            await until_network(kube, name, "True/Healthy")


async def test_the_two_managers_own_one_condition_in_turn_and_nothing_else_in_common(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    agent = OVSAgent(kube, name)
    await add_node(kube, name)
    async with watching(kubeconfig):
        await agent.appears()
        assert (await owners(kube, name))["ovs-agent"] >= {"status", "reason", "message"}

        await agent.dies()
        await until_switch(kube, name, "Unknown/AgentSilent")
        taken = await owners(kube, name)
        assert taken[SILENCE] >= {"type", "status", "reason", "message"}
        assert not taken["ovs-agent"] & {"status", "reason", "message"}

        await agent.reports()  # without its Lease: the operator does not take it again at once
        await until_switch(kube, name, "True/AllChecksPassed")
        back = await owners(kube, name)
        assert back["ovs-agent"] >= {"status", "reason", "message"}
        assert not back.get(SILENCE, set()) & {"status", "reason", "message"}


async def test_agent_that_lives_has_its_condition_back_by_itself_and_no_fight_begins(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The frame's own applier, whose Lease alone is lost."""
    agent, written = OVSAgent(kube, name), list[OVSNodeStatus]()
    await add_node(kube, name)
    await agent.appears()
    async with watching(kubeconfig) as running, applier(kube, name, written):
        await eventually(lambda: len(written) == 1)
        await agent.dies()
        await eventually(lambda: len(written) == 2, seconds=45)  # taken, and restored
        found = await until_switch(kube, name, "True/AllChecksPassed")
        takes = running.metrics.reconcile_total.labels(SILENCE, "requeue_after")
        before = takes._value.get()
        await agent.lease.renews(lasts=1)  # of a Lease in another state it is taken once more
        await eventually(lambda: len(written) == 3, seconds=45)
        await eventually(lambda: takes._value.get() > before)
        after = await until_switch(kube, name, "True/AllChecksPassed")
        assert after.metadata.resourceVersion != found.metadata.resourceVersion


@asynccontextmanager
async def applier(kube: Kube, name: str, written: list[OVSNodeStatus]) -> AsyncIterator[None]:
    """Report a switch in order, as an agent does that is never restarted."""
    board, metrics = Board(SystemClock(), Parts()), Metrics()
    selection = Selection(OVSNode, SWITCHES, "", f"metadata.name={name}")
    informer = Informer(kube, selection, metrics=metrics)
    spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
    meta = ObjectMeta(name=name, namespace=SWITCHES)

    def composed(parts: Parts, stored: OVSNode, kept: OVSNodeStatus) -> OVSNodeStatus:
        bridges = (Bridge(name="br-int", status="Active"),)
        found = conditions(parts.conditions, kept.conditions, tuple(GOOD), 0)
        return OVSNodeStatus(bridges=bridges, conditions=found)

    def carrying(status: OVSNodeStatus) -> OVSNode:
        return OVSNode(metadata=meta, spec=spec, status=status)

    for type_, (status, why) in GOOD.items():
        board.put_condition(type_, ConditionStatus(status), why)
    report = Report("ovs-agent", ("bridges",), lambda one: one.status, carrying, composed)
    made = Applier(kube, report, board, informer, on_written=written.append)
    tasks = [asyncio.create_task(work) for work in (informer.run(), made.run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_ovsnode_of_an_agent_without_a_lease_becomes_unknown(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "DURATION", timedelta(seconds=1))
    agent = OVSAgent(kube, name)
    await add_node(kube, name)
    await agent.appears()
    await agent.lease.ends()
    async with watching(kubeconfig):
        found = await until_switch(kube, name, "Unknown/AgentSilent")
    ready = get_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert "keeps no Lease" in ready.message


async def test_ovsnode_leaves_with_its_node_once_its_agent_is_silent(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    agent = OVSAgent(kube, name)
    async with watching(kubeconfig):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda _: True)
        await agent.appears()
        await agent.dies()
        await until_switch(kube, name, "Unknown/AgentSilent")

        await kube.delete(Node, name)
        if REAL:  # there is no collector beside the tests' kube-apiserver
            await kube.delete(Hypervisor, name)

        async def is_gone() -> bool:
            return await kube.get(OVSNode, name, SWITCHES) is None

        await eventually(is_gone, seconds=45)


async def test_broken_bridge_closes_its_host_and_a_mended_one_opens_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, agent = site(name), OVSAgent(kube, name)
    async with watching(kubeconfig, compute):
        up = await in_service(kube, name)
        assert reason(up, "NetworkHealthy") == ""  # no OVS agent: nothing is different
        await agent.appears()
        await until_network(kube, name, "True/Healthy")
        await agent.reports(BRIDGE_DOWN, bridge="Down")
        await until_network(kube, name, "False/BridgeDown")
        await until_reason(kube, name, "HypervisorDisabled", "True/Succeeded")
        down = await until_reason(kube, name, "AcceptsNewInstances", "False/NetworkBroken")
        closed = await event_of(kube, name, "HostClosed")
        assert "br-int is Down" in closed
        host = compute.world.hosts[name]
        assert (host.enabled, host.disabled_reason) == (False, "Network condition: BridgeDown")
        assert reason(down, "Ready") == "True/Ready"  # instances there still have their network
        assert "it takes no new instances" in place(down, DirectSettings()).closed or (
            "disabled" in place(down, DirectSettings()).closed
        )

        await agent.dies()  # and its repair is unknown
        await until_switch(kube, name, "Unknown/AgentSilent")
        await until(
            kube, Hypervisor, name, lambda hv: "last report" in message(hv, "NetworkHealthy")
        )
        assert not compute.world.hosts[name].enabled

        await agent.lease.renews()
        await agent.reports()
        await until_network(kube, name, "True/Healthy")
        await until_reason(kube, name, "AcceptsNewInstances", "True/NodeHealthy")
        await until_reason(kube, name, "HypervisorDisabled", "False/Succeeded")
        assert compute.world.hosts[name].enabled
        assert "no longer NetworkBroken" in await event_of(kube, name, "HostOpened")


async def event_of(kube: Kube, name: str, reason_: str) -> str:
    """The note of the Event about a Hypervisor, once there is one."""
    async with asyncio.timeout(20):
        while True:
            for one in (await kube.list(Event, "default")).items:
                about = one.regarding.name if one.regarding is not None else ""
                if (one.reason, about) == (reason_, name):
                    return one.note
            await asyncio.sleep(0.1)


async def test_southbound_database_that_is_away_closes_no_host_and_makes_live_moves_wait(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    names = [name, f"{name}-b", f"{name}-c"]
    compute, agents = site(*names), [OVSAgent(kube, one) for one in names]
    compute.moves.hosts = dict.fromkeys(names, Size(100, 100_000, 0))
    async with watching(kubeconfig, compute):
        for one, agent in zip(names, agents, strict=True):
            await in_service(kube, one)
            await agent.appears()
            await until_network(kube, one, "True/Healthy")
        compute.moves.add(Server("i1", "web", name, "ACTIVE", running=True, size=Size(1, 1024, 0)))
        for one, agent in zip(names, agents, strict=True):
            await agent.reports(SB_AWAY)
            hurt = await until_network(kube, one, "False/OVNDisconnected")
            assert reason(hurt, "Ready") == "True/Ready"
            assert reason(hurt, "AcceptsNewInstances") == "True/NodeHealthy"
            assert hurt.status.unhealthySince is None
            assert compute.world.hosts[one].enabled
        await set_spec(kube, name, maintenance="auto")
        waits = await until(kube, Eviction, name, is_waiting)
        assert waits.status.instances[0].attempts in {None, 0}
        assert not compute.moves.started

        await agents[2].reports()  # the database is back, as one of them sees first
        await until_network(kube, names[2], "True/Healthy")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") == "False/Evicted")
        assert [one.id for one in compute.moves.on(names[2])] == ["i1"]
        await set_spec(kube, name, maintenance="")
        await until_reason(kube, name, "Ready", "True/Ready")


def is_waiting(eviction: Eviction) -> bool:
    return any(
        "OVN binds no ports on any of 2 candidate hosts" in (entry.message or "")
        for entry in eviction.status.instances
    )


async def test_deleted_ovsnode_leaves_nothing_healthy_and_closes_no_host(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, agent = site(name), OVSAgent(kube, name)
    async with watching(kubeconfig, compute):
        await in_service(kube, name)
        await agent.appears()
        await until_network(kube, name, "True/Healthy")
        await kube.delete(OVSNode, name, SWITCHES)
        gone = await until_network(kube, name, "Unknown/NotReported")
        assert reason(gone, "AcceptsNewInstances") == "True/NodeHealthy"
        assert compute.world.hosts[name].enabled
    async with operator(
        kubeconfig, compute, lifecycle=QUICK
    ):  # the operator watches no OVSNodes any more
        await until(
            kube, Hypervisor, name, lambda hv: "watches no" in message(hv, "NetworkHealthy")
        )
