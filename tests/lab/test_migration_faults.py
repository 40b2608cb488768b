"""Real migrations through faults of their hosts: each Migration ends with the right type."""

from __future__ import annotations

import asyncio
import time

import pytest

from hypercobalt.api.migration import Migration
from hypercobalt.lab.agents import NODE_AGENT
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.pytest_plugin import NODES
from hypercobalt.runtime import Kube
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import connection_is, instances, kill_agent, until
from tests.lab.kit.domains import document, make
from tests.lab.kit.migrations import migrations, moving, one_migration

pytestmark = pytest.mark.timeout(300)


def is_claimed(migration: Migration) -> bool:
    return migration.status.type == "unbounded" and bool(migration.status.destination)


@pytest.mark.timed
async def test_a_qemu_that_stops_answering_in_its_migration_hides_nothing_else(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    host = fleet.host(one)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=8))
        await one_migration(api, is_claimed, known)
        await host.run("pkill", "-STOP", "-f", "guest=moved,")
        try:
            count, over = 1, time.monotonic() + 15  # longer than any call may take
            while time.monotonic() < over:
                count += 1
                await make(host, document(f"other-{count}"), start=False)
                seen = await until(api, host, instances(count), deadline=2)
                assert connection_is("True")(seen)
        finally:
            await host.run("pkill", "-CONT", "-f", "guest=moved,")
        await move
        done = await one_migration(api, lambda m: m.status.type == "completed", known)
    finally:
        await fleet.remove("moved")
    assert done.status.destination == other


async def test_a_destination_whose_agent_was_away_at_the_arrival_claims_it(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (_, other), known = await moving(nodes, api, lab)
    target = fleet.host(other)
    try:
        await target.run("systemctl", "stop", NODE_AGENT)
        await fleet.move("moved", other)
        done = await one_migration(api, lambda m: m.status.type == "completed", known)
        assert done.status.destination is None
        await target.run("systemctl", "start", NODE_AGENT)
        await one_migration(api, lambda m: m.status.destination == other, known)
    finally:
        await fleet.remove("moved")


async def test_an_agent_of_the_destination_that_is_killed_on_the_way_ends_it_for_a_dead_source(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=16))
        await one_migration(api, is_claimed, known)
        await kill_agent(fleet.host(other))
        await fleet.host(one).run("systemctl", "stop", NODE_AGENT)
        await move
        done = await one_migration(api, lambda m: m.status.type == "completed", known, 60)
    finally:
        await fleet.remove("moved")
    assert (done.status.origin, done.status.destination) == (one, other)


async def test_a_paused_guest_arrives_although_it_never_resumes(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    source = fleet.host(one)
    try:
        await source.run("virsh", "-q", "suspend", "moved")
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=16))
        await one_migration(api, is_claimed, known)
        await source.run("systemctl", "stop", NODE_AGENT)
        await move
        assert await fleet.host(other).run("virsh", "-q", "domstate", "moved") == "paused\n"
        await one_migration(api, lambda m: m.status.type == "completed", known, 60)
    finally:
        await fleet.remove("moved")


async def test_a_migration_whose_source_loses_its_power_has_failed(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    source = fleet.host(one)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=2))
        await one_migration(api, is_claimed, known)
        await source.crash()
        await asyncio.wait({move})
        ended = await one_migration(api, lambda m: m.status.type != "unbounded", known, 90)
        assert (ended.status.type, ended.status.errMsg) == (
            "failed",
            f"the instance did not start to run on {other}",
        )
        await lab.up_host(source, NODES)
        await until(api, source, connection_is("True"), deadline=60)
        assert move.exception() is not None
        (after,) = [m for m in await migrations(api) if m.metadata.name not in known]
        assert after.status == ended.status
    finally:
        await fleet.remove_host(one)


async def test_a_guest_that_is_off_when_its_agent_returns_was_not_moved(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    source = fleet.host(one)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=2))
        await one_migration(api, is_claimed, known)
        await source.run("systemctl", "stop", NODE_AGENT)
        await source.run("virsh", "-q", "domjobabort", "moved")
        await asyncio.wait({move})
        await source.run("virsh", "-q", "destroy", "moved")
        await source.run("systemctl", "start", NODE_AGENT)
        ended = await one_migration(api, lambda m: m.status.type != "unbounded", known, 60)
        assert move.exception() is not None
    finally:
        await fleet.remove("moved")
    assert (ended.status.type, ended.status.destination) == ("failed", other)
    assert ended.status.errMsg
