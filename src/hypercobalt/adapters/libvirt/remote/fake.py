"""Daemons in memory, for tests: guests go from one to another as libvirt moves them."""

from __future__ import annotations

import asyncio
import posixpath
from collections import Counter
from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

from hypercobalt.adapters.libvirt.model import DomainState, JobStats, JobType
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.remote.model import Definition, Guest, Way
from hypercobalt.adapters.libvirt.remote.port import LibvirtRefusedError

_STEPS = 10
_OUT = 5  # VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT


class FakeDaemons:
    """In-memory `Daemons`: one for each URI that is asked for.

    Attributes:
        shared: directories that all hosts see as one.
        seconds: that a migration takes, by the guest's UUID.
    """

    def __init__(self) -> None:
        self.shared: set[str] = set()
        self.shared_files: set[str] = set()
        self.seconds: dict[str, float] = {}
        self._known: dict[str, FakeDaemon] = {}

    def at(self, uri: str) -> FakeDaemon:
        if uri not in self._known:
            self._known[uri] = FakeDaemon(self, uri)
        return self._known[uri]

    def find(self, uuid: str) -> Guest:
        """A guest, on whatever host."""
        found = (daemon.here.get(uuid) for daemon in self._known.values())
        return next(guest for guest in found if guest)

    async def close(self) -> None:
        """Nothing is held; what moves goes on."""


class FakeDaemon:
    """In-memory `Daemon`.

    Attributes:
        uuid: of its host.
        here: guests by UUID.
        files: paths of files that only this host has.
        silent: it answers nothing.
        failures: error that a method raises, by the method's name.
        calls: how often each method was called.
        ways: how migrations away from it were asked for, the first one first.
    """

    def __init__(self, all_: FakeDaemons, uri: str) -> None:
        self._all, self._uri = all_, uri
        self.uuid = str(uuid5(NAMESPACE_DNS, uri))
        self.here: dict[str, Guest] = {}
        self.files: set[str] = set()
        self.autostarted: set[str] = set()
        self.silent = False
        self.failures: dict[str, LibvirtError] = {}
        self.calls: Counter[str] = Counter()
        self.ways: list[Way] = []
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._hurried: set[str] = set()

    def put(self, guest: Guest) -> None:
        """Set a guest as it is now, with the files of its disks."""
        self.here[guest.uuid] = guest
        for disk in guest.makeup.disks:
            self._files(posixpath.dirname(disk.path)).add(disk.path)

    # -- the port ------------------------------------------------------------------------------

    async def host_uuid(self) -> str:
        await self._answer("host_uuid")
        return self.uuid

    async def guests(self) -> tuple[Guest, ...]:
        await self._answer("guests")
        return tuple(sorted(self.here.values(), key=lambda guest: (guest.name, guest.uuid)))

    async def migrate(self, uuid: str, way: Way) -> None:
        self.ways.append(way)
        await self._answer("migrate")
        guest, target = self._guest(uuid), self._all.at(way.destination)
        if target.silent:
            raise LibvirtRefusedError(f"unable to connect to {way.destination}")
        if not guest.active or guest.job:
            raise LibvirtRefusedError(f"domain {guest.name} cannot be migrated now")
        for disk in guest.makeup.disks:
            if disk.target in way.copies:
                await target.mark(*posixpath.split(disk.path))
            elif not await target.has_file(*posixpath.split(disk.path)):
                raise LibvirtRefusedError(f"{disk.path}: no such file on the target")
        self._moving[uuid] = asyncio.create_task(self._move(guest, target), name="fake migration")
        # libvirt goes on when the one who asked is gone.
        await asyncio.shield(self._moving[uuid])

    async def abort(self, uuid: str) -> None:
        await self._answer("abort")
        if task := self._moving.get(uuid):
            task.cancel()

    async def hurry(self, uuid: str) -> None:
        await self._answer("hurry")
        self._hurried.add(uuid)

    async def resume(self, uuid: str) -> None:
        await self._answer("resume")
        self.here[uuid] = replace(self._guest(uuid), state=DomainState.RUNNING, held=False)

    async def definition(self, uuid: str) -> Definition:
        await self._answer("definition")
        self._guest(uuid)
        return Definition(uuid, autostart=uuid in self.autostarted)

    async def define(self, definition: Definition) -> None:
        await self._answer("define")
        uuid = definition.document
        if uuid not in self.here:
            found = self._all.find(uuid)
            self.here[uuid] = replace(found, active=False, state=DomainState.SHUTOFF)
        change = self.autostarted.add if definition.autostart else self.autostarted.discard
        change(uuid)

    async def undefine(self, uuid: str) -> None:
        await self._answer("undefine")
        self.autostarted.discard(uuid)
        self.here.pop(uuid, None)

    async def make_directory(self, directory: str) -> None:
        await self._answer("make_directory")

    async def mark(self, directory: str, name: str) -> None:
        await self._answer("mark")
        self._files(directory).add(posixpath.join(directory, name))

    async def has_file(self, directory: str, name: str) -> bool:
        await self._answer("has_file")
        return posixpath.join(directory, name) in self._files(directory)

    async def delete_file(self, directory: str, name: str) -> None:
        await self._answer("delete_file")
        self._files(directory).discard(posixpath.join(directory, name))

    async def close(self) -> None:
        """Nothing is held."""

    # -- parts ---------------------------------------------------------------------------------

    async def _move(self, guest: Guest, target: FakeDaemon) -> None:
        uuid, size = guest.uuid, guest.makeup.memory_bytes
        far_end = replace(guest, state=DomainState.PAUSED, moving_in=True)
        target.here[uuid] = far_end
        try:
            for step in range(_STEPS):
                left = size * (_STEPS - step) // _STEPS
                values = {"operation": _OUT, "memory_total": size, "memory_remaining": left}
                self.here[uuid] = replace(guest, job=JobStats(JobType.UNBOUNDED, dict(values)))
                if uuid in self._hurried:
                    break
                # In real time: whoever watches a migration polls it in real time.
                await asyncio.sleep(self._all.seconds.get(uuid, 0.1) / _STEPS)
                _check(self.silent or target.silent, "End of file while reading data")
        except asyncio.CancelledError:
            self._stay(guest, target)
            raise LibvirtRefusedError("migration out job: canceled by client") from None
        except LibvirtError:
            self._stay(guest, target)
            raise
        finally:
            self._moving.pop(uuid, None)
            self._hurried.discard(uuid)
        del self.here[uuid]
        target.here[uuid] = guest

    def _stay(self, guest: Guest, target: FakeDaemon) -> None:
        self.here[guest.uuid] = guest
        target.here.pop(guest.uuid, None)

    def _files(self, directory: str) -> set[str]:
        return self._all.shared_files if directory in self._all.shared else self.files

    def _guest(self, uuid: str) -> Guest:
        if uuid not in self.here:
            raise LibvirtRefusedError(f"Domain not found: no domain with matching uuid {uuid!r}")
        return self.here[uuid]

    async def _answer(self, method: str) -> None:
        self.calls[method] += 1
        await asyncio.sleep(0)  # as a call that goes over a socket, it lets others run
        _check(self.silent, f"{self._uri}: libvirt did not answer")
        if method in self.failures:
            raise self.failures[method]


def _check(failed: bool, text: str) -> None:
    if failed:
        raise LibvirtError(text)
