"""Aggregates and availability zones."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.openstack.client import Answer, Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import provider_id
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until


class Aggregate:
    """An aggregate, and its hosts."""

    def __init__(self, session: Session, number: int, uuid: str) -> None:
        self._session = session
        self.path = f"/os-aggregates/{number}"
        self.uuid = uuid

    async def add(self, host: str) -> Answer:
        return await self._act({"add_host": {"host": host}})

    async def remove(self, host: str) -> Answer:
        return await self._act({"remove_host": {"host": host}})

    async def _act(self, action: object) -> Answer:
        path = f"{self.path}/action"
        return await self._session("compute", "POST", path, action, version=VERSION)

    async def hosts(self) -> list[str]:
        answer = await self._session("compute", "GET", self.path, version=VERSION)
        return list(answer.ok()["aggregate"]["hosts"])


async def _made(session: Session, name: str, zone: str | None) -> AsyncIterator[Aggregate]:
    body = {"aggregate": {"name": name, "availability_zone": zone}}
    answer = await session("compute", "POST", "/os-aggregates", body, version=VERSION)
    found = answer.ok()["aggregate"]
    made = Aggregate(session, found["id"], found["uuid"])
    yield made
    for host in await made.hosts():
        (await made.remove(host)).ok()
    (await session("compute", "DELETE", made.path)).ok()


@pytest.fixture
async def plain(admin: Session) -> AsyncIterator[Aggregate]:
    """An aggregate that is no availability zone."""
    async for made in _made(admin, "plain", None):
        yield made


@pytest.fixture
async def zone(admin: Session) -> AsyncIterator[Aggregate]:
    """An aggregate that is one."""
    async for made in _made(admin, "zone", "zone-1"):
        yield made


async def test_a_zone_is_given_to_an_empty_host_only(
    cloud: Cloud, zone: Aggregate, servers: Servers
) -> None:
    host = cloud.hosts[0]
    await servers.boot(host=host)

    refused = await zone.add(host)

    assert refused.code == 409
    assert "availability zone" in refused.body["conflictingRequest"]["message"]
    await servers.remove_all()
    assert (await zone.add(host)).code == 200
    assert await zone.hosts() == [host]


async def test_an_aggregate_without_zone_takes_a_host_with_servers(
    cloud: Cloud, plain: Aggregate, servers: Servers
) -> None:
    await servers.boot(host=cloud.hosts[0])

    assert (await plain.add(cloud.hosts[0])).code == 200


async def test_placement_has_the_aggregate_at_once(
    cloud: Cloud, admin: Session, plain: Aggregate
) -> None:
    provider = await provider_id(admin, cloud.hosts[0])

    async def aggregates() -> list[str]:
        path = f"/resource_providers/{provider}/aggregates"
        answer = await admin("placement", "GET", path, version=PLACEMENT)
        return list(answer.ok()["aggregates"])

    (await plain.add(cloud.hosts[0])).ok()
    await until(aggregates, lambda found: plain.uuid in found, within=5)
    (await plain.remove(cloud.hosts[0])).ok()
    await until(aggregates, lambda found: plain.uuid not in found, within=5)


async def test_a_host_is_added_once_and_removed_once(cloud: Cloud, plain: Aggregate) -> None:
    host = cloud.hosts[0]

    assert (await plain.add(host)).code == 200
    assert (await plain.add(host)).code == 409
    assert (await plain.remove(host)).code == 200
    assert (await plain.remove(host)).code == 404


async def test_a_host_that_is_not_there_cannot_be_added(plain: Aggregate) -> None:
    assert (await plain.add("no-such-host")).code == 404


async def test_a_host_is_in_one_zone_only(cloud: Cloud, admin: Session, zone: Aggregate) -> None:
    (await zone.add(cloud.hosts[0])).ok()
    async for second in _made(admin, "second", "zone-2"):
        assert (await second.add(cloud.hosts[0])).code == 409


async def test_an_aggregate_with_hosts_cannot_be_deleted(
    cloud: Cloud, admin: Session, plain: Aggregate
) -> None:
    (await plain.add(cloud.hosts[0])).ok()

    assert (await admin("compute", "DELETE", plain.path)).code in {400, 409}
