"""Silence of a node agent, on a real API server: what it changes, and how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.agents import NAMESPACE, Agent
from tests.integration.operator.conftest import AGENTS, add_node, operator, passes, reason, until
from tests.integration.operator.lifecycle import agent_reports, message, site
from tests.integration.operator.service import in_service

from hypercobalt.agent.lease import AgentLease
from hypercobalt.agent.settings import LEASE
from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.direct.directory import place
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.runtime import Kube, SystemClock

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def until_state(
    kube: Kube, name: str, expected: str, type_: str = "AgentReporting"
) -> Hypervisor:
    return await until(kube, Hypervisor, name, lambda hv: reason(hv, type_) == expected)


@pytest.mark.parametrize("namespace", [NAMESPACE, AGENTS[1]])
async def test_silent_agent_makes_its_host_unready_and_takes_it_back(
    kube: Kube, kubeconfig: Path, name: str, namespace: str
) -> None:
    compute, agent = site(name), Agent(kube, name, namespace)
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await agent.renews()
        await agent.renews()
        up = await until_state(kube, name, "True/Reporting")
        assert place(up, DirectSettings()).up

        await agent.renews(lasts=1)  # and stops renewing
        await until_state(kube, name, "Unknown/AgentSilent", "HaEnabled")
        down = await until_state(kube, name, "False/AgentSilent", "Ready")
        assert reason(down, "AgentReporting") == "False/AgentSilent"
        assert reason(down, "LibVirtConnection") == "Unknown/AgentSilent"
        assert f"{namespace}/node-agent-{name}" in message(down, "Ready")
        assert not place(down, DirectSettings()).up
        assert compute.world.hosts[name].enabled  # Nova has a heartbeat of its own

        await agent.renews()
        back = await until_state(kube, name, "True/Reporting")
        assert reason(back, "Ready") == "False/LibvirtUnavailable"
        await agent_reports(kube, name)
        await until_state(kube, name, "True/Ready", "Ready")
        await until_state(kube, name, "True/Succeeded", "HaEnabled")


async def test_libvirt_that_an_agent_without_lease_reports_is_taken_once_and_then_left_to_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    agent = Agent(kube, name)
    async with operator(kubeconfig):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda _: True)
        await agent_reports(kube, name)
        await agent.renews(lasts=1)
        await until_state(kube, name, "Unknown/AgentSilent", "LibVirtConnection")
        await agent_reports(kube, name)  # the agent runs, but may no longer renew its Lease
        await until_state(kube, name, "True/Connected", "LibVirtConnection")
        await set_label(kube, name)
        after = await until_state(kube, name, "True/Connected", "LibVirtConnection")
        assert reason(after, "AgentReporting") == "False/AgentSilent"


async def test_agent_that_stops_in_good_order_shows_at_once_and_costs_nothing_while_it_is_updated(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, agent = site(name), Agent(kube, name)
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await agent.renews()
        await agent.renews()
        await until_state(kube, name, "True/Reporting")
        await agent.renews(holder="")
        stopped = await until_state(kube, name, "False/AgentStopped")
        assert reason(stopped, "Ready") == "True/Ready"
        assert reason(stopped, "LibVirtConnection") == "True/Connected"
        await agent.renews()
        await until_state(kube, name, "True/Reporting")

        await agent.renews(holder="", lasts=1)
        gone = await until_state(kube, name, "False/AgentSilent", "Ready")
        assert reason(gone, "AgentReporting") == "False/AgentStopped"
        assert reason(gone, "LibVirtConnection") == "Unknown/AgentSilent"


async def test_silence_outlives_a_restart_of_the_operator_until_a_renewal_is_seen(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, agent = site(name), Agent(kube, name)
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await agent.renews()
        await agent.renews()
        await agent.renews(lasts=1)
        await until_state(kube, name, "False/AgentSilent", "Ready")
    await agent.renews(lasts=600)  # while no operator looks
    async with operator(kubeconfig, compute) as running:
        await passes(running, "agent-reporting")
        seen = await kube.get(Hypervisor, name)
        assert seen is not None
        assert reason(seen, "AgentReporting") == "False/AgentSilent"
        await agent.renews()
        await until_state(kube, name, "True/Reporting")


async def test_host_of_an_agent_without_lease_is_judged_by_what_the_agent_wrote(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """kvm-node-agent has no Lease."""
    async with operator(kubeconfig, site(name)):
        ready = await in_service(kube, name)
        assert reason(ready, "AgentReporting") == "Unknown/NeverReported"
        assert "keeps no Lease" in message(ready, "Ready")


async def test_renewals_cost_the_operator_no_request(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    agent = Agent(kube, name)
    async with operator(kubeconfig, site(name)) as running:
        await in_service(kube, name)
        await agent.renews()
        await agent.renews()
        await until_state(kube, name, "True/Reporting")
        before = running.writes + running.requests("GET")
        seen = running.metrics.reconcile_total.labels("agent-reporting", "success")._value.get()
        for _ in range(20):
            await agent.renews()
        await agent_reports(kube, name, version="9.1.0")
        await until(kube, Hypervisor, name, lambda hv: hv.status.libVirtVersion == "9.1.0")
        # What its start still had to write may come after the count has begun; renewals are 20.
        assert running.writes + running.requests("GET") <= before + 2
        done = running.metrics.reconcile_total.labels("agent-reporting", "success")._value.get()
        # So may passes over what was written; each renewal would lead to one.
        assert done < seen + 5


async def test_real_agents_lease_is_understood(kube: Kube, kubeconfig: Path, name: str) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda _: True)
        presence = AgentLease(
            kube,
            f"node-agent-{name}",
            NAMESPACE,
            "me",
            is_over=lambda _: False,
            owner=lambda: None,
            duration=LEASE,
            clock=SystemClock(),
        )
        running = asyncio.create_task(presence.run())
        found = await until_state(kube, name, "True/Reporting")
        condition = get_condition(found.conditions, "AgentReporting")
        assert condition is not None
        assert NAMESPACE in condition.message
        running.cancel()
        await until_state(kube, name, "False/AgentStopped")
        await asyncio.gather(running, return_exceptions=True)


async def set_label(kube: Kube, name: str) -> None:
    """Touch a Hypervisor, so that every controller looks at it."""

    def labelled(found: Hypervisor) -> Hypervisor:
        return replace(found, metadata=replace(found.metadata, labels={"touched": "yes"}))

    assert await kube.modify(Hypervisor, name, labelled) is not None
