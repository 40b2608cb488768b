"""Locked servers: who may still do what, who may unlock them, and what their owners see."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.servers import Servers

REASON = {"lock": {"locked_reason": "a host has failed"}}


@pytest.fixture
async def owned(cloud: Cloud, tester: Session) -> AsyncIterator[Servers]:
    """Servers of a user without rights."""
    made = Servers(tester, cloud.names)
    yield made
    await made.remove_all()


async def test_lock_of_an_administrator_stops_the_owner_and_no_administrator(
    tester: Session, owned: Servers, servers: Servers
) -> None:
    server = await owned.boot()
    assert (await servers.act(server, REASON)).code == 202

    seen = await owned.show(server)
    assert (seen["locked"], seen["locked_reason"]) == (True, "a host has failed")
    for action in ({"os-stop": None}, {"reboot": {"type": "HARD"}}):
        refused = await owned.act(server, action)
        assert refused.code == 409
        assert "is locked" in refused.body["conflictingRequest"]["message"]
    assert (await tester("compute", "DELETE", f"/servers/{server}")).code == 409
    assert (await owned.act(server, {"unlock": None})).code == 403

    assert (await servers.act(server, {"os-stop": None})).code == 202
    await servers.until(server, lambda shown: shown["status"] == "SHUTOFF")
    assert (await servers.act(server, {"os-start": None})).code == 202
    await servers.until(server, lambda shown: shown["status"] == "ACTIVE")

    assert (await servers.act(server, {"unlock": None})).code == 202
    seen = await owned.show(server)
    assert (seen["locked"], seen["locked_reason"]) == (False, None)
    assert (await owned.act(server, {"os-stop": None})).code == 202
    assert (await servers.actions(server))[:5] == ["stop", "unlock", "start", "stop", "lock"]


async def test_lock_of_the_owner_is_taken_over_by_that_of_an_administrator(
    owned: Servers, servers: Servers
) -> None:
    server = await owned.boot()
    assert (await owned.act(server, {"lock": {"locked_reason": "mine"}})).code == 202
    assert (await owned.act(server, {"os-stop": None})).code == 409

    assert (await servers.act(server, REASON)).code == 202
    assert (await owned.show(server))["locked_reason"] == "a host has failed"
    assert (await owned.act(server, {"unlock": None})).code == 403

    assert (await servers.act(server, {"unlock": None})).code == 202
    assert (await owned.act(server, {"lock": None})).code == 202
    seen = await owned.show(server)
    assert (seen["locked"], seen["locked_reason"]) == (True, None)
    assert (await owned.act(server, {"unlock": None})).code == 202


async def test_locked_servers_are_listed_by_a_filter_from_2_73_on(
    admin: Session, servers: Servers
) -> None:
    locked, free = [await servers.boot() for _ in range(2)]
    assert (await servers.act(locked, REASON)).code == 202

    async def listed(wanted: str, version: str) -> set[str]:
        path = f"/servers/detail?all_tenants=1&locked={wanted}"
        answer = await admin("compute", "GET", path, version=version)
        return {one["id"] for one in answer.ok()["servers"]}

    assert await listed("true", "2.73") & {locked, free} == {locked}
    assert await listed("false", "2.73") & {locked, free} == {free}
    assert await listed("true", "2.72") >= {locked, free}, "an older one has no such filter"
