"""Hosts and network that are changed only while this process may: see `compute.guard`."""

from __future__ import annotations

from collections.abc import Iterable

from hypercobalt.adapters.libvirt.remote.model import Definition, Guest, Way
from hypercobalt.adapters.libvirt.remote.port import Daemon, Daemons
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

    async def host_uuid(self) -> str:
        return await self._daemon.host_uuid()

    async def guests(self) -> tuple[Guest, ...]:
        return await self._daemon.guests()

    async def definition(self, uuid: str) -> Definition:
        return await self._daemon.definition(uuid)

    async def has_file(self, directory: str, name: str) -> bool:
        return await self._daemon.has_file(directory, name)

    async def close(self) -> None:
        await self._daemon.close()

    async def migrate(self, uuid: str, way: Way) -> None:
        self._guard()
        await self._daemon.migrate(uuid, way)

    async def abort(self, uuid: str) -> None:
        self._guard()
        await self._daemon.abort(uuid)

    async def hurry(self, uuid: str) -> None:
        self._guard()
        await self._daemon.hurry(uuid)

    async def resume(self, uuid: str) -> None:
        self._guard()
        await self._daemon.resume(uuid)

    async def define(self, definition: Definition) -> None:
        self._guard()
        await self._daemon.define(definition)

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
