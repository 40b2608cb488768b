"""A captured host writes into its own status that it is dead, or that its guests are stopped."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import operator, until
from tests.integration.operator.failing import (
    SOON,
    Host,
    Site,
    evictions_of,
    failing,
    failing_site,
    recovered,
    recovering,
    start,
)
from tests.integration.operator.lifecycle import QUICK
from tests.integration.runtime.scripted import eventually
from tests.records import record

from hypercobalt.adapters.fencing.port import PowerState
from hypercobalt.api.coordination import Event
from hypercobalt.api.eviction import Eviction, EvictionSpec, Trigger
from hypercobalt.api.fencing import RECORD, Fencing, FencingMethod, FencingPhase, GuestsStopped
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake.script import Script
from hypercobalt.ha.host_failure.guard import GateLimits
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

LIE = Fencing(
    phase=FencingPhase.FENCED,
    bootID="boot-1",
    method=FencingMethod.AGENT,
    proof="all guests are stopped",
    startedAt=datetime(2026, 11, 27, 12, tzinfo=UTC),
    fencedAt=datetime(2026, 11, 27, 12, tzinfo=UTC),
)
DECLARED = replace(LIE, forcedDownAt=LIE.fencedAt)
ATTEMPT = replace(LIE, phase=FencingPhase.ATTEMPTING, proof=None, fencedAt=None)
OFF = replace(LIE, method=FencingMethod.BMC, device="bmc")
STOPPED = GuestsStopped("boot-1", LIE.startedAt, LIE.fencedAt, 1)


async def writes(kube: Kube, name: str, **fields: object) -> None:
    """What the agent of a captured host writes, where no policy stops it."""
    lie: HypervisorStatus = replace(HypervisorStatus(conditions=()), **fields)
    meta = ObjectMeta(name=name)
    agent = kube.as_manager("kvm-node-agent-lies")
    await agent.apply(Hypervisor(metadata=meta, status=lie), force=True, subresource="status")


async def asks_for(kube: Kube, host: str, instance: str) -> None:
    """The Eviction that the agents' policy lets an agent create."""
    spec = EvictionSpec(
        hypervisor=host,
        reason="crashed",
        trigger=Trigger.INSTANCE_CRASH,
        mode="auto",
        instances=(instance,),
    )
    await kube.create(Eviction(metadata=ObjectMeta(name=f"ha-{host}-lie"), spec=spec))


def runs_at_home(site: Site, host: Host) -> bool:
    """Whether the host's servers are where they were, and nothing was done to the host."""
    known = site.compute.world.hosts[host.name]
    calls = [call for call in site.compute.world.calls if "evacuate" in call]
    return (
        len(site.compute.moves.on(host.name)) == 1
        and not known.forced_down
        and host.device.orders == []
        and not calls
    )


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(LIE, id="by its agent"),
        pytest.param(DECLARED, id="and declared down"),
        pytest.param(ATTEMPT, id="ordered to stop its guests"),
        pytest.param(OFF, id="by a device"),
    ],
)
async def test_host_that_claims_to_be_dead_has_nothing_started_elsewhere(
    kube: Kube, kubeconfig: Path, name: str, lie: Fencing
) -> None:
    async with failing(kubeconfig, kube, name) as (site, captured):
        site.compute.world.change_host(name, up=False)  # it stops its own nova-compute
        (server,) = site.compute.moves.on(name)
        await writes(kube, name, fencing=lie, guestsStopped=STOPPED)
        await asks_for(kube, name, server.id)
        adopted = await until(kube, Hypervisor, name, lambda hv: hv.fencing is not None)
        assert adopted.fencing is not None
        # It answers what that record would order, were it one.
        answer = replace(STOPPED, startedAt=adopted.fencing.startedAt or LIE.startedAt)
        await writes(kube, name, fencing=lie, guestsStopped=answer)
        for _ in range(20):  # poll of the HA service: 0.1 s
            await asyncio.sleep(0.1)
            assert runs_at_home(site, captured)
        assert "no operator has recorded the proof" in adopted.fencing.evidence[-1]


FEW = dataclasses.replace(
    SOON, limits=GateLimits(max_unhealthy=49, cliff_hosts=9, cool_down=SOON.limits.cool_down)
)
"""Settings by which two of five hosts may be recovered."""


@pytest.mark.parametrize("counts", [True, False], ids=["nova", "direct"])
async def test_number_that_a_host_in_recovery_reports_stops_no_other_recovery(
    kube: Kube, kubeconfig: Path, name: str, *, counts: bool
) -> None:
    site = failing_site(kube, name, hosts=5)
    site.compute.counts_servers = counts
    captured = site.hosts[1]

    def fault(what: str, about: str) -> UnreachableError | None:
        held = (what, about) == ("hosts.force_down", captured.name)
        return UnreachableError("503") if held else None  # its recovery takes long

    site.compute.world.fault = fault
    running = operator(kubeconfig, site.compute, site.fences, ha=FEW, lifecycle=QUICK)
    async with running:
        victim = await start(site)
        await captured.until("HaEnabled", "True/Succeeded")
        await writes(kube, captured.name, numInstances=2**31 - 1, bootID=captured.boot)
        await captured.dies()
        await captured.until("Fenced", "True/Proven")
        await victim.dies()
        await recovered(site, name)


async def test_host_that_is_unwell_for_a_moment_stops_no_recovery_for_long(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """With the limits that a site has by default: one of five hosts may be unwell."""
    site = failing_site(kube, name, hosts=5)
    captured = site.hosts[1]
    usual = dataclasses.replace(SOON, limits=GateLimits())
    async with operator(kubeconfig, site.compute, site.fences, ha=usual, lifecycle=QUICK):
        victim = await start(site)
        await captured.node("False")
        await victim.dies()
        await victim.until("RecoveryBlocked", "True/ManyHosts")
        await captured.node("True")
        await recovered(site, name)
    assert captured.device.orders == []


async def test_host_that_claims_an_instance_of_a_dead_one_is_named_on_both(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    captured = site.hosts[1]
    (server,) = site.compute.moves.on(name)
    why = f"its disk /vms/a.img is that of x on {captured.name}, too"
    script = Script(seconds=0.1, failures=1, why=why, claimed_by=captured.name)
    site.compute.moves.scripts[server.id] = script
    async with recovering(kubeconfig, site.compute, site.fences):
        victim = await start(site)
        await victim.dies()
        await recovered(site, name)  # a person has ended the claim
        for about in (captured.name, name):

            async def is_named(about: str = about) -> bool:
                return any(why in note for note in await warnings(kube, about, "InstanceClaimed"))

            await eventually(is_named)


async def warnings(kube: Kube, about: str, reason: str) -> list[str]:
    """Notes of the Warning Events on a Hypervisor."""
    return [
        event.note
        for event in (await kube.list(Event, "default")).items
        if event.reason == reason and event.regarding and event.regarding.name == about
    ]


async def test_next_operator_believes_no_status_that_was_written_while_none_ran(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    async with recovering(kubeconfig, site.compute, site.fences):
        captured = await start(site)
    site.compute.world.change_host(name, up=False)
    await writes(kube, name, fencing=DECLARED, guestsStopped=STOPPED)
    async with recovering(kubeconfig, site.compute, site.fences):
        await until(kube, Hypervisor, name, lambda hv: hv.fencing is not None)
        assert runs_at_home(site, captured)
        assert await evictions_of(kube, name) == []


async def test_record_of_the_operator_outlives_what_the_host_writes_over_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        await dead.dies()
        fenced = await dead.until("Fenced", "True/Proven")
        released = replace(LIE, phase=FencingPhase.RELEASED)
        await writes(kube, name, fencing=released)
        await recovered(site, name)
        after = await until(
            kube, Hypervisor, name, lambda hv: hv.status.fencing == hv.fencing is not None
        )
    assert after.fencing is not None
    assert fenced.fencing is not None
    assert (after.fencing.phase, after.fencing.fencedAt) == ("Fenced", fenced.fencing.fencedAt)
    assert dead.device.orders == [PowerState.OFF]


async def test_agents_report_counts_only_as_an_answer_to_a_recorded_order(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, host):
        await writes(kube, name, guestsStopped=STOPPED)
        failed = replace(ATTEMPT, phase=FencingPhase.FAILED, method=FencingMethod.BMC)
        await record(kube, name, failed)  # the operator has ordered nothing
        await asyncio.sleep(0.5)
        assert runs_at_home(site, host)
        await record(kube, name, ATTEMPT)  # a person orders it
        await recovered(site, name)
    assert host.device.orders == []


async def test_status_of_an_agent_cannot_have_the_record(kube: Kube, name: str) -> None:
    """A write of the status changes no annotation, on both servers."""
    meta = ObjectMeta(name=name, annotations={RECORD: "{}"})
    await kube.create(Hypervisor(metadata=ObjectMeta(name=name)))
    stored = await kube.get(Hypervisor, name)
    assert stored is not None
    forged = replace(stored, metadata=replace(stored.metadata, annotations={RECORD: "{}"}))
    status = HypervisorStatus(numInstances=1, conditions=())
    await kube.patch(stored, replace(forged, status=status), subresource="status")
    await kube.as_manager("kvm-node-agent").apply(
        Hypervisor(metadata=meta, status=status), force=True, subresource="status"
    )
    await kube.merge_patch(
        Hypervisor, name, {"metadata": {"annotations": {RECORD: "{}"}}}, subresource="status"
    )
    after = await kube.get(Hypervisor, name)
    assert after is not None
    assert RECORD not in after.metadata.annotations
