"""The real `Observe` and `Control`: the same calls over a connection that is kept or on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from hypercobalt.adapters.libvirt import control, inventory, probes, storage
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.links import Answer, Call
from hypercobalt.adapters.libvirt.model import (
    ControlInfo,
    DiskError,
    Domain,
    DomainCapabilities,
    DomainDocument,
    HostCapabilities,
    JobStats,
    MigrationOptions,
)
from hypercobalt.adapters.libvirt.rpc.protocol import PoolRef
from hypercobalt.adapters.libvirt.shared_reads import SharedReads
from hypercobalt.adapters.libvirt.statistics import BlockStats, DomainStats

DEADLINE: Final = 10.0
"""Seconds for a call."""

_JOB_DEADLINE: Final = 3.0  # a QEMU that is well answers in milliseconds
_AGENT_DEADLINE: Final = 5.0  # beyond that by which libvirt gives the guest's agent up
_BOOT_DEADLINE: Final = 60.0  # memory in huge pages is set up first
_DESTROY_DEADLINE: Final = 60.0  # libvirt waits 10 s, kills, and waits for the kernel 30 s more


class Connection(Protocol):
    """Carries calls to one daemon."""

    async def run(
        self, what: str, call: Call[Answer], deadline: float, *, subject: str = ""
    ) -> Answer:
        """Make a call, with libvirt's errors translated.

        Args:
            what: the call, for the error.
            call: makes it on the connection.
            deadline: seconds, connecting included.
            subject: what may hang, by which few such calls are under way: a domain's UUID.

        Raises:
            LibvirtError: see the module `port`.
        """
        ...


class Host:
    """See `hypercobalt.adapters.libvirt.port`.

    Args:
        uri: of the daemon.
        connection: carries the calls.
        probes: carries the probes of single domains, so that hung ones hold up nothing else.
        definitions: what is known of the domains' documents.
        deadline: of a call, seconds; of one about a job at most 3 s.
        slow_deadline: of a call for capabilities, seconds.
    """

    def __init__(
        self,
        uri: str,
        connection: Connection,
        definitions: Definitions,
        *,
        probes: Connection | None = None,
        deadline: float = DEADLINE,
        slow_deadline: float = 60.0,
    ) -> None:
        self._uri, self._connection = uri, connection
        self._probes, self._definitions = probes or connection, definitions
        self._deadline, self._slow_deadline = deadline, slow_deadline
        self._reads = SharedReads[str, PoolRef | None]()

    async def capabilities(self) -> HostCapabilities:
        return await self._call(
            "capabilities", inventory.host_capabilities, deadline=self._slow_deadline
        )

    async def domain_capabilities(self) -> DomainCapabilities:
        return await self._call(
            "domain capabilities", inventory.domain_capabilities, deadline=self._slow_deadline
        )

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        return await self._call(
            "list of domains", lambda link: inventory.domains(link, self._definitions, jobs=jobs)
        )

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        return await self._call(
            f"job of domain {uuid}",
            lambda link: inventory.job(link, uuid, completed=completed),
            deadline=min(self._deadline, _JOB_DEADLINE),
            subject=uuid,
        )

    async def stats(self) -> tuple[DomainStats, ...]:
        # Waits for every QEMU, so for a hung one, too.
        return await self._call("counters of domains", inventory.counters, subject="counters")

    async def document(self, uuid: str, *, running: bool = False) -> DomainDocument:
        return await self._call(
            f"document of {uuid}", lambda link: control.document(link, uuid, running=running)
        )

    async def control_info(self, uuid: str) -> ControlInfo | None:
        return await self._probe(
            f"monitor of {uuid}", lambda link: probes.control_info(link, uuid), subject=""
        )

    async def block_stats(self, uuid: str) -> tuple[BlockStats, ...] | None:
        return await self._probe(
            f"disks of {uuid}", lambda link: probes.block_stats(link, uuid), subject=uuid
        )

    async def block_stats_of(self, uuids: Collection[str]) -> Mapping[str, tuple[BlockStats, ...]]:
        return await self._probe(
            f"disks of {len(uuids)} domains",
            lambda link: probes.block_stats_of(link, uuids),
            subject=" ".join(uuids),
        )

    async def disk_errors(self, uuid: str) -> tuple[DiskError, ...]:
        return await self._probe(
            f"disk errors of {uuid}", lambda link: probes.disk_errors(link, uuid), subject=uuid
        )

    async def agent_answers(self, uuid: str) -> bool | None:
        return await self._probe(
            f"guest agent of {uuid}",
            lambda link: probes.agent_answers(link, uuid),
            subject=f"agent {uuid}",
            deadline=_AGENT_DEADLINE,
        )

    async def migrate(self, uuid: str, options: MigrationOptions) -> None:
        await control.migrate(self._uri, uuid, options)

    async def abort(self, uuid: str) -> None:
        await self._call(f"abort of the job of {uuid}", lambda link: control.abort(link, uuid))

    async def force_complete(self, uuid: str) -> None:
        await self._call(
            f"longer downtime of {uuid}", lambda link: control.force_complete(link, uuid)
        )

    async def resume(self, uuid: str) -> None:
        await self._call(f"resume of {uuid}", lambda link: control.resume(link, uuid))

    async def destroy(self, uuid: str, *, graceful: bool = False) -> None:
        await self._call(
            f"destroying {uuid}",
            lambda link: control.destroy(link, uuid, graceful=graceful),
            deadline=_DESTROY_DEADLINE,
        )

    async def boot(self, uuid: str, *, paused: bool = False) -> None:
        await self._call(
            f"start of {uuid}",
            lambda link: control.boot(link, uuid, paused=paused),
            deadline=_BOOT_DEADLINE,
            subject=uuid,
        )

    async def pause(self, uuid: str) -> None:
        await self._call(f"pause of {uuid}", lambda link: control.pause(link, uuid), subject=uuid)

    async def reset(self, uuid: str) -> None:
        await self._call(f"reset of {uuid}", lambda link: control.reset(link, uuid), subject=uuid)

    async def reboot(self, uuid: str) -> None:
        await self._call(f"reboot of {uuid}", lambda link: control.reboot(link, uuid), subject=uuid)

    async def shutdown(self, uuid: str) -> None:
        await self._call(
            f"shutdown of {uuid}", lambda link: control.shutdown(link, uuid), subject=uuid
        )

    async def metadata(self, uuid: str, namespace: str) -> str | None:
        return await self._call(
            f"metadata of {uuid}", lambda link: control.metadata(link, uuid, namespace)
        )

    async def set_metadata(self, uuid: str, namespace: str, prefix: str, element: str) -> None:
        await self._call(
            f"new metadata of {uuid}",
            lambda link: control.set_metadata(link, uuid, namespace, prefix, element),
        )

    async def define(self, document: DomainDocument) -> None:
        await self._call("definition of a domain", lambda link: control.define(link, document))

    async def undefine(self, uuid: str) -> None:
        await self._call(f"undefining {uuid}", lambda link: control.undefine(link, uuid))

    async def make_directory(self, directory: str) -> None:
        await self._call(
            f"directory {directory}", lambda link: storage.make_directory(link, directory)
        )

    async def mark(self, directory: str, name: str) -> None:
        await self._call(
            f"file {directory}/{name}",
            lambda link: storage.mark(link, directory, name),
            subject=f"directory {directory}",
        )

    async def has_file(self, directory: str, name: str) -> bool:
        pool = await self._reads.get(directory, lambda: self._read(directory))
        if pool is None:
            return False
        found = await self._call(
            f"file {directory}/{name}", lambda link: storage.find(link, pool, name)
        )
        return found is not None

    async def _read(self, directory: str) -> PoolRef | None:
        return await self._call(
            f"directory {directory}",
            lambda link: storage.read(link, directory),
            subject=f"directory {directory}",
        )

    async def delete_file(self, directory: str, name: str) -> None:
        await self._call(
            f"deleting {directory}/{name}", lambda link: storage.delete_file(link, directory, name)
        )

    async def _call(
        self, what: str, call: Call[Answer], *, deadline: float = 0, subject: str = ""
    ) -> Answer:
        what = f"{what} on {self._uri}"
        return await self._connection.run(what, call, deadline or self._deadline, subject=subject)

    async def _probe(
        self, what: str, call: Call[Answer], *, subject: str, deadline: float = _JOB_DEADLINE
    ) -> Answer:
        what, deadline = f"{what} on {self._uri}", min(self._deadline, deadline)
        return await self._probes.run(what, call, deadline, subject=subject)
