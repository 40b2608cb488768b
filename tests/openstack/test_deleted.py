"""What is left of a server that was deleted, and of a host that was."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import hypervisors, provider_id, service, until_back
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until


async def test_records_of_its_moves_are_gone_with_a_server(cloud: Cloud, servers: Servers) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)
    await servers.live_migrate(server, target)
    await servers.until_migrated(server, "completed")

    await servers.remove_all()

    assert await servers.migrations(server) == []


async def test_a_host_with_servers_cannot_be_deleted(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    server = await servers.boot(host=cloud.hosts[0])

    path = f"/os-services/{(await service(admin, cloud.hosts[0]))['id']}"
    answer = await admin("compute", "DELETE", path, version=VERSION)

    assert answer.code == 409
    assert "is hosting instances" in answer.body["conflictingRequest"]["message"]

    path = f"/resource_providers/{await provider_id(admin, cloud.hosts[0])}"
    held = (await admin("placement", "GET", f"{path}/allocations", version=PLACEMENT)).ok()
    assert set(held["allocations"]) == {server}
    answer = await admin("placement", "DELETE", path, version=PLACEMENT)

    assert answer.code == 409
    assert "allocations" in answer.body["errors"][0]["detail"]


@pytest.fixture
async def leaving(cloud: Cloud, admin: Session) -> AsyncIterator[str]:
    """A host that a test removes from Nova; it is back after the test."""
    host = cloud.hosts[-1]
    yield host
    await cloud.crash(host)
    await cloud.restore(host)
    await until(lambda: hypervisors(admin), lambda found: found.get(host, {}).get("state") == "up")
    await until_back(admin, host)


async def test_a_host_that_is_deleted_is_gone_everywhere_and_comes_back_when_it_starts_again(
    cloud: Cloud, admin: Session, servers: Servers, leaving: str
) -> None:
    provider = await provider_id(admin, leaving)
    path = f"/os-services/{(await service(admin, leaving))['id']}"

    assert (await admin("compute", "DELETE", path, version=VERSION)).code == 204

    assert leaving not in await hypervisors(admin)
    answer = await admin("compute", "GET", f"/os-hypervisors/{provider}", version=VERSION)
    assert answer.code == 404
    path = f"/resource_providers/{provider}"
    assert (await admin("placement", "GET", path, version=PLACEMENT)).code == 404
    assert (await admin("placement", "DELETE", path, version=PLACEMENT)).code == 404

    await cloud.crash(leaving)
    await cloud.restore(leaving)
    found = await until(
        lambda: hypervisors(admin), lambda found: found.get(leaving, {}).get("state") == "up"
    )
    assert found[leaving]["id"] == provider
    assert found[leaving]["status"] == "enabled"
    await servers.boot(host=leaving)
