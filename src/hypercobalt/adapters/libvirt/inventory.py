"""Observe: what libvirt answers about a host and its domains, each in as few calls as it takes.

Without a bulk call in the driver, domains are read one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

from hypercobalt.adapters.libvirt import monitor
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.documents import capabilities, domain, domcapabilities
from hypercobalt.adapters.libvirt.documents.domain import Definition
from hypercobalt.adapters.libvirt.documents.tree import DocumentError
from hypercobalt.adapters.libvirt.events import Connected
from hypercobalt.adapters.libvirt.model import (
    MIGRATION_IN,
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    HostCell,
    JobStats,
    JobType,
    Versions,
)
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.refusals import NOT_RUNNING, UNSUPPORTED, unless
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import NotSupportedError, RemoteError
from hypercobalt.adapters.libvirt.rpc.numbers import (
    DomainStat,
    ErrorCode,
    JobFlag,
    ListFlag,
    StatsFlag,
)
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef, StatsRecord, Void
from hypercobalt.adapters.libvirt.statistics import (
    DomainStats,
    count,
    domain_state,
    domain_stats,
    job_of,
)
from hypercobalt.adapters.libvirt.vocabulary import ControlState

_Answer = TypeVar("_Answer")

_COUNTERS: Final = (
    DomainStat.STATE
    | DomainStat.VCPU
    | DomainStat.BALLOON
    | DomainStat.BLOCK
    | DomainStat.INTERFACE
)
_ALL: Final = ListFlag(0)
_HUNG_SECONDS: Final = 2.0  # an emulator that is well answers in milliseconds
# Hostile metadata takes a second to read; a guest with 500 devices has some 250 KiB.
_LONG_DOCUMENT: Final = 64 * 1024
# libvirt has the statistics of a migration on its source host only, and refuses with this error.
_ONLY_ON_THE_SOURCE: Final = ErrorCode.OPERATION_UNSUPPORTED
_INCOMING: Final = JobStats(JobType.UNBOUNDED, {"operation": MIGRATION_IN})


async def describe(client: Client) -> Connected:
    """The versions of a daemon and what its driver lacks, by calls that cost it nothing.

    Raises:
        RpcError: the connection broke meanwhile.
    """
    version = (await client.call(protocol.GET_LIB_VERSION, Void())).version
    backend = await _unless_unsupported(client.call(protocol.GET_VERSION, Void()))
    # Refused for its architecture, before any emulator is started.
    nowhere = protocol.Capabilities(arch="none")
    lacks = {
        "bulk statistics": not await _has(_records(client, DomainStat.STATE, StatsFlag(0))),
        "domain capabilities": not await _has(
            client.call(protocol.GET_DOMAIN_CAPABILITIES, nowhere)
        ),
        "the version of the hypervisor": backend is None,
    }
    hypervisor = version_text(backend.version) if backend else "unknown"
    missing = tuple(what for what, lacking in lacks.items() if lacking)
    return Connected(Versions(version_text(version), hypervisor), missing)


def version_text(number: int) -> str:
    """A version number of libvirt as `major.minor.release`."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


async def lookup(client: Client, uuid: str) -> DomainRef:
    """The domain with this UUID.

    Raises:
        RemoteError: there is none.
    """
    arguments = protocol.ByUuid(UUID(uuid).bytes)
    return (await client.call(protocol.DOMAIN_LOOKUP_BY_UUID, arguments)).domain


async def host_capabilities(client: Client) -> HostCapabilities:
    """What the host has; a driver that lists no cells has one with everything in it."""
    try:
        found = capabilities.parse((await client.call(protocol.GET_CAPABILITIES, Void())).text)
    except DocumentError as exc:
        raise LibvirtRefusedError(f"the host's capabilities cannot be read: {exc}") from exc
    if found.cells:
        return found
    node = await client.call(protocol.NODE_GET_INFO, Void())
    cell = HostCell(0, node.memory_kib * 1024, frozenset(range(node.cpus)), node.cpus)
    return replace(found, cells=(cell,))


async def domain_capabilities(client: Client) -> DomainCapabilities:
    """What the driver offers to domains; without the call, what is known anyway."""
    arguments = client.call(protocol.GET_DOMAIN_CAPABILITIES, protocol.Capabilities())
    try:
        if answer := await _unless_unsupported(arguments):
            return domcapabilities.parse(answer.text)
    except DocumentError as exc:
        raise LibvirtRefusedError(f"the domain capabilities cannot be read: {exc}") from exc
    return DomainCapabilities(
        arch=(await host_capabilities(client)).arch,
        hypervisor_type=(await client.call(protocol.GET_TYPE, Void())).text.lower(),
    )


async def domains(client: Client, definitions: Definitions, *, jobs: bool) -> tuple[Domain, ...]:
    """Every domain, as `Observe.domains` gives them."""
    saved = await _saved(client)
    found: list[Domain] = []
    async for ref, state, reason in _states(client):
        uuid = ref.uuid_text
        try:
            definition = definitions.get(uuid, ref.id) or await _read(client, ref, definitions)
            job_now = await _job_unless_hung(client, ref) if jobs and ref.id >= 0 else None
        except RemoteError as exc:
            if exc.code != ErrorCode.NO_DOMAIN:
                raise
            continue  # it has gone meanwhile
        one = definition.domain(uuid, ref.readable_name, state, active=ref.id >= 0)
        found.append(replace(one, id=ref.id, reason=reason, saved=uuid in saved, job=job_now))
    definitions.retain({one.uuid for one in found})
    return tuple(sorted(found, key=lambda one: (not one.active, one.name, one.uuid)))


async def job(client: Client, uuid: str, *, completed: bool) -> JobStats | None:
    """A domain's present or last job; reading the last one leaves it to other readers."""
    ref = await unless({ErrorCode.NO_DOMAIN}, lookup(client, uuid))
    return ref and await _job(client, ref, completed=completed)


async def _job_unless_hung(client: Client, ref: DomainRef) -> JobStats | None:
    """A domain's present job; None where its emulator hangs: the call would wait for it, too."""
    way = await monitor.control_info(client, ref)
    hangs = way and way.state is ControlState.OCCUPIED and way.seconds >= _HUNG_SECONDS
    return None if hangs else await _job(client, ref)


async def _job(client: Client, ref: DomainRef, *, completed: bool = False) -> JobStats | None:
    flags = JobFlag.COMPLETED | JobFlag.KEEP_COMPLETED if completed else JobFlag(0)
    try:
        answer = await client.call(protocol.DOMAIN_GET_JOB_STATS, protocol.DomainFlags(ref, flags))
    except RemoteError as exc:
        if exc.code == _ONLY_ON_THE_SOURCE and not completed:
            return _INCOMING
        if exc.code not in NOT_RUNNING:
            raise
        return None
    found = job_of(dict(answer.parameters) | {"type": answer.type})
    return None if found.type is JobType.NONE else found


async def counters(client: Client) -> tuple[DomainStats, ...]:
    """Counters of the active domains."""
    records = await _unless_unsupported(_records(client, _COUNTERS, StatsFlag.ACTIVE))
    if records is not None:
        return tuple(
            domain_stats(one.uuid_text, one.readable_name, dict(found)) for one, found in records
        )
    return tuple(
        [
            DomainStats(
                uuid=ref.uuid_text,
                name=ref.readable_name,
                state=domain_state(info.state),
                vcpu_count=info.vcpus,
                memory_bytes=info.memory_kib * 1024,
            )
            async for ref, info in _singly(
                client,
                lambda ref: client.call(protocol.DOMAIN_GET_INFO, protocol.OneDomain(ref)),
                ListFlag.ACTIVE,
            )
        ]
    )


async def _read(client: Client, ref: DomainRef, definitions: Definitions) -> Definition:
    """Read a domain's document.

    Raises:
        RpcError: the domain has gone, or the connection broke.
    """
    ticket = definitions.start_reading(ref.uuid_text)
    try:
        answer = await client.call(protocol.DOMAIN_GET_XML_DESC, protocol.DomainFlags(ref))
    except RemoteError as exc:
        if exc.code == ErrorCode.NO_DOMAIN:
            raise
        return Definition(problem=f"libvirt does not give the document: {exc}")
    definition = definitions.same(ref.uuid_text, answer.text)
    if definition is None:
        definition = await _parsed(answer.text)
        definitions.parsed(ref.uuid_text, answer.text, definition)
    definitions.keep(ref.uuid_text, ref.id, definition, ticket)
    return definition


async def _parsed(document: str) -> Definition:
    if len(document) > _LONG_DOCUMENT:
        return await asyncio.to_thread(domain.parse, document)
    return domain.parse(document)


async def _saved(client: Client) -> set[str]:
    """UUIDs of the domains whose memory is saved in a file."""
    found = await unless(UNSUPPORTED, _list(client, ListFlag.MANAGED_SAVE))
    return {one.uuid_text for one in found or ()}


async def _states(client: Client) -> AsyncIterator[tuple[DomainRef, DomainState, int]]:
    """Domains with their states and the reasons of these."""
    records = await _unless_unsupported(_records(client, DomainStat.STATE, StatsFlag(0)))
    if records is None:
        async for ref, found in _singly(
            client, lambda ref: client.call(protocol.DOMAIN_GET_STATE, protocol.DomainFlags(ref))
        ):
            yield ref, domain_state(found.state), found.reason
        return
    for ref, parameters in records:
        values = dict(parameters)
        yield ref, domain_state(count(values, "state.state")), count(values, "state.reason")


async def _records(client: Client, stats: DomainStat, flags: StatsFlag) -> tuple[StatsRecord, ...]:
    # A domain that is busy with a long job answers with what needs no wait.
    arguments = protocol.AllStats((), stats, flags | StatsFlag.NOWAIT)
    return (await client.call(protocol.GET_ALL_DOMAIN_STATS, arguments)).records


async def _list(client: Client, flags: ListFlag) -> tuple[DomainRef, ...]:
    arguments = protocol.ListDomains(flags=flags)
    return (await client.call(protocol.LIST_ALL_DOMAINS, arguments)).domains


async def _singly(
    client: Client,
    read: Callable[[DomainRef], Awaitable[_Answer]],
    flags: ListFlag = _ALL,
) -> AsyncIterator[tuple[DomainRef, _Answer]]:
    """Each domain with its answer; those that go meanwhile are left out."""
    for ref in await _list(client, flags):
        try:
            yield ref, await read(ref)
        except RemoteError as exc:
            if exc.code != ErrorCode.NO_DOMAIN:
                raise


async def _unless_unsupported(call: Awaitable[_Answer]) -> _Answer | None:
    """The answer; None from a driver that has no such call."""
    try:
        return await call
    except NotSupportedError:
        return None


async def _has(call: Awaitable[object]) -> bool:
    """The driver offers this call, whatever it answers."""
    try:
        await call
    except RemoteError as exc:
        return not isinstance(exc, NotSupportedError)
    return True
