"""Servers whose disks lie on their host alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.openstack.cloud import Cloud
from tests.openstack.servers import Servers, until


@pytest.fixture
async def local(cloud: Cloud, servers: Servers) -> AsyncIterator[Servers]:
    """Servers with disks of their host."""
    await cloud.share_disks(False)
    yield servers
    await servers.remove_all()
    await cloud.share_disks(True)


async def test_servers_with_local_disks_move_with_their_disks(cloud: Cloud, local: Servers) -> None:
    source, target = cloud.hosts[:2]
    server = await local.boot(host=source, image=cloud.names.guest)
    before = await until(lambda: local.beats(server), lambda n: n >= 2)

    # Nothing is copied when the call refuses it: that is found out at the hosts, after the answer.
    move = {"host": target, "block_migration": False}
    assert (await local.act(server, {"os-migrateLive": move})).code == 202
    await local.until_migrated(server, "error")
    shown = await local.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", source)

    assert (await local.live_migrate(server, target)).code == 202
    await local.until_migrated(server, "completed")
    assert await until(lambda: local.beats(server), lambda n: n > before) > before

    # The stopped server is moved back.
    (await local.act(server, {"os-stop": None})).ok()
    await local.until(server, lambda s: s["status"] == "SHUTOFF")
    assert (await local.act(server, {"migrate": {"host": source}})).code == 202
    await local.until(server, lambda s: s["status"] == "VERIFY_RESIZE")
    (await local.act(server, {"confirmResize": None})).ok()
    await local.until(server, lambda s: s["status"] == "SHUTOFF")
    (await local.act(server, {"os-start": None})).ok()
    await local.until(server, lambda s: s["status"] == "ACTIVE")
    await until(lambda: local.beats(server), lambda n: n >= 1)
    assert await local.host(server) == source
