"""The compute service `direct` on the hosts of a lab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hypercobalt.adapters.ovn.northbound import Northbound, parse_remotes
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.service import connect_direct
from hypercobalt.compute.model import Move, Server, Size
from hypercobalt.compute.port import ComputeService
from hypercobalt.lab.host import Host
from hypercobalt.lab.site import Lab


class LabDirectory:
    """A lab's hosts, with room for everything."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def places(self) -> tuple[Place, ...]:
        return tuple(_place(host) for host in self._lab.hosts)


def _place(host: Host) -> Place:
    uri = f"qemu+tcp://{host.identity.address}/system"
    return Place(
        name=host.name,
        id=str(host.identity.uuid),
        control=uri,
        migration=uri,
        stream=f"tcp://{host.identity.address}",
        capacity=Size(64, 64 * 1024),
    )


@asynccontextmanager
async def direct(lab: Lab) -> AsyncIterator[ComputeService]:
    """The service, and nothing of it afterwards; what moves goes on."""
    ports = Northbound(parse_remotes(lab.central.northbound)) if lab.running.ovn else None
    service = connect_direct(LabDirectory(lab), ports=ports)
    try:
        yield service
    finally:
        await service.close()


async def named(service: ComputeService, host: str, name: str) -> Server:
    """The server of this name on a host."""
    return next(one for one in await service.moves.servers(host) if one.name == name)


async def ended(service: ComputeService, host: str, server: Server) -> Move:
    """The server's newest move away from a host, once it has ended."""
    found: list[Move] = []

    async def has_ended() -> bool:
        moves = await service.moves.moves(host)
        found[:] = [move for move in moves if move.server == server.id]
        return bool(found) and found[0].ended

    await until(has_ended)
    return found[0]


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 90) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await _moment()


async def _moment() -> None:
    await asyncio.sleep(0.1)
