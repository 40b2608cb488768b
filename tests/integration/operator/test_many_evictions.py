"""A captured host's agent makes any number of Evictions of its own host: others' go on."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.eviction_world import (
    World,
    add_eviction_of,
    add_hypervisor,
    evicting,
    fence,
    state,
    until_ended,
    until_it,
    world,
)
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.coordination import Event
from hypercobalt.api.eviction import Eviction, EvictionSpec, Trigger
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import ORIGIN, SERVER, Migration, MigrationSpec, MigrationStatus
from hypercobalt.compute.fake.registry import FakeHosts
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.model.claims import MOST_NOTED
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.turns import AT_ONCE
from hypercobalt.runtime import Kube, SystemClock

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

MANY = 20
QUICK = Policy(unsure=timedelta(seconds=1), settle=timedelta(milliseconds=100))


async def crashes(kube: Kube, host: str, count: int) -> list[str]:
    """What the agents' policy lets an agent make; returns their names."""
    made: list[str] = []
    for number in range(count):
        spec = EvictionSpec(
            hypervisor=host,
            reason="crashed",
            trigger=Trigger.INSTANCE_CRASH,
            mode="restart",
            instances=(str(uuid.uuid4()),),
        )
        name = f"ha-{uuid.uuid4().hex[:8]}-{number:010x}"
        await kube.create(Eviction(metadata=ObjectMeta(name=name), spec=spec))
        made.append(name)
    return made


class Silent(FakeHosts):
    """Hosts of which one answers no call, as its own libvirtd can, until the test is over."""

    def __init__(self, compute: World, silent: str) -> None:
        super().__init__(compute.world, compute.moves)
        self._of, self._silent = compute.hosts, silent
        self.over, self.waiting, self.most = asyncio.Event(), 0, 0

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        if name == self._silent:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await self.over.wait()
            self.waiting -= 1
        return await self._of.get(name, fresh=fresh)


async def test_evictions_of_a_host_that_answers_no_call_stop_no_others(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    captured, compute = f"{name}-a", world(name)
    compute.also(captured)
    compute.fill(3)
    hosts = compute.hosts = Silent(compute, captured)
    for host in (name, captured):
        await add_hypervisor(kube, host)
    crashed = await crashes(kube, captured, MANY)
    async with evicting(kubeconfig, compute, QUICK):
        await eventually(lambda: hosts.waiting >= 4)
        await add_eviction_of(kube, name)
        try:
            done = await until_ended(kube, name)
            assert state(done) == "False/Succeeded"
            assert not compute.moves.on(name)
            assert hosts.most == AT_ONCE
        finally:
            hosts.over.set()
        for one in crashed:  # each of them has its turn
            await until_ended(kube, one)


async def test_claims_on_many_instances_leave_room_for_other_events_of_their_host(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """An object has 25 Events at once: a host that claims all instances would take them all."""
    captured, compute = f"{name}-a", world(name)
    compute.also(captured)
    servers = compute.fill(3 * MOST_NOTED)
    for server in servers:
        script = Script(seconds=0.1, failures=1, why=f"its disk is that of {server.name}, too")
        compute.moves.script(server.id, replace(script, claimed_by=captured))
    for host in (name, captured):
        await add_hypervisor(kube, host)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        assert state(await until_ended(kube, name)) == "False/Succeeded"
    events = (await kube.list(Event, "default")).items
    for host in (name, captured):
        noted = [
            one.note
            for one in events
            if one.reason == "InstanceClaimed" and one.regarding and one.regarding.name == host
        ]
        assert len(noted) == MOST_NOTED, noted
        assert "further instances" in "".join(noted)


async def migrates(kube: Kube, host: str, uuid: str) -> None:
    """Report a live migration that goes on, as the agent of its host may at any time."""
    meta = ObjectMeta(
        name=f"{uuid}-20260101-000000",
        namespace="default",
        labels={SERVER: uuid, ORIGIN: host},
    )
    made = await kube.create(Migration(metadata=meta, spec=MigrationSpec()))
    now = SystemClock().now()
    await kube.patch_status(
        made, MigrationStatus(origin=host, started=now, type="unbounded", memRemaining="9.0 GiB")
    )


@pytest.mark.parametrize("dead", [False, True], ids=["emptied", "recovered"])
async def test_moves_that_a_host_alone_reports_hold_no_other_host_up(
    kube: Kube, kubeconfig: Path, name: str, dead: bool
) -> None:
    captured, compute = f"{name}-a", world(name)
    compute.also(captured)
    compute.fill(3)
    servers = compute.fill(12, on=captured)
    for server in servers:
        compute.moves.script(server.id, Script(seconds=3600))
    compute.moves.disabled.add(captured)
    for host in (name, captured):
        await add_hypervisor(kube, host)
    if dead:
        compute.moves.dead.add(name)
        await fence(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, per_cluster=len(servers))):
        await add_eviction_of(kube, captured)
        await until_it(kube, captured, lambda e: "Migrating" in phases(e))
        for server in servers:
            await migrates(kube, captured, server.id)
        await until_it(kube, captured, lambda e: set(phases(e)) == {"Migrating"})
        await add_eviction_of(kube, name)
        assert state(await until_ended(kube, name)) == "False/Succeeded"
        assert not compute.moves.on(name)


def phases(eviction: Eviction) -> list[str | None]:
    return [entry.phase for entry in eviction.status.instances]
