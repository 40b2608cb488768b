"""A host fails: fenced, evacuated, taken back; on a real API server."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.agents import Agent
from tests.integration.operator.conftest import (
    REAL,
    address_of,
    operator,
    reason,
    set_node_status,
    until,
)
from tests.integration.operator.dying import Dying
from tests.integration.operator.failing import (
    SOON,
    evictions_of,
    failing,
    failing_site,
    fencing,
    gone,
    recovered,
    recovering,
    run_until_death,
    start,
)
from tests.integration.operator.lifecycle import QUICK, message, phase, set_spec
from tests.integration.runtime.scripted import eventually
from tests.records import record

from hypercobalt.adapters.fencing.port import FenceError, FenceFailure, PowerState
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import Node, NodeCondition
from hypercobalt.api.eviction import Eviction, EvictionSpec, Trigger, has_begun, has_ended
from hypercobalt.api.fencing import ASSERTED_DEAD, OUT_OF_SERVICE, Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.incident import PeerReport
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.peers import probes
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.host_failure.fencing import AttemptPace
from hypercobalt.operator.ha.model.plan import BEFORE
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.runtime import Kube, NotFoundError

BLOCKED = "RecoveryBlocked"
OUT_OF_SERVICE_TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]


async def test_dead_host_is_fenced_evacuated_and_taken_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name, servers=2) as (site, dead):
        world = site.compute.world
        await dead.dies()

        fenced = await dead.until("Fenced", "True/Proven")
        assert (is_fenced(fenced), fenced.spec.maintenance) == (True, "ha")
        assert dead.device.orders == [PowerState.OFF]
        await recovered(site, name)
        (eviction,) = await evictions_of(kube, name)
        assert (eviction.spec.mode, eviction.spec.trigger) == ("evacuate", "NodeFailure")
        assert world.hosts[name].disabled_reason.endswith("maintenance=ha")
        assert world.calls.count(f"hosts.force_down {name}") == 1
        await dead.until("Ready", "False/Evicted")
        await until(kube, Hypervisor, name, lambda hv: phase(hv) == "Recovered")

        await dead.comes_back()
        pending = await until(
            kube, Hypervisor, name, lambda hv: "is back" in message(hv, "RecoveryBlocked")
        )
        assert "evacuation migration records remain" in message(pending, "RecoveryBlocked")
        assert phase(pending) == "Returning"
        site.compute.moves.clean(name)
        back = await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        assert reason(back, "Fenced") == "False/Released"
        await dead.until("Ready", "True/Ready")
        await eventually(lambda: world.hosts[name].enabled)
        assert not world.hosts[name].forced_down
        assert await evictions_of(kube, name) == []
        assert dead.device.orders == [PowerState.OFF]
        well = await dead.until("RecoveryBlocked", "False/NotNeeded")
        assert (well.status.unhealthySince, well.status.recovery) == (None, None)


async def test_host_that_is_back_is_enabled_once_and_when_its_compute_service_reports(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Nova tells its scheduler at once only if the service reports when it is enabled."""
    site = failing_site(kube, name)
    world = site.compute.world
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        await recovered(site, name)
        await dead.comes_back()
        world.change_host(name, up=False)  # nova-compute reports once, and is restarted
        site.compute.moves.clean(name)
        waits = await until(
            kube, Hypervisor, name, lambda hv: "does not report" in message(hv, BLOCKED)
        )
        assert (reason(waits, BLOCKED), waits.spec.maintenance) == ("False/NotNeeded", "ha")
        assert phase(waits) == "Returning"
        assert not world.hosts[name].enabled
        world.change_host(name, up=True)
        await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        await eventually(lambda: world.hosts[name].enabled)
        await dead.until("HypervisorDisabled", "False/Succeeded")
    of_service = ("hosts.disable", "hosts.force_down", "hosts.take_back", "hosts.enable")
    calls = [one.removesuffix(f" {name}") for one in world.calls if one.endswith(f" {name}")]
    done = [one for one in calls if one in of_service]
    assert [one for one in dict.fromkeys(done) if one != "hosts.take_back"] == [
        *("hosts.disable", "hosts.force_down", "hosts.enable")
    ]
    assert (done.count("hosts.disable"), done.count("hosts.enable")) == (1, 1)
    assert done[-2:] == ["hosts.take_back", "hosts.enable"]


async def test_dead_host_does_not_go_on_listing_what_runs_elsewhere(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Its agent would take them out, and is away for as long as the host."""
    async with failing(kubeconfig, kube, name, servers=2) as (site, dead):
        there = site.compute.moves.on(name)
        own = Instance("00000000-0000-4000-8000-00000000000f", "of the agent alone", active=True)
        reported = HypervisorStatus(
            instances=(*(Instance(one.id, one.name, active=True) for one in there), own),
            numInstances=3,
            allocation={"cpu": Quantity("3"), "memory": Quantity("3Gi")},
        )
        await kube.as_manager("kvm-node-agent").apply(
            Hypervisor(metadata=ObjectMeta(name=name), status=reported),
            force=True,
            subresource="status",
        )
        await dead.dies()
        await recovered(site, name)

        def lists_what_is_left(found: Hypervisor) -> bool:
            return found.status.instances == (own,) and found.status.numInstances == 1

        await until(kube, Hypervisor, name, lists_what_is_left)


async def test_host_that_is_off_already_is_proven_dead_without_an_order(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        dead.device.state = PowerState.OFF
        await dead.dies()
        found = await dead.until("Fenced", "True/Proven")
        assert "off already" in message(found, "Fenced")
        await recovered(site, name)
    assert dead.device.orders == []


async def test_device_that_refuses_proves_nothing_until_an_administrator_asserts_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        dead.device.failure = FenceError("bmc: 401 Unauthorized", FenceFailure.FAILED)
        await dead.dies()
        found = await dead.until("Fenced", "Unknown/Failed")
        assert "401 Unauthorized" in message(found, "Fenced")
        assert not site.compute.world.hosts[name].forced_down
        assert await evictions_of(kube, name) == []

        def asserted(hv: Hypervisor) -> Hypervisor:
            notes = {**hv.metadata.annotations, ASSERTED_DEAD: hv.status.bootID or ""}
            return replace(hv, metadata=replace(hv.metadata, annotations=notes))

        await kube.modify(Hypervisor, name, asserted)
        fenced = await dead.until("Fenced", "True/Proven")
        assert fenced.status.fencing is not None
        assert fenced.status.fencing.method == "External"
        await recovered(site, name)


async def test_refused_attempt_is_named_at_once_and_repeated_when_the_secret_changes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        dead.device.failure = FenceError("bmc: 401 Unauthorized", FenceFailure.REFUSED)
        await dead.dies()
        found = await dead.until("Fenced", "Unknown/Refused")
        assert "bmc: 401 Unauthorized; correct the device" in message(found, "Fenced")
        attempts = found.status.fencing.attempts if found.status.fencing else None
        dead.device.failure = None
        site.fences.document += 1
        fenced = await dead.until("Fenced", "True/Proven")
        assert fenced.status.fencing is not None
        assert (attempts, fenced.status.fencing.attempts) == (1, 2)
        await recovered(site, name)


async def test_host_without_a_fence_device_is_blocked_with_the_reason(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        del site.fences.by_node[name]
        await dead.dies()
        found = await dead.until("RecoveryBlocked", "True/GatesClosed")
        assert message(found, "RecoveryBlocked").startswith("FenceSetUp closed: no device; ")
        assert not found.spec.maintenance
        blocked = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "HaEnabled") != "True/Succeeded"
        )
        assert blocked.status.fencing is None


async def test_host_whose_agent_lives_migrates_and_is_not_fenced(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, sick):
        await sick.node("Unknown")
        await recovered(site, name)
        (eviction,) = await evictions_of(kube, name)
        assert eviction.spec.mode == "live"
        await sick.node("True")
        back = await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        assert back.status.fencing is None
        await eventually(lambda: site.compute.world.hosts[name].enabled)
    assert sick.device.orders == []


async def test_host_that_answers_only_a_new_request_migrates(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Kubelet and agent are cut off from the API, so what was read of the host grows old."""
    async with failing(kubeconfig, kube, name) as (site, cut_off):
        site.compute.world.listed_down.add(name)
        await Agent(kube, name).renews(lasts=1)
        await cut_off.node("Unknown")
        await recovered(site, name)
        (eviction,) = await evictions_of(kube, name)
        assert eviction.spec.mode == "live"
    assert cut_off.device.orders == []


async def reports_on(kube: Kube, peer: str, host: str, asked: str, *, answers: bool) -> None:
    """What the agent of a peer writes about a host."""
    report = PeerReport(host=host, answers=answers, request=asked, evidence="libvirt (TLS)")
    mine = HypervisorStatus(peerReports=(report,), conditions=())
    peers = kube.as_manager("peers")
    meta = ObjectMeta(name=peer)
    await peers.apply(Hypervisor(metadata=meta, status=mine), force=True, subresource="status")


async def answers_for_ever(kube: Kube, liars: dict[str, bool], host: str) -> None:
    """Have peers answer each question about a host at once, truly or not, until cancelled."""
    answered: dict[str, str] = {}
    while True:
        for peer, answers in liars.items():
            found = await kube.get(Hypervisor, peer)
            for probe in probes(found) if found is not None else ():
                if probe.name == host and answered.get(peer) != probe.request:
                    answered[peer] = probe.request
                    await reports_on(kube, peer, host, probe.request, answers=answers)
        await asyncio.sleep(0.05)


async def test_peer_that_lies_about_a_frozen_host_stops_no_recovery(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    liar, honest = (one.name for one in site.hosts[1:])
    patient = dataclasses.replace(SOON.waits, peers=timedelta(seconds=20))
    settings = dataclasses.replace(SOON, waits=patient)
    async with operator(kubeconfig, site.compute, site.fences, ha=settings, lifecycle=QUICK):
        frozen = await start(site)
        peers = answers_for_ever(kube, {liar: True, honest: False}, name)
        answering = asyncio.create_task(peers)
        await frozen.dies()
        fenced = await frozen.until("Fenced", "True/Proven")
        await recovered(site, name)
        answering.cancel()
        await eventually(lambda: has_event(kube, name, "PeerDoubted"), seconds=45)
        await eventually(lambda: has_event(kube, liar, "PeerDoubted"), seconds=45)
    assert frozen.device.orders == [PowerState.OFF]
    evidence = fenced.status.fencing.evidence if fenced.status.fencing else ()
    assert any(f"{liar} (libvirt (TLS)) alone reports" in text for text in evidence)


async def test_host_that_its_only_peer_reaches_is_not_switched_off_but_counts_as_dead_once_off(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name, hosts=2)
    (peer,) = (one.name for one in site.hosts[1:])
    patient = dataclasses.replace(SOON.waits, peers=timedelta(seconds=20))
    pace = AttemptPace(pause=timedelta(0), longest=timedelta(0))
    site.fences.power_lasts = timedelta(seconds=1)
    settings = dataclasses.replace(SOON, waits=patient, pace=pace)
    async with operator(kubeconfig, site.compute, site.fences, ha=settings, lifecycle=QUICK):
        silent = await start(site)
        answering = asyncio.create_task(answers_for_ever(kube, {peer: True}, name))
        await silent.dies()
        held = await silent.until("Fenced", "Unknown/Failed")
        assert f"{peer} alone reports that the host answers" in message(held, "Fenced")
        assert silent.device.orders == []
        assert not site.compute.world.hosts[name].forced_down
        silent.device.state = PowerState.OFF
        await silent.until("Fenced", "True/Proven")
        await recovered(site, name)
        answering.cancel()
    assert silent.device.orders == []


async def test_peer_that_reaches_a_program_stops_the_fence(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    patient = dataclasses.replace(SOON.waits, peers=timedelta(seconds=20))
    settings = dataclasses.replace(SOON, waits=patient)
    async with operator(kubeconfig, site.compute, site.fences, ha=settings, lifecycle=QUICK):
        cut_off = await start(site)
        await cut_off.dies()
        peer = site.hosts[1].name
        probed = await until(kube, Hypervisor, peer, lambda hv: bool(probes(hv)))
        (probe,) = probes(probed)
        assert (probe.name, probe.address) == (name, address_of(name))
        for one in site.hosts[1:]:
            await reports_on(kube, one.name, name, probe.request, answers=True)
        found = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: f"a peer reaches it: {peer} (libvirt (TLS))" in message(hv, BLOCKED),
        )
        assert found.status.fencing is None
        site.compute.world.change_host(name, up=True)
        await cut_off.reports("True")
        await until(kube, Hypervisor, peer, lambda hv: not probes(hv))
    assert cut_off.device.orders == []


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(UnreachableError("500 DBConnectionError"), id="MariaDB"),
        pytest.param(UnreachableError("504 MessagingTimeout"), id="RabbitMQ"),
        pytest.param(RefusedError("401 token cannot be validated", code=401), id="Valkey"),
    ],
)
async def test_recovery_waits_while_the_compute_service_is_away(
    kube: Kube, kubeconfig: Path, name: str, error: HypercobaltError
) -> None:
    """The outages look alike behind Nova's API; none makes a host dead, or loses a dead one."""
    async with failing(kubeconfig, kube, name) as (site, dead):
        site.compute.world.fault = lambda call, _: error if call.startswith("hosts.") else None
        await dead.dies()
        found = await until(
            kube, Hypervisor, name, lambda hv: "ComputeService closed" in message(hv, BLOCKED)
        )
        assert (found.status.fencing, found.spec.maintenance) == (None, None)
        assert await evictions_of(kube, name) == []
        assert dead.device.orders == []
        site.compute.world.fault = None
        await recovered(site, name)
        assert len(await evictions_of(kube, name)) == 1
    assert all(host.device.orders == [] for host in site.hosts[1:])


async def test_recovery_waits_while_the_compute_service_could_start_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    why = "no nova-scheduler is up (ctl-1): Nova cannot start servers"
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        site.compute.world.hindrance = why
        await dead.dies()
        found = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: f"ComputeService closed: {why}" in message(hv, BLOCKED),
        )
        assert (found.status.fencing, found.spec.maintenance) == (None, None)
        assert dead.device.orders == []
        site.compute.world.hindrance = ""
        await recovered(site, name)


@pytest.mark.parametrize(
    "error",
    [RefusedError("401 token cannot be validated", code=401), UnreachableError("503")],
    ids=["refused", "not answered"],
)
async def test_dead_host_is_forced_down_once_the_compute_service_allows_it(
    kube: Kube, kubeconfig: Path, name: str, error: HypercobaltError
) -> None:
    """Nothing changes meanwhile that would lead to another pass."""
    async with failing(kubeconfig, kube, name) as (site, dead):
        site.compute.world.fault = lambda call, _: error if call == "hosts.force_down" else None
        await dead.dies()
        await until(
            kube, Hypervisor, name, lambda hv: "not forced down yet" in message(hv, BLOCKED)
        )
        site.compute.world.fault = None
        await recovered(site, name)


async def test_many_hosts_at_once_are_left_alone_until_enough_are_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name, hosts=5) as (site, first):
        for host in site.hosts[:2]:
            await host.dies()
        found = await first.until("RecoveryBlocked", "True/ManyHosts")
        assert "MaxUnhealthy closed: 2 of 5 hosts are unhealthy, 1 are allowed" in message(
            found, "RecoveryBlocked"
        )
        assert not found.spec.maintenance
        second = site.hosts[1]
        site.compute.world.change_host(second.name, up=True)
        await second.reports("True")
        await first.until("Fenced", "True/Proven")
        await recovered(site, name)
    assert second.device.orders == []


async def test_recorded_attempt_of_another_leader_is_waited_out(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
    deadline = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    attempt = Fencing(
        phase=FencingPhase.ATTEMPTING, bootID=dead.boot, attempts=1, deadline=deadline
    )
    await record(kube, name, attempt)
    async with site.agents(), recovering(kubeconfig, site.compute, site.fences):
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        assert datetime.now(UTC) >= deadline
    assert dead.device.orders == [PowerState.OFF]


@pytest.mark.parametrize("writes", range(1, 12, 2))
async def test_operator_that_dies_after_any_write_fences_once_and_evacuates_by_the_proof(
    kube: Kube, kubeconfig: Path, name: str, writes: int
) -> None:
    site = failing_site(kube, name)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
    await dead.dies()
    async with site.agents():
        await run_until_death(kubeconfig, site, Dying(writes))
    async with site.agents(), recovering(kubeconfig, site.compute, site.fences):
        fenced = await dead.until("Fenced", "True/Proven")
        assert is_fenced(fenced)
        await recovered(site, name)
    assert dead.device.orders == [PowerState.OFF]


async def test_device_that_lied_is_detected_when_the_host_reports_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name, servers=0)
    server = failing_site(kube, name).compute.moves.on(name)[0]
    site.compute.moves.add(server)
    site.compute.moves.hosts = {name: site.compute.moves.hosts[name]}  # nowhere to go
    async with recovering(kubeconfig, site.compute, site.fences):
        cut_off = await start(site)
        await cut_off.dies()
        await cut_off.until("Fenced", "True/Proven")
        await eventually(lambda: site.compute.world.hosts[name].forced_down)
        await cut_off.reports("True", "boot-1")  # the host runs, in the same boot
        found = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: "was wrong" in message(hv, "RecoveryBlocked"),
        )
        assert found.spec.maintenance == "ha"
        await gone(kube, name)
    assert [one.id for one in site.compute.moves.on(name)] == [server.id]


@pytest.mark.parametrize("lies", [False, True], ids=["until then", "for ever"])
async def test_host_that_was_fenced_wrongly_is_rebooted_and_returns_to_service(
    kube: Kube, kubeconfig: Path, name: str, *, lies: bool
) -> None:
    async with failing(kubeconfig, kube, name) as (site, alive):
        alive.device.state = PowerState.OFF  # it lies: the host is cut off, and runs
        await alive.dies()
        await recovered(site, name)
        alive.device.state = PowerState.OFF if lies else PowerState.ON
        site.compute.world.change_host(name, up=True)
        await alive.reports("True", "boot-1")
        await alive.until("Fenced", "Unknown/Failed")
        assert alive.device.orders == []
        await alive.obeys()
        if lies:
            found = await alive.until(BLOCKED, "True/AwaitsReboot")
            why = "bmc of {} does not report the power as on, though the host reports"
            assert why.format(name) in message(found, BLOCKED)
            assert (phase(found), alive.device.orders) == ("Recovered", [])
        else:
            await eventually(lambda: alive.device.orders == [PowerState.OFF, PowerState.ON])
        await alive.comes_back()
        site.compute.moves.clean(name)
        back = await alive.until("Fenced", "False/Released")
        await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        assert back.fencing is not None
        assert any(text.startswith("reboot: ") for text in back.fencing.evidence)


async def test_assertion_that_was_wrong_does_not_count_when_the_host_is_silent_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)  # nowhere to go
    async with recovering(kubeconfig, site.compute, site.fences):
        cut_off = await start(site)
        cut_off.device.failure = FenceError("bmc: no route to host", FenceFailure.FAILED)
        await cut_off.dies()
        await cut_off.until("Fenced", "Unknown/Failed")
        note = {"metadata": {"annotations": {ASSERTED_DEAD: cut_off.boot}}}
        await kube.merge_patch(Hypervisor, name, note)
        await cut_off.until("Fenced", "True/Proven")
        await eventually(lambda: site.compute.world.hosts[name].forced_down)
        await cut_off.reports("True", "boot-1")  # the host runs, in the same boot
        found = await cut_off.until("Fenced", "Unknown/Failed")
        assert "shows life after the proof" in message(found, "Fenced")
        await gone(kube, name)
        await cut_off.dies()
        await until(kube, Hypervisor, name, lambda hv: phase(hv) in {"Fencing", "Blocked"})
        await until(kube, Hypervisor, name, lambda hv: (fencing(hv).attempts or 0) > 1)
        site.compute.moves.disabled.clear()
        after = await cut_off.until("Fenced", "Unknown/Failed")
        assert ASSERTED_DEAD not in after.metadata.annotations
        assert not is_fenced(after)
    assert len(site.compute.moves.on(name)) == 1
    assert cut_off.device.orders == []


@pytest.mark.parametrize("tainted", [False, True], ids=["annotation", "taint"])
async def test_assertion_about_a_host_that_lives_does_not_count_once_it_is_silent(
    kube: Kube, kubeconfig: Path, name: str, *, tainted: bool
) -> None:
    async with failing(kubeconfig, kube, name) as (site, lives):
        lives.device.failure = FenceError("bmc: no route to host", FenceFailure.FAILED)
        if tainted:
            await kube.merge_patch(Node, name, {"spec": {"taints": [OUT_OF_SERVICE_TAINT]}})
        else:
            note = {"metadata": {"annotations": {ASSERTED_DEAD: lives.boot}}}
            await kube.merge_patch(Hypervisor, name, note)

        async def is_disproved() -> bool:
            await lives.reports("True")
            found = await kube.get(Hypervisor, name)
            assert found is not None
            record = found.status.assertion
            noted = record is not None and bool(record.disproved)
            return noted if tainted else ASSERTED_DEAD not in found.metadata.annotations

        await eventually(is_disproved, seconds=45)
        if not tainted:
            await eventually(lambda: has_event(kube, name, "FencingAssertionRemoved"), seconds=45)
    async with site.agents(), recovering(kubeconfig, site.compute, site.fences):
        await lives.dies()
        after = await lives.until("Fenced", "Unknown/Failed")  # by its device, not by that
        assert fencing(after).attempts == 1
    assert len(site.compute.moves.on(name)) == 1


async def test_renewal_from_before_an_assertion_does_not_disprove_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The watch of Leases gathers renewals for half a second; the assertion is seen at once."""
    async with failing(kubeconfig, kube, name) as (site, dead):
        dead.device.failure = FenceError("bmc: no route to host", FenceFailure.FAILED)
        await Agent(kube, site.hosts[1].name).renews()  # from then on they are gathered
        await dead.dies()
        note = {"metadata": {"annotations": {ASSERTED_DEAD: dead.boot}}}
        await kube.merge_patch(Hypervisor, name, note)
        found = await dead.until("Fenced", "True/Proven")
        assert not await has_event(kube, name, "FencingAssertionRemoved")
        assert ASSERTED_DEAD in found.metadata.annotations


async def has_event(kube: Kube, name: str, reason_: str) -> bool:
    """Whether there is an Event of the reason about a Hypervisor."""
    events = (await kube.list(Event, "default")).items
    about = (one for one in events if one.regarding is not None and one.regarding.name == name)
    return any(one.reason == reason_ for one in about)


async def delete_node(kube: Kube, name: str) -> None:
    """Delete a Node whose Hypervisor is kept from going with it."""
    await kube.delete(Node, name)
    with suppress(NotFoundError):  # where no collector does it
        await kube.delete(Hypervisor, name)
    await until(kube, Hypervisor, name, lambda hv: hv.metadata.deletionTimestamp is not None)


async def goes(kube: Kube, name: str) -> None:
    """Wait until there is no Hypervisor of the name."""

    async def is_gone() -> bool:
        return await kube.get(Hypervisor, name) is None

    await eventually(is_gone, seconds=45)


async def test_dead_host_whose_node_is_deleted_is_evacuated_before_its_record_goes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await dead.dies()
        await until(kube, Hypervisor, name, lambda hv: FINALIZER in hv.metadata.finalizers)
        await delete_node(kube, name)
        site.compute.moves.disabled.clear()
        await recovered(site, name)
        await goes(kube, name)
    assert dead.device.orders == [PowerState.OFF]


@pytest.mark.parametrize("asserted", [False, True], ids=["by its device", "by a person"])
async def test_silent_host_whose_node_is_deleted_is_fenced_and_evacuated_all_the_same(
    kube: Kube, kubeconfig: Path, name: str, *, asserted: bool
) -> None:
    async with failing(kubeconfig, kube, name) as (site, dead):
        if asserted:
            dead.device.failure = FenceError("bmc: no route to host", FenceFailure.FAILED)
        site.compute.world.fault = lambda *_: UnreachableError("503")  # nothing is done meanwhile
        await dead.dies()
        await until(kube, Hypervisor, name, lambda hv: FINALIZER in hv.metadata.finalizers)
        await delete_node(kube, name)
        site.compute.world.fault = None
        if asserted:
            await dead.until("Fenced", "Unknown/Failed")
            note = {ASSERTED_DEAD: dead.boot}
            await kube.merge_patch(Hypervisor, name, {"metadata": {"annotations": note}})
        await recovered(site, name)
        await goes(kube, name)
        await gone(kube, name)
    assert dead.device.orders == ([] if asserted else [PowerState.OFF])


async def test_silent_host_that_has_lost_its_address_is_kept_until_it_is_listed_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Without OpenStack a host is listed by its address alone."""
    site = failing_site(kube, name)
    site.compute.counts_servers = False
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        site.compute.world.change_host(name, up=False)
        unlisted = site.compute.world.hosts.pop(name)
        await Agent(kube, name).renews(lasts=1)
        await dead.node("Unknown")
        await until(kube, Hypervisor, name, lambda hv: FINALIZER in hv.metadata.finalizers)
        await delete_node(kube, name)
        await dead.until("RecoveryBlocked", "True/GatesClosed")
        site.compute.world.hosts[name] = unlisted
        await recovered(site, name)
        await goes(kube, name)
    assert dead.device.orders == [PowerState.OFF]


async def test_dead_host_whose_node_is_deleted_in_the_foreground_is_evacuated(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The collector deletes what the Hypervisor owns, again and again."""
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await dead.dies()
        await dead.until("Fenced", "True/Proven")

        async def is_owned() -> bool:
            return any(one.metadata.ownerReferences for one in await evictions_of(kube, name))

        await eventually(is_owned, seconds=45)
        await kube.delete(Node, name, propagation="Foreground")
        if REAL:  # there is no collector beside the tests' kube-apiserver
            await kube.delete(Hypervisor, name)
        await until(kube, Hypervisor, name, lambda hv: hv.metadata.deletionTimestamp is not None)

        async def is_unowned() -> bool:
            found = await evictions_of(kube, name)
            owned = [one for one in found if one.metadata.ownerReferences]
            for one in owned if REAL else ():
                with suppress(NotFoundError):
                    await kube.delete(Eviction, one.metadata.name)
            return bool(found) and not owned

        await eventually(is_unowned, seconds=45)
        site.compute.moves.disabled.clear()
        await recovered(site, name)
        await goes(kube, name)
        await gone(kube, name)
    assert dead.device.orders == [PowerState.OFF]


async def test_silent_host_that_answers_again_after_its_node_was_deleted_goes_with_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, cut_off):
        cut_off.device.failure = FenceError("bmc: no route to host", FenceFailure.FAILED)
        await cut_off.dies()
        await until(kube, Hypervisor, name, lambda hv: FINALIZER in hv.metadata.finalizers)
        await delete_node(kube, name)
        site.compute.world.change_host(name, up=True)
        await goes(kube, name)
    assert len(site.compute.moves.on(name)) == 1


async def test_host_in_termination_goes_on_with_that_once_it_is_evacuated(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(
        host.name for host in site.hosts
    )  # the instance cannot migrate
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") != "")
        await dead.dies()
        found = await until(kube, Hypervisor, name, lambda hv: hv.spec.maintenance == "ha")
        assert found.metadata.annotations[BEFORE] == "termination"
        await dead.until("Fenced", "True/Proven")
        site.compute.moves.disabled.clear()
        after = await until(
            kube, Hypervisor, name, lambda hv: hv.spec.maintenance == "termination", within=40
        )
        assert BEFORE not in after.metadata.annotations
        await recovered(site, name)


async def test_host_that_dies_while_it_is_drained_live_is_evacuated(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """A live Eviction waits for its host, which is dead: the recovery does not wait for that."""
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)  # nothing can leave yet
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        drain = Eviction(
            metadata=ObjectMeta(name=f"drain-{name}"),
            spec=EvictionSpec(
                hypervisor=name, reason="memory", trigger=Trigger.MANUAL, mode="live"
            ),
        )
        await kube.create(drain)
        await until(kube, Eviction, f"drain-{name}", lambda e: has_begun(e.status))
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        site.compute.moves.disabled.clear()
        await recovered(site, name)
        await until(kube, Eviction, f"drain-{name}", lambda e: has_ended(e.status))


async def test_pressure_disables_the_host_in_the_compute_service_while_it_lasts(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (site, host):
        world = site.compute.world
        node = await kube.get(Node, name)
        assert node is not None
        pressed = (*node.status.conditions, NodeCondition(type="DiskPressure", status="True"))
        await set_node_status(kube, name, replace(node.status, conditions=pressed))
        reasons = ("Node condition: DiskPressure",)
        await eventually(lambda: world.hosts[name].disabled_reason in reasons)
        await host.node("True")
        await eventually(lambda: world.hosts[name].enabled)
    assert await evictions_of(kube, name) == []


async def test_host_in_manual_maintenance_is_not_recovered(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name, servers=0) as (_, host):
        await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
        await until(kube, Eviction, name, lambda e: has_ended(e.status))
        await host.dies()
        found = await host.until("RecoveryBlocked", "True/GatesClosed")
        assert "Silenced closed" in message(found, "RecoveryBlocked")
        assert found.spec.maintenance == "manual"
    assert host.device.orders == []


async def test_proof_does_not_count_for_a_boot_that_began_while_no_operator_looked(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)  # nowhere to go
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        await eventually(lambda: site.compute.world.hosts[name].forced_down)
    dead.boot, dead.device.state = "boot-2", PowerState.ON
    await dead.node("True")
    await dead.node("Unknown")  # its agent has reported nothing
    site.compute.moves.disabled.clear()
    async with site.agents(), recovering(kubeconfig, site.compute, site.fences):
        found = await dead.until("Fenced", "Unknown/Failed")
        assert "the kubelet has reported boot boot-2" in message(found, "Fenced")
        assert (len(site.compute.moves.on(name)), len(dead.device.orders)) == (1, 1)
        found = await dead.until("Fenced", "True/Proven")
        assert fencing(found).nodeBootID == "boot-2"
        await recovered(site, name)
    assert dead.device.orders == [PowerState.OFF, PowerState.OFF]
