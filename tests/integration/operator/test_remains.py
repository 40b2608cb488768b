"""The recovery of a dead host accounts for each instance, whatever other hosts have of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contracts.direct import A, B
from tests.integration.operator.eviction_world import (
    add_eviction_of,
    add_hypervisor,
    evicting,
    fence,
    state,
    until_ended,
)
from tests.unit.compute.memory import C, Memory, identity

from hypercobalt.adapters.libvirt.model import DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api.coordination import Event
from hypercobalt.api.eviction import Eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUICK = Policy(
    retry_after=timedelta(milliseconds=50),
    settle=timedelta(milliseconds=100),
    evacuation_attempts=3,
    unsure=timedelta(seconds=1),
)


def phases(eviction: Eviction) -> dict[str, str | None]:
    return {entry.id: entry.phase for entry in eviction.status.instances}


def running(world: Memory, name: str) -> list[str]:
    found = {host: world.host(host).here.get(identity(name)) for host in world.places}
    return [host for host, one in found.items() if one is not None and one.active]


async def dies(kube: Kube, world: Memory, host: str) -> None:
    world.store(host)
    world.cut(host)
    await add_hypervisor(kube, host, disabled=False, service=world.places[host].id)
    await fence(kube, host)
    world.fence(host)


async def test_instance_that_another_host_runs_waits_by_name_and_the_others_are_evacuated(
    kube: Kube, kubeconfig: Path
) -> None:
    world = Memory()
    for name in ("a", "b"):
        await world.add(name, disk="shared")
    world.host(C).put(replace(world.host(A).here[identity("a")], id=-1))  # by a captured libvirtd
    await dies(kube, world, A)
    async with world.service() as compute, evicting(kubeconfig, compute, QUICK) as operator:
        await add_eviction_of(kube, A, mode="evacuate")
        seen = await until_ended(kube, A)
        counted = operator.metrics.registry.get_sample_value("hypercobalt_instance_claims_total")
        events = (await kube.list(Event, "default")).items
    assert phases(seen) == {identity("a"): "Failed", identity("b"): "Succeeded"}
    assert state(seen) == "False/Failed"
    (claimed,) = [one for one in seen.status.instances if one.id == identity("a")]
    assert f"runs on host {C}" in (claimed.message or "")
    assert (running(world, "a"), running(world, "b")) == ([C], [B])
    named = [one for one in events if one.reason == "InstanceClaimed" and identity("a") in one.note]
    assert {one.regarding.name for one in named if one.regarding} >= {A}
    assert len({one.note for one in named}) == 1, "one claim, whatever targets were tried"
    assert counted == 1


async def test_neighbour_of_a_host_that_was_fenced_by_mistake_is_emptied_to_the_last_instance(
    kube: Kube, kubeconfig: Path
) -> None:
    world = Memory()
    names = ("a", "b", "c")
    for name in names:
        await world.add(name, disk="shared")
    halted = replace(
        world.host(A).here[identity("c")], state=DomainState.PAUSED, reason=int(PausedReason.USER)
    )
    world.host(A).put(halted)
    world.places[C] = replace(world.places[C], closed="it is to take them afterwards")
    await dies(kube, world, A)
    async with world.service() as compute, evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, A, mode="evacuate")
        first = await until_ended(kube, A)
        assert state(first) == "False/Succeeded"
        world.boot(A)  # it answers again, and has not booted: its agent has ended what ran there
        here = world.host(A).here
        for uuid, one in here.items():
            here[uuid] = replace(one, reason=int(ShutoffReason.DESTROYED))
        world.places[C] = replace(world.places[C], closed="")
        await dies(kube, world, B)
        await add_eviction_of(kube, B, mode="evacuate")
        second = await until_ended(kube, B)
    assert state(second) == "False/Succeeded"
    assert phases(second) == dict.fromkeys(map(identity, names), "Succeeded")
    assert [running(world, name) for name in names] == [[C], [C], []]
    assert identity("c") in world.host(C).here
