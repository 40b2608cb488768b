"""From a crash in libvirt to an incident in the status and an Eviction, and through outages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from dataclasses import replace as with_fields
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from tests.following import background
from tests.integration.apiserver.conftest import fresh
from tests.integration.node_agent.conftest import DEADLINE, NODE, UNITS, create, until
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.libvirt.events import EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import (
    IoErrorAction,
    Lifecycle,
    ShutoffReason,
    Stopped,
)
from hypercobalt.agent.applier import Applier
from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.eviction import Eviction, EvictionMode, Trigger
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance
from hypercobalt.api.hypervisor_conditions import NODE_AGENT_TYPES, HypervisorConditionType
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import LABEL, Incident, IncidentType, Reaction
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import ORIGIN, SERVER, Migration, MigrationSpec
from hypercobalt.apiserver.server import Server, serve
from hypercobalt.ha.incidents.config import KEY
from hypercobalt.node_agent.agent import report
from hypercobalt.node_agent.fencing.guests import Ended
from hypercobalt.node_agent.incidents.assembly import Incidents
from hypercobalt.node_agent.incidents.journal import NAME
from hypercobalt.node_agent.libvirt.state import LibvirtState
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Informer, Kube, Metrics, Recorder, SystemClock, load_connection
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

pytestmark = pytest.mark.asyncio(loop_scope="module")

_GIVEN_BACK = timedelta(seconds=10)
"""Between two looks at whether the HA service has given the host back."""
U1 = "11111111-0000-4000-8000-000000000001"


@dataclass
class Watching:
    """An HA agent, running."""

    libvirt: FakeLibvirt
    board: Board
    metrics: Metrics
    writes: list[HypervisorStatus]
    ended: Ended

    async def judged(self, count: int, kind: str = "StoppedFailed") -> None:
        """Wait until so many events of a kind were judged."""

        def number() -> float:
            return sum(
                sample.value
                for metric in self.metrics.registry.collect()
                for sample in metric.samples
                if sample.name == "ha_events_total" and sample.labels["detail"] == kind
            )

        await eventually(lambda: number() >= count, seconds=DEADLINE * 3)

    async def until_running(self, uuid: str) -> None:
        """Wait until the agent has seen an instance run."""
        await eventually(
            lambda: (
                self.board.parts.inventory is not None
                and any(one.uuid == uuid for one in self.board.parts.inventory.domains)
            ),
            seconds=DEADLINE,
        )


@contextlib.asynccontextmanager
async def watching(
    server: Server, libvirt: FakeLibvirt, state_dir: Path | None = None, *, boot: str = "boot-1"
) -> AsyncIterator[Watching]:
    metrics, clock, ended = Metrics(), SystemClock(), Ended()
    settings = NodeAgentSettings(
        node=NODE, label=NODE, namespace="default", state_dir=state_dir, ha_config="default/ha"
    )
    with left_to_the_collector():
        async with Kube(load_connection(server.kubeconfig), metrics=metrics) as kube:
            board = Board(clock)
            own = Informer(
                kube, Selection(Hypervisor, None, "", f"metadata.name={NODE}"), metrics=metrics
            )
            config = Informer(
                kube, Selection(ConfigMap, "default", "", "metadata.name=ha"), metrics=metrics
            )
            incidents = Incidents(
                kube,
                libvirt,
                board,
                settings,
                Latest(own),
                clock=clock,
                boot=boot,
                ended=ended.take,
                config=Latest(config),
                recorder=Recorder(kube, "test/agent", "test", clock=clock, metrics=metrics),
                registry=metrics.registry,
            )
            writes: list[HypervisorStatus] = []
            how = report(NODE, NODE_AGENT_TYPES)
            applier = Applier(kube, how, board, own, on_written=writes.append)
            state = LibvirtState(libvirt, board, units=UNITS, listeners=(incidents.on_event,))
            async with background(
                own.run, config.run, applier.run, state.run, incidents.observe, incidents.recover
            ):
                yield Watching(libvirt, board, metrics, writes, ended)


def incidents_of(hypervisor: Hypervisor) -> list[Incident]:
    return list(hypervisor.status.incidents)


async def evictions(kube: Kube) -> list[Eviction]:
    return (await kube.list(Eviction)).items


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(kube: Kube) -> AsyncIterator[None]:
    yield
    for eviction in await evictions(kube):
        await kube.delete(Eviction, eviction.metadata.name)
    await kube.delete(ConfigMap, "ha", "default")


async def test_a_crash_makes_an_incident_and_its_eviction(server: Server, kube: Kube) -> None:
    await create(kube)
    async with watching(server, FakeLibvirt()) as agent:
        boot_persistent(agent.libvirt, U1, "vm1")
        await agent.until_running(U1)
        agent.libvirt.stop(U1, Stopped.FAILED)

        stored = await until(kube, lambda h: any(one.eviction for one in incidents_of(h)))

    (incident,) = incidents_of(stored)
    assert (incident.type, incident.instance) == (IncidentType.CRASH, U1)
    assert incident.reaction == Reaction.RESTART
    eviction = await kube.get(Eviction, incident.eviction or "")
    assert eviction is not None
    assert eviction.metadata.labels[LABEL] == incident.id
    assert eviction.spec.instances == (U1,)
    assert (eviction.spec.mode, eviction.spec.trigger) == (
        EvictionMode.AUTO,
        Trigger.INSTANCE_CRASH,
    )
    assert eviction.spec.hypervisor == NODE


def boot_persistent(libvirt: FakeLibvirt, uuid: str, name: str) -> None:
    libvirt.add(Domain(uuid, name, False, DomainState.SHUTOFF, 1024**3, 1))
    libvirt.start(uuid)


async def crash(agent: Watching, uuid: str = U1) -> None:
    boot_persistent(agent.libvirt, uuid, "vm1")
    await agent.until_running(uuid)
    agent.libvirt.stop(uuid, Stopped.FAILED)


async def held_back(kube: Kube) -> Incident:
    """The incident of a crash, once nothing is done about it for now."""

    def is_held(hypervisor: Hypervisor) -> bool:
        return [one.reaction for one in incidents_of(hypervisor)] == [Reaction.WAIT]

    stored = await until(kube, is_held)
    (incident,) = incidents_of(stored)
    return incident


async def test_an_instance_that_the_agent_has_ended_is_recovered_once_its_host_is_given_back(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    order = {"bootID": "boot-1", "fencing": {"phase": "Fenced", "bootID": "boot-1"}}
    await kube.merge_patch(Hypervisor, NODE, {"status": order}, subresource="status")
    async with watching(server, FakeLibvirt()) as agent:
        boot_persistent(agent.libvirt, U1, "vm1")
        await agent.judged(1, "Started")
        agent.ended.note(U1)
        agent.libvirt.stop(U1, Stopped.DESTROYED)
        await agent.judged(1, "EndedByAgent")
        assert not await evictions(kube)
        over = {"fencing": {"phase": "Released"}}
        await kube.merge_patch(Hypervisor, NODE, {"status": over}, subresource="status")

        made = DEADLINE + _GIVEN_BACK.total_seconds()
        stored = await until(
            kube, lambda h: any(one.eviction for one in incidents_of(h)), deadline=made
        )

    (incident,) = incidents_of(stored)
    assert (incident.type, incident.instance) == (IncidentType.ENDED_BY_BOOT, U1)


async def test_an_instance_that_runs_again_has_no_incident(server: Server, kube: Kube) -> None:
    await create(kube)
    async with watching(server, FakeLibvirt()) as agent:
        await crash(agent)
        await until(kube, lambda h: any(one.eviction for one in incidents_of(h)))
        agent.libvirt.start(U1)

        await until(kube, lambda h: not incidents_of(h))


async def test_nothing_is_done_in_maintenance(server: Server, kube: Kube) -> None:
    spec = HypervisorSpec(maintenance=Maintenance.MANUAL, maintenanceReason="disks")
    await create(kube, spec=spec)
    async with watching(server, FakeLibvirt()) as agent:
        await crash(agent)
        incident = await held_back(kube)

    assert incident.evidence[-1].startswith("held back: maintenance: manual; recovered once")
    assert await evictions(kube) == []


async def test_a_dry_run_makes_no_eviction(server: Server, kube: Kube) -> None:
    await create(kube)
    await configure(kube, "dryRun: true")
    async with watching(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: is_configured(h, "dry run"))
        await crash(agent)
        incident = await held_back(kube)

    assert "Eviction of mode auto would be created" in incident.evidence[-1]
    assert await evictions(kube) == []


async def test_an_invalid_configuration_leaves_the_last_one(server: Server, kube: Kube) -> None:
    await create(kube)
    await configure(kube, "dryRun: true")
    async with watching(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: is_configured(h, "dry run"))
        await configure(kube, "dryRun: no!")
        stored = await until(kube, lambda h: is_configured(h, "Expected `bool`"))
        await crash(agent)
        await held_back(kube)
        await configure(kube, "dryRun: false")
        await until(kube, lambda h: is_configured(h, "is active") and not is_configured(h, "dry"))

    condition = get_condition(stored.conditions, HypervisorConditionType.HA_CONFIG_VALID)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Invalid")
    assert await evictions(kube) == []


async def test_an_event_type_that_is_not_reported_is_recovered_without_an_incident(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    await configure(kube, "events: {lifecycle: {reported: false}}")
    async with watching(server, FakeLibvirt()) as agent:
        await until(kube, lambda h: is_configured(h, "is active"))
        await crash(agent)
        async with asyncio.timeout(DEADLINE * 3):
            while not await evictions(kube):  # noqa: ASYNC110 - it is another program's
                await asyncio.sleep(0.05)
        stored = await until(kube, lambda _: True)

    assert incidents_of(stored) == []


async def test_a_crash_while_the_agent_was_away_is_found(
    server: Server, kube: Kube, tmp_path: Path
) -> None:
    await create(kube)
    libvirt = FakeLibvirt()
    async with watching(server, libvirt, tmp_path) as agent:
        boot_persistent(libvirt, U1, "vm1")
        await agent.until_running(U1)
        await eventually(lambda: is_remembered(tmp_path, U1), seconds=DEADLINE)
    libvirt.put(
        with_fields(
            libvirt.here[U1],
            active=False,
            id=-1,
            state=DomainState.SHUTOFF,
            reason=ShutoffReason.CRASHED,
        )
    )
    async with watching(server, libvirt, tmp_path):
        stored = await until(kube, lambda h: any(one.eviction for one in incidents_of(h)))

    (incident,) = incidents_of(stored)
    assert any("missed" in text for text in incident.evidence)


async def test_open_incidents_survive_the_agent(server: Server, kube: Kube, tmp_path: Path) -> None:
    await create(kube)
    libvirt = FakeLibvirt()
    async with watching(server, libvirt, tmp_path) as agent:
        await crash(agent)
        stored = await until(kube, lambda h: any(one.eviction for one in incidents_of(h)))
        await eventually(lambda: is_remembered(tmp_path, "ha-"), seconds=DEADLINE)
    before = incidents_of(stored)
    async with watching(server, libvirt, tmp_path) as agent:
        await agent.until_running(U1)
        await eventually(lambda: bool(agent.board.parts.incidents), seconds=DEADLINE)
        after = await kube.get(Hypervisor, NODE)

    assert after is not None
    assert [one.id for one in incidents_of(after)] == [one.id for one in before]
    assert len(await evictions(kube)) == 1


def migration(origin: str) -> Migration:
    labels = {SERVER: U1, ORIGIN: origin}
    meta = ObjectMeta(name=U1, namespace="default", labels=labels)
    return Migration(metadata=meta, spec=MigrationSpec())


async def test_a_recovery_waits_for_no_migration_of_another_host(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    foreign = await kube.create(migration("kvm-captured"))
    async with watching(server, FakeLibvirt()) as agent:
        await crash(agent)
        await eventually(lambda: has_evictions(kube), seconds=DEADLINE)
    await kube.delete(Migration, foreign.metadata.name, "default")


async def test_a_recovery_waits_for_a_migration(server: Server, kube: Kube) -> None:
    await create(kube)
    moving = await kube.create(migration(NODE))
    async with watching(server, FakeLibvirt()) as agent:
        await crash(agent)
        await until(
            kube,
            lambda h: any(
                one.evidence[-1] == f"recovery waits for Migration {U1}" for one in incidents_of(h)
            ),
        )
        assert await evictions(kube) == []
        await kube.delete(Migration, moving.metadata.name, "default")
        await eventually(lambda: has_evictions(kube), seconds=DEADLINE)


async def test_repeated_events_of_a_crash_make_one_eviction(server: Server, kube: Kube) -> None:
    await create(kube)
    async with watching(server, FakeLibvirt()) as agent:
        await crash(agent)
        stored = await until(kube, lambda h: any(one.eviction for one in incidents_of(h)))
        (eviction,) = await evictions(kube)
        agent.libvirt.emit_of(
            U1, EventKind.LIFECYCLE, type_=Lifecycle.STOPPED, detail=Stopped.FAILED
        )
        await agent.judged(2)

    assert [one.metadata.uid for one in await evictions(kube)] == [eviction.metadata.uid]
    assert len(incidents_of(stored)) == 1


async def test_a_storm_of_errors_is_one_incident_and_few_writes(server: Server, kube: Kube) -> None:
    await create(kube)
    async with watching(server, FakeLibvirt()) as agent:
        boot_persistent(agent.libvirt, U1, "vm1")
        await agent.until_running(U1)
        before = len(agent.writes)
        for _ in range(100):
            for _ in range(100):
                agent.libvirt.emit_of(
                    U1, EventKind.IO_ERROR, detail=IoErrorAction.REPORT, path="/disks/a.raw"
                )
            await asyncio.sleep(0)
        await agent.judged(10_000, "IOError")
        stored = await until(kube, lambda h: bool(incidents_of(h)))

    assert [one.type for one in incidents_of(stored)] == [IncidentType.IO_ERROR]
    assert len(agent.writes) - before <= 3
    assert await evictions(kube) == []


async def test_crashes_while_the_api_is_away_are_recovered_once_it_is_back(
    tmp_path: Path, certificates: Path
) -> None:
    options = fresh(tmp_path, certificates)
    uuids = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(20)]
    libvirt = FakeLibvirt()
    async with serve(options) as server:
        options = with_fields(options, port=int(server.url.rsplit(":", 1)[1]))
        async with Kube(load_connection(server.kubeconfig)) as person:
            await create(person)
        agent_of = watching(server, libvirt, tmp_path / "state")
        agent = await agent_of.__aenter__()
        for uuid in uuids:
            boot_persistent(libvirt, uuid, uuid[:8])
        await agent.until_running(uuids[-1])
    try:
        for uuid in uuids[:2]:
            libvirt.stop(uuid, Stopped.FAILED)
        await agent.judged(2)
        async with serve(options) as server, Kube(load_connection(server.kubeconfig)) as person:
            await eventually(lambda: has_evictions(person, 2), seconds=DEADLINE * 3)
            made = await evictions(person)
    finally:
        await agent_of.__aexit__(None, None, None)
    assert {one.spec.instances for one in made} == {(uuids[0],), (uuids[1],)}


async def has_evictions(kube: Kube, count: int = 1) -> bool:
    return len(await evictions(kube)) == count


async def configure(kube: Kube, text: str) -> None:
    await kube.apply(
        ConfigMap(metadata=ObjectMeta(name="ha", namespace="default"), data={KEY: text}), force=True
    )


def is_configured(hypervisor: Hypervisor, text: str) -> bool:
    found = get_condition(hypervisor.conditions, HypervisorConditionType.HA_CONFIG_VALID)
    return found is not None and text in found.message


def is_remembered(folder: Path, text: str) -> bool:
    file = folder / NAME
    return file.exists() and text in file.read_text()
