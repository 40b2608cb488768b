"""Daemons in memory: for tests, and for running an agent on a machine without libvirt.

`FakeLibvirt` is one daemon, `FakeDaemons` are several between which domains migrate. They keep what
`hypercobalt.adapters.libvirt.port` promises; one contract test runs on this class, on libvirt's own
test driver and on a real libvirtd.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

from hypercobalt.adapters.libvirt import model
from hypercobalt.adapters.libvirt.events import Connected, Disconnected, Event
from hypercobalt.adapters.libvirt.fake_domains import document_of, domain_of
from hypercobalt.adapters.libvirt.fake_guests import FakeGuests
from hypercobalt.adapters.libvirt.port import DomainHungError, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.statistics import BlockStats, DomainStats
from hypercobalt.adapters.libvirt.vocabulary import (
    ControlState,
    Lifecycle,
    PausedReason,
    RunningReason,
)

_HOST = model.HostCapabilities(
    "x86_64",
    (model.HostCell(0, 8 * 1024**3, frozenset(range(4)), 4),),
    uuid="5f0c9b8e-6f0c-4a5e-9d5e-3f1f0b8a7c11",
)
_OFFERS = model.DomainCapabilities(
    "x86_64", "kvm", ("video", "video/virtio"), ("mode/host-model",), ("vmcoreinfo",)
)
_VERSIONS = model.Versions(libvirt="9.0.0", hypervisor="7.2.22")
_STEPS = 10  # of a migration


class FakeDaemons:
    """In-memory `Daemons`: one for each URI that is used.

    Attributes:
        shared: directories that all hosts see as one.
        seconds: that a migration takes, by the domain's UUID.
        documents: the domains that were read as documents, by UUID: they are defined elsewhere
            with all that a document here leaves out.
    """

    def __init__(self) -> None:
        self.shared: set[str] = set()
        self.shared_files: set[str] = set()
        self.seconds: dict[str, float] = {}
        self.documents: dict[str, model.Domain] = {}
        self._known: dict[str, FakeLibvirt] = {}

    def at(self, uri: str) -> FakeLibvirt:
        if uri not in self._known:
            host = replace(_HOST, uuid=str(uuid5(NAMESPACE_DNS, uri)))
            self._known[uri] = FakeLibvirt(host=host, peers=self)
        return self._known[uri]

    async def close(self) -> None:
        """Do nothing: no connection is held, and migrations continue."""


class FakeLibvirt(FakeGuests):
    """In-memory `Libvirt` and `Daemon`. It starts connected; set its attributes as the test needs.

    Those of its domains are in `FakeDomains`, those of what their guests do in `FakeGuests`.

    Args:
        host: what `capabilities` answers.
        offers: what `domain_capabilities` answers.
        versions: in `Connected`.
        missing: in `Connected`.
        peers: the other daemons, to which domains can migrate.

    Attributes:
        completed_jobs: last job by domain uuid.
        counters: what `stats` answers, by uuid; an active domain without one gets zeros.
        faulty: what `disk_errors` answers, by uuid.
        agents: whether the guest's agent answers, by uuid; absent from a domain without one.
        files: paths of files that only this host has.
        autostarted: UUIDs of domains that start with the host.
        migrations: options of the migrations away from it, in order.
        documents: what `document` answers, by UUID; else what the domain has.
        defined: documents that were defined, in order.
        failures: error that a method raises, by the method's name, until it is taken out.
        delays: seconds that a method takes, by name.
        calls: how often each method was called.
    """

    def __init__(
        self,
        *,
        host: model.HostCapabilities = _HOST,
        offers: model.DomainCapabilities = _OFFERS,
        versions: model.Versions = _VERSIONS,
        missing: tuple[str, ...] = (),
        peers: FakeDaemons | None = None,
    ) -> None:
        super().__init__()
        self.host, self.offers, self.versions, self.missing = host, offers, versions, missing
        self.completed_jobs: dict[str, model.JobStats] = {}
        self.files: set[str] = set()
        self.counters: dict[str, DomainStats] = {}
        self.faulty: dict[str, tuple[model.DiskError, ...]] = {}
        self.agents: dict[str, bool] = {}
        self.autostarted: set[str] = set()
        self.migrations: list[model.MigrationOptions] = []
        self.documents: dict[str, str] = {}
        self.defined: list[str] = []
        self.failures: dict[str, LibvirtError] = {}
        self.delays: dict[str, float] = {}
        self.calls: Counter[str] = Counter()
        self._peers = peers or FakeDaemons()
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._hurried: set[str] = set()
        self.connect()

    def connect(self) -> None:
        """Bring the connection up, as if its subscriptions had just been made."""
        self._events.put(Connected(self.versions, self.missing))

    def disconnect(self, reason: str = "End of file while reading data") -> None:
        """Lose the connection; events are lost until `connect`."""
        self._events.put(Disconnected(reason))

    def put(self, domain: model.Domain) -> None:
        """Set a domain as it is now, with the files of its disks, without an event."""
        super().put(domain)
        for disk in domain.devices.disks:
            self._files(posixpath.dirname(disk.path)).add(disk.path)

    # Events and Observe.

    def events(self) -> AsyncGenerator[Event]:
        return self._events.read()

    async def capabilities(self) -> model.HostCapabilities:
        await self._answer("capabilities")
        return self.host

    async def domain_capabilities(self) -> model.DomainCapabilities:
        await self._answer("domain_capabilities")
        return self.offers

    async def domains(self, *, jobs: bool = False) -> tuple[model.Domain, ...]:
        await self._answer("domains")
        found = list(self.here.values())
        if jobs:
            found = [replace(one, job=self.jobs.get(one.uuid, one.job)) for one in found]
        return tuple(sorted(found, key=lambda one: (not one.active, one.name, one.uuid)))

    async def job_stats(self, uuid: str, *, completed: bool = False) -> model.JobStats | None:
        await self._answer("job_stats")
        if uuid not in self.here:
            return None
        return (self.completed_jobs if completed else self.jobs).get(uuid)

    async def stats(self) -> tuple[DomainStats, ...]:
        await self._answer("stats")
        return tuple(
            self.counters.get(one.uuid) or DomainStats(one.uuid, one.name, one.state)
            for one in self.here.values()
            if one.active
        )

    async def document(self, uuid: str, *, running: bool = False) -> model.DomainDocument:
        await self._answer("document")
        domain = self._domain(uuid)
        self._peers.documents[uuid] = domain
        shown = domain if running else self.definition(uuid)
        xml = self.documents.get(uuid) or document_of(shown)
        return model.DomainDocument(xml, autostart=uuid in self.autostarted)

    async def control_info(self, uuid: str) -> model.ControlInfo | None:
        await self._answer("control_info")
        if not self._runs(uuid):
            return None
        if uuid in self.hung:
            return model.ControlInfo(ControlState.OCCUPIED, self.hung[uuid])
        return model.ControlInfo(ControlState.OK)

    async def block_stats(self, uuid: str) -> tuple[BlockStats, ...] | None:
        await self._answer("block_stats")
        self._check_answers(uuid)
        if not self._runs(uuid):
            return None
        return self._blocks(uuid)

    async def block_stats_of(self, uuids: Collection[str]) -> Mapping[str, tuple[BlockStats, ...]]:
        await self._answer("block_stats_of")
        for uuid in uuids:
            self._check_answers(uuid)
        return {uuid: self._blocks(uuid) for uuid in uuids if self._runs(uuid)}

    async def disk_errors(self, uuid: str) -> tuple[model.DiskError, ...]:
        await self._answer("disk_errors")
        self._check_answers(uuid)
        return self.faulty.get(uuid, ()) if self._runs(uuid) else ()

    async def agent_answers(self, uuid: str) -> bool | None:
        await self._answer("agent_answers")
        return self.agents.get(uuid) if self._runs(uuid) else None

    # Control.

    async def migrate(self, uuid: str, options: model.MigrationOptions) -> None:
        self.migrations.append(options)
        await self._answer("migrate")
        domain, target = self._domain(uuid), self._peers.at(options.destination)
        if not target.connected:
            raise LibvirtRefusedError(f"unable to connect to {options.destination}")
        if not domain.active or uuid in self.jobs:
            raise LibvirtRefusedError(f"domain {domain.name} cannot be migrated now")
        for disk in domain.devices.disks:
            if disk.target in options.copies:
                await target.mark(*posixpath.split(disk.path))
            elif not await target.has_file(*posixpath.split(disk.path)):
                raise LibvirtRefusedError(f"{disk.path}: no such file on the target")
        self._moving[uuid] = asyncio.create_task(self._move(domain, target), name="fake migration")
        await asyncio.shield(self._moving[uuid])  # libvirt goes on without its caller

    async def abort(self, uuid: str) -> None:
        await self._answer("abort")
        if task := self._moving.get(uuid):
            task.cancel()

    async def force_complete(self, uuid: str) -> None:
        await self._answer("force_complete")
        self._hurried.add(uuid)

    async def boot(self, uuid: str, *, paused: bool = False) -> None:
        await self._answer("boot")
        domain = self._domain(uuid)
        if domain.active:
            raise LibvirtRefusedError("Requested operation is not valid: domain is already running")
        for disk in domain.devices.disks:
            if disk.path and not await self.has_file(*posixpath.split(disk.path)):
                raise LibvirtRefusedError(f"Cannot access storage file '{disk.path}'")
        self.start(uuid)
        if paused:
            self.suspend(uuid)

    async def define(self, document: model.DomainDocument) -> None:
        await self._answer("define")
        defined = domain_of(document.xml)
        if defined is None:
            raise LibvirtRefusedError("XML error: (domain_definition)")
        uuid = defined.uuid
        self.defined.append(document.xml)
        if uuid not in self.here:
            known = self._peers.documents.get(uuid, defined)
            self.add(
                replace(
                    known,
                    devices=defined.devices,
                    evacuated=defined.evacuated,
                    earlier=defined.earlier,
                )
            )
        else:
            self.redefine(defined)
        change = self.autostarted.add if document.autostart else self.autostarted.discard
        change(uuid)

    async def undefine(self, uuid: str) -> None:
        await self._answer("undefine")
        self.autostarted.discard(uuid)
        if uuid in self.here:
            self.lifecycle(uuid, Lifecycle.UNDEFINED)
            self.forget(uuid)

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

    async def _move(self, domain: model.Domain, target: FakeLibvirt) -> None:
        uuid, size = domain.uuid, domain.memory_bytes
        incoming = model.JobStats(model.JobType.UNBOUNDED, {"operation": model.MIGRATION_IN})
        paused = replace(
            domain, state=model.DomainState.PAUSED, reason=PausedReason.MIGRATION, id=-1
        )
        moving_in = target.here[uuid] = target.identified(paused)
        target.jobs[uuid] = incoming
        defined, arrived = self.definition(uuid), False
        try:
            for step in range(_STEPS):
                left = size * (_STEPS - step) // _STEPS
                values = {
                    "operation": model.MIGRATION_OUT,
                    "memory_total": size,
                    "memory_remaining": left,
                }
                self.jobs[uuid] = model.JobStats(model.JobType.UNBOUNDED, dict(values))
                if uuid in self._hurried:
                    break
                # In real time, as the callers poll it.
                await asyncio.sleep(self._peers.seconds.get(uuid, 0.1) / _STEPS)
                self._check_connected()
                target._check_connected()
                if uuid not in self.jobs or uuid not in target.jobs:  # its host was restarted
                    raise LibvirtError("migration: end of file while reading data")
            arrived = True
        except asyncio.CancelledError:
            raise LibvirtRefusedError("migration out job: canceled by client") from None
        finally:
            self._moving.pop(uuid, None)
            self._hurried.discard(uuid)
            self.jobs.pop(uuid, None)
            target.jobs.pop(uuid, None)
            left_over = self if arrived else target
            if uuid in left_over.here:
                left_over.forget(uuid)
            if arrived:
                ran = domain.state is model.DomainState.RUNNING
                reason = RunningReason.MIGRATED if ran else domain.reason
                target.here[uuid] = replace(domain, reason=reason, id=moving_in.id)
                target.redefine(defined)

    def _files(self, directory: str) -> set[str]:
        return self._peers.shared_files if directory in self._peers.shared else self.files

    def _blocks(self, uuid: str) -> tuple[BlockStats, ...]:
        return self.counters[uuid].blocks if uuid in self.counters else ()

    def _check_answers(self, uuid: str) -> None:
        if uuid in self.hung:
            raise DomainHungError(f"{uuid}: its emulator has been silent")

    async def _answer(self, method: str) -> None:
        self.calls[method] += 1
        await asyncio.sleep(self.delays.get(method, 0))  # 0 lets others run, as a socket does
        if method in self.failures:
            raise self.failures[method]
        self._check_connected()

    def _check_connected(self) -> None:
        if isinstance(state := self._events.state, Disconnected):
            raise LibvirtError(f"libvirt is not connected: {state.reason}")
