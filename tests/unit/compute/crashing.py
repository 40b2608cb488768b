"""A process that crashes at any of its calls to libvirt or to the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.unit.compute.memory import ALLOWED, Memory, Present

from hypercobalt.adapters.libvirt.fake import FakeDaemons
from hypercobalt.adapters.libvirt.model import (
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


class Fuse:
    """Blocks the call with this number for ever."""

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

    async def destroy(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.destroy(uuid)

    async def document(self, uuid: str, *, running: bool = False) -> DomainDocument:
        await self._fuse.burn()
        return await self._daemon.document(uuid, running=running)

    async def boot(self, uuid: str) -> None:
        await self._fuse.burn()
        await self._daemon.boot(uuid)

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
    async def process(self, fuse: Fuse) -> AsyncIterator[DirectService]:
        made = DirectService(
            Present(self.places),
            FusedDaemons(self.daemons, fuse),
            FusedPorts(self.ports, fuse),
            stored=self,
            allowed=ALLOWED,
        )
        try:
            yield made
        finally:
            await made.close()
