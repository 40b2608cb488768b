"""What a test can have go wrong in the simulated OpenStack."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx2
import msgspec
import pytest
from tests.openstack.client import Account, Json, Session
from tests.openstack.servers import VERSION, until
from tests.simulated_openstack.http import Request
from tests.simulated_openstack.identity import ELSEWHERE
from tests.simulated_openstack.pace import Pace
from tests.simulated_openstack.script import Fault
from tests.simulated_openstack.serve import Simulation, serve
from tests.simulated_openstack.world import World

_ROOT = Path(__file__).parents[3]


@pytest.fixture
async def cloud() -> AsyncIterator[Simulation]:
    """Two hosts."""
    world = World(Pace(live=0.05))
    for name in ("node1", "node2"):
        world.add_host(name)
    async with serve(world) as simulation:
        yield simulation


@pytest.fixture
async def admin(cloud: Simulation) -> AsyncIterator[Session]:
    async with Session(cloud.admin) as session:
        yield session


async def _status(admin: Session, server: str) -> str:
    """Status of a server's newest migration."""
    path = f"/os-migrations?instance_uuid={server}"
    found: Json = (await admin("compute", "GET", path, version=VERSION)).ok()["migrations"]
    return str(found[0]["status"]) if found else ""


async def _move(admin: Session, server: str, host: str | None = None) -> None:
    move = {"os-migrateLive": {"host": host, "block_migration": "auto"}}
    (await admin("compute", "POST", f"/servers/{server}/action", move, version=VERSION)).ok()


async def test_an_error_happens_as_often_as_scripted_and_is_counted(
    cloud: Simulation, admin: Session
) -> None:
    cloud.script.add(Fault("compute GET /servers*", code=503, times=2))

    codes = [(await admin("compute", "GET", "/servers/detail")).code for _ in range(3)]

    assert codes == [503, 503, 200]
    assert cloud.script.count("compute GET /servers/detail") == 3
    assert cloud.script.count("identity POST *") == 1


async def test_an_answer_can_be_garbage(cloud: Simulation, admin: Session) -> None:
    cloud.script.add(Fault("compute *", code=200, body=b"<html>", times=1))

    assert (await admin("compute", "GET", "/servers")).body == "<html>"


@pytest.mark.parametrize("after", [False, True])
async def test_an_answer_can_be_lost_before_or_after_the_call_is_carried_out(
    cloud: Simulation, admin: Session, after: bool
) -> None:
    cloud.script.add(Fault("placement PUT /traits/*", cut=True, after=after))

    with pytest.raises(httpx2.TransportError):
        await admin("placement", "PUT", "/traits/CUSTOM_NEW", version="1.39")

    assert ("CUSTOM_NEW" in cloud.world.custom_traits) is after


async def test_an_answer_can_stay_away(cloud: Simulation, admin: Session) -> None:
    cloud.script.add(Fault("compute GET /os-aggregates", hang=True))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await admin("compute", "GET", "/os-aggregates")


async def test_calls_take_the_scripted_time(cloud: Simulation, admin: Session) -> None:
    cloud.script.latency = 0.1
    begun = time.monotonic()

    await admin("compute", "GET", "/os-aggregates")

    assert time.monotonic() - begun >= 0.1


async def test_something_can_happen_between_two_calls(cloud: Simulation, admin: Session) -> None:
    server = cloud.world.add_server("node1")

    def vanish(_request: Request) -> None:
        cloud.world.remove_server(server)

    cloud.script.after("compute GET /servers/detail", vanish)

    path = "/servers/detail?all_tenants=1&host=node1"
    seen = (await admin("compute", "GET", path, version=VERSION)).ok()["servers"]

    assert [one["id"] for one in seen] == [server.id]
    assert (await admin("compute", "GET", f"/servers/{server.id}")).code == 404


async def test_tokens_are_revoked_and_expire(cloud: Simulation, admin: Session) -> None:
    cloud.tokens.revoke_all()
    assert (await admin("compute", "GET", "/servers")).code == 401

    cloud.world.pace.token = 0
    await admin.authenticate()
    assert (await admin("compute", "GET", "/servers")).code == 401


async def test_another_region_has_nothing(cloud: Simulation) -> None:
    async with Session(replace(cloud.admin, region=ELSEWHERE)) as elsewhere:
        assert (await elsewhere("compute", "GET", "/servers")).code == 503

    assert cloud.script.count("elsewhere *") == 1


async def test_a_live_migration_is_stuck_until_it_is_forced_or_aborted(
    cloud: Simulation, admin: Session
) -> None:
    server = cloud.world.add_server("node1")
    server.memory_left = 2**20
    await _move(admin, server.id)
    path = f"/servers/{server.id}/migrations"

    async def remaining() -> Json:
        found = (await admin("compute", "GET", path, version=VERSION)).ok()["migrations"]
        return [(one["status"], one["memory_remaining_bytes"]) for one in found]

    await until(remaining, lambda found: found == [("running", 2**20)])
    (number,) = cloud.world.migrations
    action = f"{path}/{number}/action"
    body = {"force_complete": None}
    assert (await admin("compute", "POST", action, body, version=VERSION)).code == 202

    await until(lambda: _status(admin, server.id), lambda status: status == "completed")
    assert server.host == "node2"


async def test_a_live_migration_fails_as_scripted(cloud: Simulation, admin: Session) -> None:
    server = cloud.world.add_server("node1")
    server.move_fails = "no reason"

    await _move(admin, server.id)

    await until(lambda: _status(admin, server.id), lambda status: status == "failed")
    assert (server.host, server.status) == ("node1", "ACTIVE")
    used = {name: host.used["VCPU"] for name, host in cloud.world.hosts.items() if host.used}
    assert {name for name, amount in used.items() if amount} == {"node1"}


async def test_a_live_migration_fails_when_its_target_is_gone(
    cloud: Simulation, admin: Session
) -> None:
    server = cloud.world.add_server("node1")
    server.memory_left = 2**20
    await _move(admin, server.id)
    await until(lambda: _status(admin, server.id), lambda status: status == "running")

    cloud.world.crash("node2")

    await until(lambda: _status(admin, server.id), lambda status: status == "failed")
    assert server.host == "node1"


async def test_live_migrations_wait_for_their_turn(cloud: Simulation, admin: Session) -> None:
    cloud.world.pace.at_once = 1
    first, second = (cloud.world.add_server("node1") for _ in range(2))
    first.memory_left = 2**20
    for server in (first, second):
        await _move(admin, server.id)

    await until(lambda: _status(admin, first.id), lambda status: status == "running")
    await until(lambda: _status(admin, second.id), lambda status: status == "queued")
    first.memory_left = 0

    await until(lambda: _status(admin, second.id), lambda status: status == "completed")


async def test_no_host_gets_more_than_it_has(cloud: Simulation, admin: Session) -> None:
    small = cloud.world.add_host("node3", memory=1024)
    cloud.world.hosts["node2"].enabled = False
    servers = [cloud.world.add_server("node1", flavor="1") for _ in range(4)]

    for server in servers:
        await _move(admin, server.id)
    for server in servers:
        await until(partial(_status, admin, server.id), lambda s: s in {"completed", "error"})

    assert sum(server.host == "node3" for server in servers) == 2  # 512 MiB are reserved
    assert small.used["MEMORY_MB"] == 2 * 192


async def test_servers_of_a_group_stay_apart(cloud: Simulation, admin: Session) -> None:
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    made = await admin("compute", "POST", "/os-server-groups", body, version=VERSION)
    group = made.ok()["server_group"]["id"]
    here, _there = (cloud.world.add_server(f"node{n}", group=group) for n in (1, 2))

    await _move(admin, here.id)

    await until(lambda: _status(admin, here.id), lambda status: status == "error")


async def test_simulation_runs_as_a_process_and_reports_its_calls() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulated_openstack", "--hosts", "50", "--servers", "3"),
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        assert process.stdout is not None
        printed = msgspec.json.decode(await process.stdout.readline())
        url = printed.pop("url")
        async with Session(msgspec.convert(printed, Account)) as session:
            found = (await session("compute", "GET", "/os-hypervisors", version=VERSION)).ok()
            assert len(found["hypervisors"]) == 50
        async with httpx2.AsyncClient(trust_env=False) as http:
            counted = (await http.request("DELETE", f"{url}/simulated/calls")).json()
            assert counted["compute GET /os-hypervisors"] == 1
            assert (await http.get(f"{url}/simulated/calls")).json() == {}
    finally:
        process.terminate()
        assert await process.wait() == 0
