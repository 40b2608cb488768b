"""Nova's adapter keeps the contracts of the port, on a real OpenStack and on the simulated one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from hypercobalt.compute.connect import connect_nova
from hypercobalt.compute.model import Server
from hypercobalt.compute.nova.settings import NO_NETWORK, NovaSettings, SmokeSettings
from hypercobalt.compute.port import ComputeService
from tests.contracts.compute import CONTRACTS, Site
from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import until_back
from tests.openstack.environment import set_account
from tests.openstack.servers import VERSION, Servers, until

NAMES = {contract.__name__.replace("_", " "): contract for contract in CONTRACTS}


@dataclass(slots=True)
class CloudSite:
    """A cloud, as the contracts see it."""

    service: ComputeService
    hosts: tuple[str, str]
    made: Servers
    admin: Session
    cloud: Cloud
    zone: str = "nova"
    aggregates: list[int] = field(default_factory=list[int])
    restored: set[str] = field(default_factory=set[str])

    async def boot(self, host: str) -> str:
        return await self.made.boot(host=host)

    async def boot_stopped(self, host: str) -> str:
        server = await self.made.boot(host=host)
        (await self.made.act(server, {"os-stop": None})).ok()
        await self.made.until(server, lambda shown: shown["status"] == "SHUTOFF")
        return server

    async def crash(self, host: str) -> None:
        await self.cloud.crash(host)

    async def restore(self, host: str) -> None:
        await self.cloud.restore(host)
        self.restored.add(host)

    async def aggregate(self, name: str, zone: str = "") -> None:
        body = {"aggregate": {"name": name, "availability_zone": zone or None}}
        answer = await self.admin("compute", "POST", "/os-aggregates", body, version=VERSION)
        self.aggregates.append(answer.ok()["aggregate"]["id"])

    async def close(self) -> None:
        await self.service.close()
        for id_ in self.aggregates:
            await self.admin("compute", "DELETE", f"/os-aggregates/{id_}")
        for host in self.restored:
            await until_back(self.admin, host)


@pytest.fixture
async def site(
    cloud: Cloud,
    admin: Session,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Site]:
    set_account(monkeypatch, cloud.admin)
    smoke = SmokeSettings(
        project="",
        flavor=await flavor(admin, cloud.names.flavor),
        image=cloud.names.empty,
        network=NO_NETWORK,
        volume_gib=0,
    )
    settings = NovaSettings(smoke, evacuate_local_disks=True)
    service = connect_nova({}, CollectorRegistry(), settings)
    one, other, *_ = cloud.hosts
    made = CloudSite(service, (one, other), servers, admin, cloud)
    yield made
    await made.close()


async def flavor(admin: Session, name: str) -> str:
    """The id of a flavor."""
    answer = await admin("compute", "GET", "/flavors", version=VERSION)
    return next(str(one["id"]) for one in answer.ok()["flavors"] if one["name"] == name)


@pytest.mark.parametrize("contract", NAMES.values(), ids=NAMES)
async def test_nova_adapter_keeps_the_contract(
    contract: Callable[[Site], Awaitable[None]], site: Site
) -> None:
    await contract(site)
    assert site.service.trouble == ""


async def test_a_paused_server_whose_move_is_aborted_is_as_it_was(
    cloud: Cloud, servers: Servers, site: Site
) -> None:
    moves, (source, target) = site.service.moves, site.hosts
    id_ = await servers.boot(host=source, image=cloud.names.guest)
    await until(lambda: servers.beats(id_), lambda beats: beats >= 1)
    await cloud.hinder(id_)
    (await servers.act(id_, {"pause": None})).ok()
    await servers.until(id_, lambda shown: shown["status"] == "PAUSED")

    async def server() -> Server:
        found = await moves.server(id_)
        assert found is not None
        return found

    await moves.live_migrate(await server(), target)
    await servers.until_migrated(id_, "running")
    (move,) = await moves.moves(source)
    await moves.abort(move)

    # Nova 34 shows PAUSED or ACTIVE first, and ERROR a moment later.
    await until(server, lambda seen: seen.status == "ERROR")
    broken = await server()
    assert (broken.running, broken.paused, broken.host) == (False, True, source)
    assert site.service.recovery is not None
    await site.service.recovery.recover(broken)
    await until(server, lambda seen: (seen.status, seen.task_state) == ("PAUSED", ""))
    (await servers.act(id_, {"unpause": None})).ok()
    shown = await servers.until(id_, lambda shown: shown["status"] == "ACTIVE")
    assert shown["OS-EXT-STS:power_state"] == 1
