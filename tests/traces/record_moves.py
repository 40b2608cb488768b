"""Record moves of servers in a real OpenStack: `python -m tests.traces.record_moves DATA [NAME…]`.

DATA is an environment of `python -m tests.openstack up DATA`; both run as root. Each scenario
moves a server of its own by the port, as an Eviction does, and looks at it as `observe` does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from hypercobalt.compute.connect import connect_nova
from hypercobalt.compute.model import Move, Server
from hypercobalt.compute.port import ComputeService
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.runtime import SystemClock
from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.real import cloud_of
from tests.openstack.servers import Servers, until
from tests.traces.moves_trace import Look, MoveTrace, save

_PERIOD: Final = 0.25  # seconds between two looks
_AFTERWARDS: Final = 4.0  # seconds in which Nova still changes what it has reported


@dataclass(frozen=True, slots=True)
class Stage:
    """A server on the first host, and who moves it."""

    cloud: Cloud
    nova: ComputeService
    servers: Servers
    id: str

    async def server(self) -> Server:
        found = await self.nova.moves.server(self.id)
        assert found is not None
        return found

    async def records(self) -> tuple[Move, ...]:
        moves = await self.nova.moves.moves(self.cloud.hosts[0])
        return tuple(move for move in moves if move.server == self.id)

    async def until_record(self, *statuses: str) -> Move:
        found = await until(self.records, lambda m: bool(m) and m[0].status in statuses)
        newest: Move = found[0]
        return newest

    async def look(self) -> Look:
        here = await self.nova.moves.servers(self.cloud.hosts[0])
        server = next((one for one in here if one.id == self.id), None)
        return Look(SystemClock().now(), server, await self.records())


async def live(stage: Stage) -> None:
    await stage.nova.moves.live_migrate(await stage.server())
    await stage.until_record("completed")


async def cold(stage: Stage) -> None:
    (await stage.servers.act(stage.id, {"os-stop": None})).ok()
    await stage.servers.until(stage.id, lambda shown: shown["status"] == "SHUTOFF")
    await asyncio.sleep(2 * _PERIOD)
    await stage.nova.moves.cold_migrate(await stage.server())
    await stage.until_record("finished")
    await stage.servers.until(stage.id, lambda shown: shown["status"] == "VERIFY_RESIZE")
    await asyncio.sleep(2 * _PERIOD)
    await stage.nova.moves.confirm(await stage.server())
    await stage.until_record("confirmed")


async def refused(stage: Stage) -> None:
    others = [await stage.nova.hosts.get(name, fresh=True) for name in stage.cloud.hosts[1:]]
    targets = [host for host in others if host is not None]
    for host in targets:
        await stage.nova.hosts.disable(host, "trace")
    try:
        await stage.nova.moves.live_migrate(await stage.server())
        await stage.until_record("error", "failed", "cancelled")
    finally:
        for host in targets:
            await stage.nova.hosts.enable(host)


async def aborted(stage: Stage) -> None:
    await stage.cloud.hinder(stage.id)
    await stage.nova.moves.live_migrate(await stage.server())
    move = await stage.until_record("running")
    await asyncio.sleep(8 * _PERIOD)
    await stage.nova.moves.abort(move)
    await stage.until_record("cancelled", "error")


SCENARIOS: Final[dict[str, tuple[str, bool, Callable[[Stage], Awaitable[None]]]]] = {
    "live": ("a running server moves live", False, live),
    "cold": ("a stopped server moves cold, and is confirmed", False, cold),
    "no_valid_host": ("a live migration while no other host takes servers", False, refused),
    "aborted": ("a live migration is aborted while memory is copied", True, aborted),
}
"""Scenarios by name: what is done, and whether the server has a guest that writes to its memory."""


async def record(cloud: Cloud, nova: ComputeService, servers: Servers, name: str) -> None:
    """Do one scenario, and keep what Nova reports."""
    scenario, guest, act = SCENARIOS[name]
    image = cloud.names.guest if guest else ""
    id_ = await servers.boot(host=cloud.hosts[0], image=image)
    if guest:
        await until(lambda: servers.beats(id_), lambda beats: beats >= 1)
    stage = Stage(cloud, nova, servers, id_)
    looks = [await stage.look()]

    async def watch() -> None:
        while True:
            seen = await stage.look()
            if (seen.server, seen.moves) != (looks[-1].server, looks[-1].moves):
                looks.append(seen)
            await asyncio.sleep(_PERIOD)

    watching = asyncio.create_task(watch())
    await act(stage)
    await asyncio.sleep(_AFTERWARDS)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    source = f"Nova 34, two hosts of a lab, by hypercobalt {version('hypercobalt')}"
    save(name, MoveTrace(source, scenario, tuple(looks)))
    await servers.remove_all()


@asynccontextmanager
async def connected(data: Path) -> AsyncIterator[tuple[Cloud, ComputeService, Servers]]:
    """An environment that runs, as an administrator sees it."""
    environment = OpenStack.find(data)
    cloud = cloud_of(environment)
    os.environ |= {"OS_CLIENT_CONFIG_FILE": str(environment.lab.layout.clouds), "OS_CLOUD": "admin"}
    nova = connect_nova({}, CollectorRegistry())
    try:
        async with Session(cloud.admin) as session:
            yield cloud, nova, Servers(session, cloud.names)
    finally:
        await nova.close()


async def main(data: Path, wanted: list[str]) -> None:
    async with connected(data) as (cloud, nova, servers):
        for name in wanted or SCENARIOS:
            await record(cloud, nova, servers, name)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
