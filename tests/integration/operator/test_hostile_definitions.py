"""The Eviction of a dead host whose agent's token has stored a hostile definition."""

from __future__ import annotations

from dataclasses import replace as with_changes
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
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

from hypercobalt.adapters.libvirt.fake_domains import document_of
from hypercobalt.api.eviction import Eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUICK = Policy(
    retry_after=timedelta(milliseconds=50),
    settle=timedelta(milliseconds=100),
    unsure=timedelta(seconds=1),
)
SERIAL = "<serial type='file'><source path='/etc/cron.d/x'/></serial></devices>"


async def test_instance_waits_by_element_and_rule_and_the_others_are_evacuated(
    kube: Kube, kubeconfig: Path
) -> None:
    world = Memory()
    for name in ("a", "b"):
        await world.add(name, disk="shared")
    world.store(A)
    stored, uuid = world.stored[A], identity("a")
    xml = stored.domains[uuid].xml.replace("</devices>", SERIAL)
    domains = {**stored.domains, uuid: replace(stored.domains[uuid], xml=xml)}
    world.stored[A] = replace(stored, domains=domains)
    await add_hypervisor(kube, A, disabled=False, service=world.places[A].id)
    await fence(kube, A)
    world.cut(A)
    world.fence(A)

    def phases(eviction: Eviction) -> dict[str, str | None]:
        return {entry.id: entry.phase for entry in eviction.status.instances}

    async with world.service() as compute, evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, A, mode="evacuate")
        seen = await until_ended(kube, A)
    assert phases(seen) == {uuid: "Failed", identity("b"): "Succeeded"}
    (waiting,) = [entry for entry in seen.status.instances if entry.id == uuid]
    assert "<devices/serial> has type='file'" in (waiting.message or "")
    assert state(seen) == "False/Failed"
    there = {uuid for host in (B, C) for uuid in world.host(host).here}
    assert there == {identity("b")}
    assert all("/etc/cron.d" not in xml for host in (B, C) for xml in world.host(host).defined)


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_instance_of_a_living_host_stays_by_element_and_rule(
    kube: Kube, kubeconfig: Path, runs: bool
) -> None:
    world, uuid = Memory(), identity("a")
    await world.add("a", disk="shared", runs=runs)
    await world.add("b", disk="shared", runs=runs)
    source = world.host(A)
    source.documents[uuid] = document_of(source.here[uuid]).replace("</devices>", SERIAL)
    world.places[A] = with_changes(world.places[A], disabled="test")
    await add_hypervisor(kube, A, service=world.places[A].id)
    async with world.service() as compute, evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, A)
        seen = await until_ended(kube, A)
    found = {entry.id: (entry.phase, entry.message or "") for entry in seen.status.instances}
    assert found[uuid][0] == "Failed"
    assert "<devices/serial> has type='file'" in found[uuid][1]
    assert found[identity("b")][0] == "Succeeded"
    assert set(source.here) == {uuid}
    assert not any(uuid in world.host(host).here for host in (B, C))
