"""A host that is gone, and what becomes of its servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import service, set_service, until_back
from tests.openstack.servers import VERSION, Servers, until


@pytest.fixture
async def doomed(cloud: Cloud, admin: Session) -> AsyncIterator[str]:
    """A host that a test may crash and declare dead; it serves again after the test."""
    host = cloud.hosts[0]
    yield host
    await cloud.restore(host)

    async def clear() -> int:
        path = f"/os-services/{(await service(admin, host))['id']}"
        return (await admin("compute", "PUT", path, {"forced_down": False}, version=VERSION)).code

    # Refused for as long as the host has not put away what was evacuated from it.
    await until(clear, lambda code: code == 200)
    await until_back(admin, host)


async def test_servers_of_a_crashed_host_are_evacuated_once_it_is_declared_dead(
    cloud: Cloud, admin: Session, servers: Servers, doomed: str
) -> None:
    kept, started = [await servers.boot(host=doomed) for _ in range(2)]

    await cloud.crash(doomed)

    # Nova has not missed it yet.
    assert (await service(admin, doomed))["state"] == "up"
    early = await servers.act(kept, {"evacuate": {}})
    assert early.code == 400
    assert "is still in use" in early.body["badRequest"]["message"]

    assert (await set_service(admin, doomed, forced_down=True))["state"] == "down"
    assert (await servers.act(kept, {"evacuate": {}}, version=VERSION)).code == 200
    assert (await servers.act(started, {"evacuate": {}}, version="2.94")).code == 200

    for server, status in ((kept, "SHUTOFF"), (started, "ACTIVE")):
        shown = await servers.until(
            server,
            lambda s: s["OS-EXT-SRV-ATTR:host"] != doomed and s["OS-EXT-STS:task_state"] is None,
        )
        assert shown["status"] == status, "since 2.95 it is left stopped"
        record = await servers.until_migrated(server, "done")
        assert record["migration_type"] == "evacuation"
        assert (record["source_compute"], record["dest_compute"]) == (
            doomed,
            shown["OS-EXT-SRV-ATTR:host"],
        )

    # The mark stays until the old host has come back and destroyed what it still has of them.
    path = f"/os-services/{(await service(admin, doomed))['id']}"
    early = await admin("compute", "PUT", path, {"forced_down": False}, version=VERSION)
    assert early.code == 400
    assert "evacuation migration records remain" in early.body["badRequest"]["message"]
    await cloud.restore(doomed)
    for server in (kept, started):
        await servers.until_migrated(server, "completed")


async def test_a_server_that_was_stopped_stays_stopped_whatever_the_version(
    cloud: Cloud, admin: Session, servers: Servers, doomed: str
) -> None:
    stopped = {version: await servers.boot(host=doomed) for version in ("2.94", VERSION)}
    for server in stopped.values():
        assert (await servers.act(server, {"os-stop": None})).code == 202
        await servers.until(server, lambda s: s["status"] == "SHUTOFF")
    await cloud.crash(doomed)
    await set_service(admin, doomed, forced_down=True)

    for version, server in stopped.items():
        assert (await servers.act(server, {"evacuate": {}}, version=version)).code == 200

    for server in stopped.values():
        await servers.until_migrated(server, "done")
        shown = await servers.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
        assert (shown["OS-EXT-SRV-ATTR:host"] != doomed, shown["status"]) == (True, "SHUTOFF")
        assert shown["OS-EXT-STS:power_state"] == 4, "shut down"
    await cloud.restore(doomed)
    for server in stopped.values():
        await servers.until_migrated(server, "completed")


async def test_a_paused_server_is_evacuated_once_its_state_is_reset_and_runs_if_that_was_to_error(
    cloud: Cloud, admin: Session, servers: Servers, doomed: str
) -> None:
    expected = {}
    for state, status in (("error", "ACTIVE"), ("active", "SHUTOFF")):
        server = await servers.boot(host=doomed)
        assert (await servers.act(server, {"pause": None})).code == 202
        await servers.until(server, lambda s: s["status"] == "PAUSED")
        expected[server] = (state, status)
    await cloud.crash(doomed)
    await set_service(admin, doomed, forced_down=True)

    for server, (state, _) in expected.items():
        refused = await servers.act(server, {"evacuate": {}}, version=VERSION)
        assert refused.code == 409
        assert (await servers.act(server, {"os-resetState": {"state": state}})).code == 202
        assert (await servers.act(server, {"evacuate": {}}, version=VERSION)).code == 200

    for server, (_, status) in expected.items():
        await servers.until_migrated(server, "done")
        shown = await servers.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
        assert (shown["OS-EXT-SRV-ATTR:host"] != doomed, shown["status"]) == (True, status)
    await cloud.restore(doomed)
    for server in expected:
        await servers.until_migrated(server, "completed")


async def test_a_host_that_is_forced_down_stays_down_however_healthy(
    cloud: Cloud, admin: Session, doomed: str
) -> None:
    await set_service(admin, doomed, forced_down=True)
    reported = (await service(admin, doomed))["updated_at"]

    shown = await until(lambda: service(admin, doomed), lambda s: s["updated_at"] != reported)

    assert (shown["state"], shown["forced_down"]) == ("down", True)
