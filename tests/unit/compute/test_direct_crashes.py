"""The operator ends at any call in the middle of a move: the next one finishes it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.contracts.direct import A, B, named, until
from tests.unit.compute.memory import Fixed, Memory, identity

from hypercobalt.adapters.libvirt.fake import FakeDaemons
from hypercobalt.adapters.libvirt.model import (
    Devices,
    Disk,
    Domain,
    DomainCapabilities,
    DomainDocument,
    HostCapabilities,
    JobStats,
    MigrationOptions,
)
from hypercobalt.adapters.libvirt.port import Daemon, LibvirtError
from hypercobalt.adapters.libvirt.statistics import DomainStats
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.model import Server
from hypercobalt.compute.port import ComputeService

pytestmark = pytest.mark.looptime

_MORE_THAN_ANY = 60  # calls of one move


class Fuse:
    """Holds up whoever makes the call with this number, for good."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.blown = asyncio.Event()

    async def burn(self) -> None:
        if self.blown.is_set():
            raise LibvirtError("the process has ended")
        if self._left == 0:
            self.blown.set()
            await asyncio.Event().wait()
        self._left -= 1


class Ports:
    """A network in memory: hosts by port."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[str, ...]] = {}

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        self.bound |= dict.fromkeys(ports, hosts)

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return {port: hosts for port, hosts in self.bound.items() if len(hosts) > 1}

    async def close(self) -> None: ...


class FusedPorts(Ports):
    def __init__(self, ports: Ports, fuse: Fuse) -> None:
        self.bound, self._fuse = ports.bound, fuse

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        await self._fuse.burn()
        await super().bind(ports, hosts)


class FusedDaemons:
    """Daemons of one process, which ends at a call."""

    def __init__(self, daemons: FakeDaemons, fuse: Fuse) -> None:
        self._daemons, self._fuse = daemons, fuse

    def at(self, uri: str) -> Daemon:
        return FusedDaemon(self._daemons.at(uri), self._fuse)

    async def close(self) -> None: ...


class FusedDaemon:
    def __init__(self, daemon: Daemon, fuse: Fuse) -> None:
        self._daemon, self._fuse = daemon, fuse

    async def capabilities(self) -> HostCapabilities:
        await self._fuse.burn()
        return await self._daemon.capabilities()

    async def domain_capabilities(self) -> DomainCapabilities:
        await self._fuse.burn()
        return await self._daemon.domain_capabilities()

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        await self._fuse.burn()
        return await self._daemon.domains(jobs=jobs)

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        await self._fuse.burn()
        return await self._daemon.job_stats(uuid, completed=completed)

    async def stats(self) -> tuple[DomainStats, ...]:
        await self._fuse.burn()
        return await self._daemon.stats()

    async def migrate(self, uuid: str, options: MigrationOptions) -> None:
        await self._fuse.burn()
        await self._daemon.migrate(uuid, options)

    async def abort(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.abort(uuid)

    async def force_complete(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.force_complete(uuid)

    async def resume(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.resume(uuid)

    async def document(self, uuid: str) -> DomainDocument:
        await self._fuse.burn()
        return await self._daemon.document(uuid)

    async def define(self, document: DomainDocument) -> None:
        await self._fuse.burn()
        await self._daemon.define(document)

    async def undefine(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.undefine(uuid)

    async def make_directory(self, directory: str) -> None:
        await self._fuse.burn()
        await self._daemon.make_directory(directory)

    async def mark(self, directory: str, name: str) -> None:
        await self._fuse.burn()
        await self._daemon.mark(directory, name)

    async def has_file(self, directory: str, name: str) -> bool:
        await self._fuse.burn()
        return await self._daemon.has_file(directory, name)

    async def delete_file(self, directory: str, name: str) -> None:
        await self._fuse.burn()
        await self._daemon.delete_file(directory, name)

    async def close(self) -> None: ...


class Crashing(Memory):
    """Hosts in memory whose operator may end at a call."""

    def __init__(self) -> None:
        super().__init__()
        self.ports = Ports()

    @asynccontextmanager
    async def process(self, fuse: Fuse) -> AsyncIterator[ComputeService]:
        made = DirectService(
            Fixed(*self.places.values()),
            FusedDaemons(self.daemons, fuse),
            FusedPorts(self.ports, fuse),
        )
        try:
            yield made
        finally:
            await made.close()


async def _ask_to_move(service: ComputeService, server: Server) -> None:
    if server.running:
        await service.moves.live_migrate(server, B)
    else:
        await service.moves.cold_migrate(server, B)


async def _empty(service: ComputeService) -> None:
    """What an operator does: see what is there, move it, until nothing is there."""

    async def is_empty() -> bool:
        servers = await service.moves.servers(A)
        await service.moves.moves(A)
        for server in servers:
            if not server.task_state:
                await _ask_to_move(service, server)
        return not servers

    await until(is_empty)

    async def all_ended() -> bool:
        return all(move.ended for move in await service.moves.moves(A))

    await until(all_ended)


@pytest.mark.parametrize(
    ("runs", "disk"),
    [(True, "/local/vms/a.img"), (True, "/shared/vms/a.img"), (False, "/shared/vms/a.img")],
)
async def test_a_crash_at_any_call_loses_and_doubles_nothing(runs: bool, disk: str) -> None:
    for number in range(_MORE_THAN_ANY):
        world, fuse = Crashing(), Fuse(number)
        await world.add("a", runs=runs)
        made = world.host(A).here[identity("a")]
        devices = Devices((Disk("vda", path=disk),), ("port-a",))
        world.host(A).put(replace(made, devices=devices))
        world.ports.bound["port-a"] = (A,)

        async with world.process(fuse) as first:
            emptying = asyncio.create_task(_empty(first))
            blown = asyncio.create_task(fuse.blown.wait())
            await asyncio.wait({emptying, blown}, return_when=asyncio.FIRST_COMPLETED)
            emptying.cancel()
            blown.cancel()
            await asyncio.gather(emptying, blown, return_exceptions=True)
        async with world.process(Fuse(10**6)) as second:
            await _empty(second)

        state = "running" if runs else "shut off"
        assert await world.where() == [("a", B, state)], number
        assert world.ports.bound == {"port-a": (B,)}, number
        assert disk in world.host(B).files | world.daemons.shared_files, number
        if not fuse.blown.is_set():
            return
    pytest.fail(f"a move has more than {_MORE_THAN_ANY} calls")


async def test_the_move_is_what_it_says_without_a_crash() -> None:
    world = Crashing()
    await world.add("a")
    async with world.process(Fuse(10**6)) as service:
        server = await named(service, A, "a")
        await _empty(service)
        assert [move.server for move in await service.moves.moves(A)] == [server.id]
