"""A live migration while it goes on: seen, ended, helped; and servers in states that hinder it."""

from __future__ import annotations

import pytest

from tests.openstack.client import Json, Session
from tests.openstack.cloud import Cloud
from tests.openstack.servers import VERSION, Servers, until


@pytest.fixture
async def moving(cloud: Cloud, servers: Servers) -> str:
    """A server that is on its way for a long time."""
    server = await servers.boot(host=cloud.hosts[0], image=cloud.names.guest)
    await until(lambda: servers.console(server), lambda text: ": alive 1" in text)
    await cloud.hinder(server)
    (await servers.live_migrate(server, cloud.hosts[1])).ok()
    await servers.until_migrated(server, "running")
    return server


async def _going_on(admin: Session, server: str) -> Json:
    path = f"/servers/{server}/migrations"
    return (await admin("compute", "GET", path, version=VERSION)).ok()["migrations"]


async def _until_progress(admin: Session, server: str) -> Json:
    """The record of a move, once it has how much memory there is."""
    (found,) = await until(
        lambda: _going_on(admin, server),
        lambda moves: bool(moves) and bool(moves[0]["memory_total_bytes"]),
    )
    return found


async def test_live_migration_reports_its_progress_and_can_be_aborted(
    cloud: Cloud, admin: Session, servers: Servers, moving: str
) -> None:
    source, target = cloud.hosts[:2]
    found = await _until_progress(admin, moving)

    assert found["status"] == "running"
    assert (found["source_compute"], found["dest_compute"]) == (source, target)
    assert 0 < found["memory_remaining_bytes"] <= found["memory_total_bytes"]
    shown = await servers.show(moving)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("MIGRATING", "migrating")
    assert shown["OS-EXT-SRV-ATTR:host"] == source

    second = await servers.live_migrate(moving, target)
    assert second.code == 409
    assert "task_state migrating" in second.body["conflictingRequest"]["message"]

    path = f"/servers/{moving}/migrations/{found['id']}"
    assert (await admin("compute", "DELETE", path, version=VERSION)).code == 202

    # Nova 34 with threads takes its own abort for a failure, a moment after it showed `cancelled`
    # and ACTIVE: the record ends in `error`, the server in ERROR, though its guest runs on.
    await until(
        lambda: servers.migrations(moving), lambda m: m[0]["status"] in {"cancelled", "error"}
    )
    shown = await servers.until(moving, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert shown["status"] in {"ACTIVE", "ERROR"}
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["OS-EXT-STS:power_state"]) == (source, 1)
    assert await _going_on(admin, moving) == []
    late = await admin("compute", "DELETE", path, version=VERSION)
    assert late.code == 409
    assert "is in an invalid state" in late.body["conflictingRequest"]["message"]


async def test_forced_live_migration_completes(
    cloud: Cloud, admin: Session, servers: Servers, moving: str
) -> None:
    found = await _until_progress(admin, moving)

    path = f"/servers/{moving}/migrations/{found['id']}/action"
    answer = await admin("compute", "POST", path, {"force_complete": None}, version=VERSION)

    assert answer.code == 202
    await servers.until_migrated(moving, "completed")
    shown = await servers.until(moving, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", cloud.hosts[1])


async def test_the_server_is_seen_at_its_target_before_its_record_ends(
    cloud: Cloud, servers: Servers
) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)
    await servers.live_migrate(server, target)

    await servers.until(server, lambda s: s["OS-EXT-SRV-ATTR:host"] == target)

    record = (await servers.migrations(server))[0]
    assert record["status"] in {"running", "post-migrating", "completed"}
    await servers.until_migrated(server, "completed")


async def test_a_paused_server_moves_and_stays_paused(cloud: Cloud, servers: Servers) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)
    (await servers.act(server, {"pause": None})).ok()
    await servers.until(server, lambda s: s["status"] == "PAUSED")

    assert (await servers.live_migrate(server, target)).code == 202

    await servers.until_migrated(server, "completed")
    shown = await servers.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("PAUSED", target)


@pytest.mark.parametrize(("action", "status"), [("suspend", "SUSPENDED"), ("os-stop", "SHUTOFF")])
async def test_server_that_does_not_run_is_not_migrated_live(
    cloud: Cloud, servers: Servers, action: str, status: str
) -> None:
    server = await servers.boot(host=cloud.hosts[0])
    (await servers.act(server, {action: None})).ok()
    await servers.until(server, lambda s: s["status"] == status)

    answer = await servers.live_migrate(server, cloud.hosts[1])

    assert answer.code == 409
    assert "while it is in vm_state" in answer.body["conflictingRequest"]["message"]
    if status == "SUSPENDED":
        assert (await servers.act(server, {"migrate": None})).code == 409


async def test_server_that_its_owner_has_locked_is_moved_by_an_administrator(
    cloud: Cloud, servers: Servers
) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)
    (await servers.act(server, {"lock": None})).ok()
    assert (await servers.show(server))["locked"] is True

    assert (await servers.live_migrate(server, target)).code == 202

    await servers.until_migrated(server, "completed")


async def test_an_unknown_target_is_refused(servers: Servers) -> None:
    server = await servers.boot()

    assert (await servers.live_migrate(server, "no-such-host")).code == 400


async def test_server_in_error_is_migrated_neither_live_nor_cold(
    cloud: Cloud, servers: Servers, disabled: str
) -> None:
    server = await servers.create(host=disabled)
    await servers.until(server, lambda s: s["status"] == "ERROR")

    assert (await servers.live_migrate(server, None)).code == 409
    assert (await servers.act(server, {"migrate": None})).code == 409
