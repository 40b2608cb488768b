"""Hosts and network that only the leader may change: see `compute.leadership`."""

from __future__ import annotations

from collections.abc import Iterable

from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainDocument,
    HostCapabilities,
    JobStats,
    MigrationOptions,
)
from hypercobalt.adapters.libvirt.port import Daemon, Daemons
from hypercobalt.adapters.libvirt.statistics import DomainStats
from hypercobalt.compute.direct.ports import Ports
from hypercobalt.compute.leadership import LeaderGuard


class GuardedDaemons:
    """See `Daemons`."""

    def __init__(self, daemons: Daemons, guard: LeaderGuard) -> None:
        self._daemons, self._guard = daemons, guard

    def at(self, uri: str) -> Daemon:
        return GuardedDaemon(self._daemons.at(uri), self._guard)

    async def close(self) -> None:
        await self._daemons.close()


class GuardedDaemon:
    """See `Daemon`."""

    def __init__(self, daemon: Daemon, guard: LeaderGuard) -> None:
        self._daemon, self._guard = daemon, guard

    async def capabilities(self) -> HostCapabilities:
        return await self._daemon.capabilities()

    async def domain_capabilities(self) -> DomainCapabilities:
        return await self._daemon.domain_capabilities()

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        return await self._daemon.domains(jobs=jobs)

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        return await self._daemon.job_stats(uuid, completed=completed)

    async def stats(self) -> tuple[DomainStats, ...]:
        return await self._daemon.stats()

    async def document(self, uuid: str, *, running: bool = False) -> DomainDocument:
        return await self._daemon.document(uuid, running=running)

    async def has_file(self, directory: str, name: str) -> bool:
        return await self._daemon.has_file(directory, name)

    async def close(self) -> None:
        await self._daemon.close()

    async def migrate(self, uuid: str, options: MigrationOptions) -> None:
        self._guard()
        await self._daemon.migrate(uuid, options)

    async def abort(self, uuid: str) -> None:
        self._guard()
        await self._daemon.abort(uuid)

    async def force_complete(self, uuid: str) -> None:
        self._guard()
        await self._daemon.force_complete(uuid)

    async def resume(self, uuid: str) -> None:
        self._guard()
        await self._daemon.resume(uuid)

    async def destroy(self, uuid: str) -> None:
        self._guard()
        await self._daemon.destroy(uuid)

    async def boot(self, uuid: str) -> None:
        self._guard()
        await self._daemon.boot(uuid)

    async def define(self, document: DomainDocument) -> None:
        self._guard()
        await self._daemon.define(document)

    async def undefine(self, uuid: str) -> None:
        self._guard()
        await self._daemon.undefine(uuid)

    async def make_directory(self, directory: str) -> None:
        self._guard()
        await self._daemon.make_directory(directory)

    async def mark(self, directory: str, name: str) -> None:
        self._guard()
        await self._daemon.mark(directory, name)

    async def delete_file(self, directory: str, name: str) -> None:
        self._guard()
        await self._daemon.delete_file(directory, name)


class GuardedPorts:
    """See `Ports`."""

    def __init__(self, ports: Ports, guard: LeaderGuard) -> None:
        self._ports, self._guard = ports, guard

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        self._guard()
        await self._ports.bind(ports, hosts)

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return await self._ports.between_hosts()

    async def close(self) -> None:
        await self._ports.close()
