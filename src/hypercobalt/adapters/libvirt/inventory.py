"""Observe: what libvirt answers about a host and its domains, each in as few calls as it takes.

Functions that block. A driver without a bulk call is asked domain by domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import libvirt

from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.documents import capabilities, domain, domcapabilities
from hypercobalt.adapters.libvirt.documents.domain import Definition
from hypercobalt.adapters.libvirt.documents.tree import DocumentError
from hypercobalt.adapters.libvirt.model import (
    MIGRATION_IN,
    Connected,
    Domain,
    DomainCapabilities,
    DomainState,
    DomainStats,
    HostCapabilities,
    HostCell,
    JobStats,
    JobType,
    Versions,
)
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.statistics import count, domain_state, domain_stats, job_of
from hypercobalt.adapters.libvirt.subscriptions import UNSUPPORTED, name_of

_Answer = TypeVar("_Answer")

# A domain that is busy with a long job answers with what needs no wait.
_NOWAIT = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
_ACTIVE = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
_COUNTERS = (
    libvirt.VIR_DOMAIN_STATS_STATE
    | libvirt.VIR_DOMAIN_STATS_VCPU
    | libvirt.VIR_DOMAIN_STATS_BALLOON
    | libvirt.VIR_DOMAIN_STATS_BLOCK
    | libvirt.VIR_DOMAIN_STATS_INTERFACE
)
_NO_JOB = {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID} | UNSUPPORTED
_PAUSED_MIGRATION = 2  # virDomainPausedReason
# libvirt has the statistics of a migration on its source host only, and refuses with this error.
_ONLY_ON_THE_SOURCE = libvirt.VIR_ERR_OPERATION_UNSUPPORTED
_INCOMING = JobStats(JobType.UNBOUNDED, {"operation": MIGRATION_IN})


def describe(connection: libvirt.virConnect) -> Connected:
    """The versions of a daemon and what its driver lacks, by calls that cost it nothing.

    Raises:
        libvirt.libvirtError: the connection broke meanwhile.
    """
    state = libvirt.VIR_DOMAIN_STATS_STATE
    versions = Versions(
        libvirt=version_text(connection.getLibVersion()),
        hypervisor=_hypervisor_version(connection),
    )
    offers = {
        "bulk statistics": has(lambda: connection.getAllDomainStats(state, _NOWAIT)),
        # Refused for its architecture, before any emulator is started.
        "domain capabilities": has(lambda: connection.getDomainCapabilities(None, "none")),
        "the version of the hypervisor": versions.hypervisor != "unknown",
    }
    return Connected(versions, tuple(what for what, offered in offers.items() if not offered))


def version_text(number: int) -> str:
    """A version number of libvirt as `major.minor.release`."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def host_capabilities(connection: libvirt.virConnect) -> HostCapabilities:
    """What the host has; a driver that lists no cells has one with everything in it."""
    try:
        found = capabilities.parse(connection.getCapabilities())
    except (DocumentError, UnicodeDecodeError) as exc:
        raise LibvirtRefusedError(f"the host's capabilities cannot be read: {exc}") from exc
    if found.cells:
        return found
    _, memory_mib, cpus, *_ = connection.getInfo()
    return replace(found, cells=(HostCell(0, memory_mib * 1024**2, frozenset(range(cpus)), cpus),))


def domain_capabilities(connection: libvirt.virConnect) -> DomainCapabilities:
    """What the driver offers to domains; without the call, what is known anyway."""
    try:
        return domcapabilities.parse(connection.getDomainCapabilities())
    except (DocumentError, UnicodeDecodeError) as exc:
        raise LibvirtRefusedError(f"the domain capabilities cannot be read: {exc}") from exc
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
    return DomainCapabilities(
        arch=host_capabilities(connection).arch, hypervisor_type=connection.getType().lower()
    )


def domains(
    connection: libvirt.virConnect, definitions: Definitions, *, jobs: bool
) -> tuple[Domain, ...]:
    """Every domain, as `Observe.domains` gives them."""
    saved = _saved(connection)
    found: list[Domain] = []
    for handle, state, reason in _states(connection):
        uuid = handle.UUIDString()
        try:
            definition = definitions.get(uuid, handle.ID()) or _read(handle, uuid, definitions)
            job_now = _job(handle) if jobs and handle.ID() >= 0 else None
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            continue  # it has gone meanwhile
        found.append(
            Domain(
                uuid=uuid,
                name=name_of(handle),
                active=handle.ID() >= 0,
                state=state,
                memory_bytes=definition.memory_bytes,
                vcpus=definition.vcpus,
                pins=definition.pins,
                memory_nodes=definition.memory_nodes,
                devices=definition.devices,
                problem=definition.problem,
                paused_by_migration=state is DomainState.PAUSED and reason == _PAUSED_MIGRATION,
                saved=uuid in saved,
                job=job_now,
            )
        )
    definitions.retain({one.uuid for one in found})
    return tuple(sorted(found, key=lambda one: (not one.active, one.name, one.uuid)))


def job(connection: libvirt.virConnect, uuid: str, *, completed: bool) -> JobStats | None:
    """A domain's present or last job; reading the last one leaves it to other readers."""
    try:
        return _job(connection.lookupByUUIDString(uuid), completed=completed)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return None


def _job(handle: libvirt.virDomain, *, completed: bool = False) -> JobStats | None:
    flags = 0
    if completed:
        flags = libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED
    try:
        found = job_of(handle.jobStats(flags))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == _ONLY_ON_THE_SOURCE and not completed:
            return _INCOMING
        if exc.get_error_code() not in _NO_JOB or not handle.connect().isAlive():
            raise
        return None
    return None if found.type is JobType.NONE else found


def counters(connection: libvirt.virConnect) -> tuple[DomainStats, ...]:
    """Counters of the active domains."""
    try:
        records = connection.getAllDomainStats(_COUNTERS, _ACTIVE | _NOWAIT)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
    else:
        return tuple(domain_stats(one.UUIDString(), name_of(one), found) for one, found in records)
    return tuple(
        DomainStats(
            uuid=handle.UUIDString(),
            name=name_of(handle),
            state=domain_state(state),
            vcpu_count=vcpus,
            memory_bytes=memory_kib * 1024,
            memory_maximum_bytes=maximum_kib * 1024,
        )
        for handle, (state, maximum_kib, memory_kib, vcpus, _) in _singly(
            connection, lambda one: one.info(), libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
        )
    )


def _read(handle: libvirt.virDomain, uuid: str, definitions: Definitions) -> Definition:
    """Read a domain's document.

    Raises:
        libvirt.libvirtError: the domain has gone, or the connection broke.
    """
    ticket = definitions.start_reading(uuid)
    try:
        definition = domain.parse(handle.XMLDesc())
    except UnicodeDecodeError:
        definition = Definition(problem="the document cannot be read: it is not UTF-8")
    except libvirt.libvirtError as exc:
        gone = exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN
        if gone or not handle.connect().isAlive():
            raise
        return Definition(problem=f"libvirt does not give the document: {exc}")
    definitions.keep(uuid, handle.ID(), definition, ticket)
    return definition


def _saved(connection: libvirt.virConnect) -> set[str]:
    """UUIDs of the domains whose memory is saved in a file."""
    try:
        listed = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in UNSUPPORTED or not connection.isAlive():
            raise
        return set()
    return {one.UUIDString() for one in listed}


def _states(
    connection: libvirt.virConnect,
) -> Iterator[tuple[libvirt.virDomain, DomainState, int]]:
    """Domains with their states and the reasons of these."""
    try:
        records = connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, _NOWAIT)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        for one, (state, reason) in _singly(connection, lambda one: one.state()):
            yield one, domain_state(state), reason
        return
    for one, values in records:
        yield one, domain_state(count(values, "state.state")), count(values, "state.reason")


def _singly(
    connection: libvirt.virConnect, ask: Callable[[libvirt.virDomain], _Answer], flags: int = 0
) -> Iterator[tuple[libvirt.virDomain, _Answer]]:
    """Each domain with its answer; those that go meanwhile are left out."""
    for one in connection.listAllDomains(flags):
        try:
            yield one, ask(one)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise


def has(call: Callable[[], object]) -> bool:
    """The driver offers this call, whatever it answers."""
    try:
        call()
    except libvirt.libvirtError as exc:
        return exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT
    return True


def _hypervisor_version(connection: libvirt.virConnect) -> str:
    try:
        return version_text(connection.getVersion())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return "unknown"
