"""From a domain event to the stored status, and through every kind of outage."""

from __future__ import annotations

import asyncio
from dataclasses import replace as with_fields
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.integration.apiserver.conftest import fresh
from tests.integration.node_agent.conftest import (
    DEADLINE,
    NODE,
    boot,
    create,
    refusing_instances,
    running,
    until,
)
from tests.integration.runtime.scripted import ScriptedServer, eventually
from tests.unit.operator.samples import NOW

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState, Versions
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.conditions import ConditionStatus, get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import AgentReportingReason
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import Server, serve
from hypercobalt.operator.agents.reporting import LeaseVerdict, unknown
from hypercobalt.runtime import Backoff, Connection, Kube, Limits, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="module")

GIB = 1024**3
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def connection(hypervisor: Hypervisor) -> tuple[str, str]:
    found = get_condition(hypervisor.conditions, "LibVirtConnection")
    return (found.status, found.reason) if found else ("", "")


def names(hypervisor: Hypervisor) -> list[str]:
    return [instance.name for instance in hypervisor.status.instances]


async def test_a_started_domain_is_in_the_status(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: connection(h) == ("True", "Connected"))
        boot(agent.libvirt, "u1", "vm1", memory_bytes=4 * GIB, vcpus=2)

        stored = await until(kube, lambda h: names(h) == ["vm1"])

    status = stored.status
    assert (status.numInstances, status.libVirtVersion) == (1, "9.0.0")
    assert str(status.allocation["memory"]) == "4Gi"
    assert status.capabilities is not None
    assert str(status.capabilities.memory) == "8Gi"
    condition = get_condition(stored.conditions, "LibVirtConnection")
    assert condition is not None
    assert condition.observedGeneration == stored.metadata.generation


async def test_the_last_domain_leaves_no_trace(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        await until(kube, lambda h: names(h) == ["vm1"])
        agent.libvirt.stop("u1")

        await until(kube, lambda h: h.status.numInstances == 0 and not h.status.instances)


async def test_a_domain_that_is_forgotten_after_its_stop_goes_without_an_event(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        await until(kube, lambda h: names(h) == ["vm1"])
        # As libvirt lists one that has just migrated away.
        agent.libvirt.put(Domain("u1", "vm1", active=False, state=DomainState.SHUTOFF))
        agent.libvirt.lifecycle("u1", Lifecycle.STOPPED, 3)
        await until(kube, lambda h: [i.active for i in h.status.instances] == [False])
        agent.libvirt.forget("u1")

        await until(kube, lambda h: h.status.numInstances == 0)


async def test_agent_takes_over_fields_that_another_agent_wrote(server: Server, kube: Kube) -> None:
    await create(kube)
    stale = {"instances": [{"id": "u9", "name": "gone", "active": True}], "numInstances": 1}
    await kube.as_manager("kvm-node-agent").merge_patch(
        Hypervisor, NODE, {"status": stale}, subresource="status"
    )
    async with running(server, FakeLibvirt()):
        await until(kube, lambda h: h.status.numInstances == 0 and not h.status.instances)


async def test_fields_of_other_managers_stay(server: Server, kube: Kube) -> None:
    await create(kube)
    theirs = {
        "numInstances": 0,
        "hypervisorId": "id-1",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Ready",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    await kube.merge_patch(Hypervisor, NODE, {"status": theirs}, subresource="status")
    async with running(server, FakeLibvirt()):
        stored = await until(kube, lambda h: connection(h) == ("True", "Connected"))

    assert stored.status.hypervisorId == "id-1"
    assert get_condition(stored.conditions, "Ready") is not None


async def test_an_idle_agent_writes_nothing(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        before = await until(kube, lambda h: names(h) == ["vm1"])
        await agent.wrote(lambda status: bool(status.instances))
        written = len(agent.writes)
        # Reported again, and read again: events without a change.
        agent.libvirt.lifecycle("u1", Lifecycle.DEFINED)
        agent.board.put_condition("LibVirtConnection", TRUE, "Connected")
        calls = agent.libvirt.calls.total()
        await eventually(lambda: agent.libvirt.calls.total() > calls, seconds=DEADLINE)
        await kube.merge_patch(Hypervisor, NODE, {"metadata": {"labels": {"a": "b"}}})
        after = await until(kube, lambda h: h.metadata.labels == {"a": "b"})

        assert len(agent.writes) == written
        assert after.status == before.status


async def test_our_field_changed_by_another_is_put_right(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        await until(kube, lambda h: names(h) == ["vm1"])
        await kube.merge_patch(
            Hypervisor, NODE, {"status": {"numInstances": 99}}, subresource="status"
        )

        await until(kube, lambda h: h.status.numInstances == 1)


async def test_agent_takes_back_its_connection_that_the_operator_held_for_unknown(
    server: Server, kube: Kube
) -> None:
    """The network was cut: agent and libvirt never stopped."""
    await create(kube)
    operator = kube.as_manager("agent-reporting")
    silent = LeaseVerdict("False", AgentReportingReason.AGENT_SILENT, "no renewal", silent=True)
    async with running(server, FakeLibvirt()):
        up = await until(kube, lambda h: connection(h) == ("True", "Connected"))
        for now in (NOW, NOW + timedelta(minutes=1)):
            taken = unknown(get_condition(up.conditions, "LibVirtConnection"), silent, now)
            assert taken is not None
            conditions = tuple(taken if c.type == taken.type else c for c in up.conditions)
            status = msgspec.structs.replace(up.status, conditions=conditions)
            down = await operator.patch_status(up, status)
            assert connection(down) == ("Unknown", "AgentSilent")

            up = await until(kube, lambda h: connection(h) == ("True", "Connected"))
            managers = {entry.manager for entry in up.metadata.managedFields}
            assert "agent-reporting" not in managers


async def test_a_changed_overcommit_changes_the_effective_capacity(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()):
        await until(kube, lambda h: str(h.status.effectiveCapacity.get("cpu")) == "4")
        await kube.merge_patch(Hypervisor, NODE, {"spec": {"overcommit": {"cpu": 4.0}}})

        stored = await until(kube, lambda h: str(h.status.effectiveCapacity.get("cpu")) == "16")

    condition = get_condition(stored.conditions, "LibVirtConnection")
    assert condition is not None
    assert condition.observedGeneration == stored.metadata.generation


async def test_agent_waits_for_a_hypervisor_that_is_missing_or_recreated(
    server: Server, kube: Kube
) -> None:
    libvirt = FakeLibvirt()
    boot(libvirt, "u1", "vm1")
    async with running(server, libvirt):
        await asyncio.sleep(0)
        await create(kube)
        first = await until(kube, lambda h: names(h) == ["vm1"])
        await kube.delete(Hypervisor, NODE)
        await create(kube)

        again = await until(
            kube, lambda h: h.metadata.uid != first.metadata.uid and names(h) == ["vm1"]
        )

    assert again.status.numInstances == 1


async def test_libvirt_away_and_back_is_reported_within_a_second(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        await until(kube, lambda h: names(h) == ["vm1"])

        agent.libvirt.disconnect("connection reset")
        away = await until(kube, lambda h: connection(h) == ("False", "ConnectFailed"), deadline=1)
        agent.board.put_condition("libvirtd.service", FALSE, "Stopped", "libvirtd.service: dead")
        stopped = await until(
            kube, lambda h: connection(h) == ("False", "LibVirtServiceNotRunning"), deadline=1
        )
        agent.libvirt.forget("u1")  # it stopped without an event
        agent.libvirt.connect()
        back = await until(kube, lambda h: connection(h) == ("True", "Connected"), deadline=1)
        await until(kube, lambda h: names(h) == [], deadline=1)

    assert names(away) == names(stopped) == ["vm1"]
    assert names(back) in (["vm1"], [])
    shown = get_condition(away.conditions, "LibVirtConnection")
    assert shown is not None
    assert "connection reset" in shown.message


async def test_an_upgrade_of_libvirt_is_in_the_status_once_it_is_back(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1")
        before = await until(kube, lambda h: names(h) == ["vm1"])

        agent.libvirt.disconnect()
        away = await until(kube, lambda h: connection(h)[0] == FALSE)
        agent.libvirt.versions = Versions(libvirt="11.3.0", hypervisor="10.0.2")
        agent.libvirt.missing = ("device-changed events",)
        agent.libvirt.offers = with_fields(agent.libvirt.offers, features=("sev", "vmcoreinfo"))
        agent.libvirt.connect()
        after = await until(kube, lambda h: offered(h) == ("sev", "vmcoreinfo"), deadline=1)

    assert versions(before) == versions(away) == ("9.0.0", "7.2.22")
    assert versions(after) == ("11.3.0", "10.0.2")
    shown = get_condition(after.conditions, "LibVirtConnection")
    assert shown is not None
    assert shown.message == "this driver does not offer: device-changed events"
    assert names(after) == ["vm1"]


def versions(hypervisor: Hypervisor) -> tuple[str | None, str | None]:
    return hypervisor.status.libVirtVersion, hypervisor.status.hypervisorVersion


def offered(hypervisor: Hypervisor) -> tuple[str, ...]:
    offers = hypervisor.status.domainCapabilities
    return offers.supportedFeatures if offers else ()


async def test_a_loss_of_libvirt_and_its_return_are_logged_once_each(
    server: Server, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hypercobalt.node_agent.libvirt.state")
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: connection(h)[0] == TRUE)
        for reason in ("end of file", "connection refused", "connection refused by the other one"):
            agent.libvirt.disconnect(reason)
        await until(kube, lambda h: connection(h)[0] == FALSE)
        agent.libvirt.connect()
        await until(kube, lambda h: connection(h)[0] == TRUE)

    lines = [(record.levelname, record.getMessage().split()[0]) for record in caplog.records]
    up, down = ("INFO", "libvirt_connected"), ("WARNING", "libvirt_disconnected")
    assert lines == [up, down, up]


async def test_a_restart_while_libvirt_is_down_keeps_the_inventory(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        boot(agent.libvirt, "u1", "vm1", memory_bytes=GIB)
        agent.board.put_condition("libvirtd.service", TRUE, "Running")
        before = await until(
            kube,
            lambda h: names(h) == ["vm1"] and bool(get_condition(h.conditions, UNIT)),
        )
    away = FakeLibvirt()
    away.disconnect()
    async with running(server, away) as agent:
        after = await until(kube, lambda h: connection(h) == ("False", "ConnectFailed"))
        await agent.wrote(lambda status: bool(status.conditions))
        await kube.merge_patch(Hypervisor, NODE, {"metadata": {"labels": {"a": "b"}}})
        after = await until(kube, lambda h: h.metadata.labels == {"a": "b"})

        assert len(agent.writes) == 1
    assert with_no_conditions(after) == with_no_conditions(before)
    assert get_condition(after.conditions, UNIT) == get_condition(before.conditions, UNIT)


UNIT = "libvirtd.service"


def with_no_conditions(hypervisor: Hypervisor) -> HypervisorStatus:
    return msgspec.structs.replace(hypervisor.status, conditions=())


async def test_a_list_that_fails_is_tried_again_and_reported(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: connection(h) == ("True", "Connected"))
        agent.libvirt.failures["domains"] = LibvirtError("cannot acquire state change lock")
        boot(agent.libvirt, "u1", "vm1")
        shown = await until(kube, lambda h: connection(h) == ("False", "ProcessFailed"))
        del agent.libvirt.failures["domains"]

        await until(kube, lambda h: connection(h) == ("True", "Connected") and bool(names(h)))

    condition = get_condition(shown.conditions, "LibVirtConnection")
    assert condition is not None
    assert "state change lock" in condition.message


async def test_odd_domains_and_missing_events_are_reported_in_the_message(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    libvirt = FakeLibvirt()
    async with running(server, libvirt):
        hostile = b'vm\xff\x00"<\n'.decode("utf-8", "surrogateescape")
        boot(libvirt, "u1", hostile)
        (odd,) = await libvirt.domains()
        libvirt.put(with_fields(odd, problem="memory: unit 'XB'"))
        libvirt.missing = ("migration iterations",)
        libvirt.connect()

        stored = await until(kube, lambda h: h.status.numInstances == 1)
        stored = await until(
            kube,
            lambda h: (
                "XB" in (getattr(get_condition(h.conditions, "LibVirtConnection"), "message", ""))
            ),
        )

    condition = get_condition(stored.conditions, "LibVirtConnection")
    assert condition is not None
    assert condition.status == "True"
    assert "migration iterations" in condition.message
    assert stored.status.instances[0].name == 'vm?\x00"<\n'


async def test_200_domains_that_start_at_once_cost_few_reads_and_writes(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: connection(h) == ("True", "Connected"))
        for number in range(200):
            boot(agent.libvirt, f"u{number}", f"vm{number:03}", memory_bytes=GIB, vcpus=2)

        stored = await until(kube, lambda h: h.status.numInstances == 200)

        assert str(stored.status.allocation["memory"]) == "200Gi"
        assert agent.libvirt.calls["domains"] < 10
        assert len(agent.writes) < 10


async def test_a_refused_condition_stops_no_other(server: Server, kube: Kube) -> None:
    await create(kube)
    async with running(server, FakeLibvirt()) as agent:
        agent.board.put_condition("libvirtd.service", TRUE, "no reason at all")
        agent.board.put_condition("bad type!", TRUE, "Running")

        await until(kube, lambda h: connection(h) == ("True", "Connected"))


async def test_two_agents_of_one_host_agree(server: Server, kube: Kube) -> None:
    await create(kube)
    async with (
        running(server, FakeLibvirt()) as one,
        running(server, FakeLibvirt()) as other,
    ):
        for agent in (one, other):
            boot(agent.libvirt, "u1", "vm1")
        stored = await until(kube, lambda h: names(h) == ["vm1"])
        for agent in (one, other):
            await agent.wrote(lambda status: bool(status.instances))
        seen = len(one.writes) + len(other.writes)
        await kube.merge_patch(Hypervisor, NODE, {"metadata": {"labels": {"a": "b"}}})
        after = await until(kube, lambda h: h.metadata.labels == {"a": "b"})

    assert names(after) == names(stored)
    assert len(one.writes) + len(other.writes) <= seen + 2


async def test_after_an_outage_of_the_api_the_newest_state_is_written_once(
    tmp_path: Path, certificates: Path
) -> None:
    options = fresh(tmp_path, certificates)
    limits = Limits(attempt=timedelta(seconds=1), deadline=timedelta(seconds=5))
    async with serve(options) as server:
        options = with_fields(options, port=int(server.url.rsplit(":", 1)[1]))
        async with Kube(load_connection(server.kubeconfig)) as kube:
            await kube.create(Hypervisor(metadata=ObjectMeta(name=NODE)))
        agent_of = running(server, FakeLibvirt(), limits=limits)
        agent = await agent_of.__aenter__()
        await agent.wrote(lambda status: status.numInstances is not None)
    try:
        before = len(agent.writes)
        for number in range(30):  # three seconds without an API
            boot(agent.libvirt, f"u{number}", f"vm{number}")
            await asyncio.sleep(0.1)
        async with serve(options) as server, Kube(load_connection(server.kubeconfig)) as kube:
            stored = await until(kube, lambda h: bool(h.status.numInstances))
            assert stored.status.numInstances == 30
            agent.libvirt.stop("u0")
            await until(kube, lambda h: h.status.numInstances == 29)
            assert len(agent.writes) in (
                before + 1,
                before + 2,
            )  # the last answer may be on its way
    finally:
        await agent_of.__aexit__(None, None, None)


async def test_refused_status_is_written_once_the_definition_is_mended(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    libvirt = FakeLibvirt()
    boot(libvirt, "u1", "vm1")
    async with refusing_instances(kube) as repair, running(server, libvirt) as agent:
        await eventually(lambda: agent.applier.refusal is not None, seconds=DEADLINE)
        refusal = agent.applier.refusal or ""
        await repair()

        await until(kube, lambda h: names(h) == ["vm1"])
        await agent.wrote(lambda status: bool(status.instances))
        assert agent.applier.refusal is None

    assert "Hypervisor kvm-a" in refusal
    assert "no instances for now" in refusal


async def test_newer_status_does_not_wait_for_the_retry_of_a_refused_one(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    libvirt, hour = FakeLibvirt(), timedelta(hours=1)
    boot(libvirt, "u1", "vm1")
    slow = Backoff(base=hour, cap=hour, jitter=lambda seconds: seconds)
    async with refusing_instances(kube), running(server, libvirt, refused=slow) as agent:
        await eventually(lambda: agent.applier.refusal is not None, seconds=DEADLINE)
        libvirt.stop("u1")

        await until(kube, lambda h: connection(h) == ("True", "Connected"), deadline=3)
        await eventually(lambda: agent.applier.refusal is None, seconds=DEADLINE)


@pytest.mark.parametrize("code", [403, 422], ids=["by a policy", "by the schema"])
async def test_refusal_is_over_with_the_first_status_that_is_taken(code: int) -> None:
    server, libvirt = ScriptedServer(), FakeLibvirt()
    await server.start()
    server.put("hypervisors", {"metadata": {"name": NODE}})
    server.fail(code, times=2, verbs=("patch",), on="/status")
    quick = Backoff(base=timedelta(milliseconds=50), cap=timedelta(milliseconds=50))
    seen: list[str | None] = []
    try:
        async with running(Connection(server.url), libvirt, refused=quick) as agent:
            await eventually(lambda: bool(agent.applier.refusal), seconds=DEADLINE)
            seen.append(agent.applier.refusal)
            await eventually(lambda: bool(agent.writes), seconds=DEADLINE)
            seen.append(agent.applier.refusal)
    finally:
        await server.stop()

    assert str(code) in (seen[0] or "")
    assert seen[1] is None
