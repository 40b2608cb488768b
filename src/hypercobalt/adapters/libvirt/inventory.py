"""The questions that libvirt answers, each in as few calls as it takes.

Functions that block: they run on the thread of `calls`. A driver without a bulk call is asked
domain by domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import libvirt

from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.documents import capabilities, domain, domcapabilities
from hypercobalt.adapters.libvirt.documents.domain import Definition
from hypercobalt.adapters.libvirt.documents.tree import DocumentError
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainStats,
    HostCapabilities,
    HostCell,
    JobStats,
    JobType,
    Versions,
)
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.statistics import domain_state, domain_stats, job_of
from hypercobalt.adapters.libvirt.subscriptions import UNSUPPORTED, name_of

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


@dataclass(frozen=True, slots=True)
class Offer:
    """What a connection's driver has of the calls that not every driver has.

    Args:
        versions: of the daemon and its backend.
        bulk: virConnectGetAllDomainStats.
        domain_capabilities: virConnectGetDomainCapabilities.
    """

    versions: Versions
    bulk: bool
    domain_capabilities: bool

    def missing(self) -> tuple[str, ...]:
        """What is not there, in words for a person."""
        lacks = {
            "bulk statistics": not self.bulk,
            "domain capabilities": not self.domain_capabilities,
            "the version of the hypervisor": self.versions.hypervisor == "unknown",
        }
        return tuple(what for what, lacking in lacks.items() if lacking)


def offer(connection: libvirt.virConnect) -> Offer:
    """Ask the driver what it has, by calls that cost it nothing.

    Raises:
        libvirt.libvirtError: the connection broke meanwhile.
    """
    state = libvirt.VIR_DOMAIN_STATS_STATE
    return Offer(
        versions=Versions(
            libvirt=version_text(connection.getLibVersion()),
            hypervisor=_hypervisor_version(connection),
        ),
        bulk=has(lambda: connection.getAllDomainStats(state, _NOWAIT)),
        # Refused for its architecture, before any emulator is started.
        domain_capabilities=has(lambda: connection.getDomainCapabilities(None, "none")),
    )


def version_text(number: int) -> str:
    """A version number of libvirt as `major.minor.release`."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def host_capabilities(connection: libvirt.virConnect) -> HostCapabilities:
    """What the host has; a driver that lists no cells has one with everything in it."""
    try:
        found = capabilities.parse(connection.getCapabilities())
    except DocumentError as exc:
        raise LibvirtError(f"the host's capabilities cannot be read: {exc}") from exc
    if found.cells:
        return found
    _, memory_mib, cpus, *_ = connection.getInfo()
    return replace(found, cells=(HostCell(0, memory_mib * 1024**2, frozenset(range(cpus)), cpus),))


def domain_capabilities(connection: libvirt.virConnect) -> DomainCapabilities:
    """What the driver offers to domains; without the call, what is known anyway."""
    try:
        return domcapabilities.parse(connection.getDomainCapabilities())
    except DocumentError as exc:
        raise LibvirtError(f"the domain capabilities cannot be read: {exc}") from exc
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
    return DomainCapabilities(
        arch=host_capabilities(connection).arch, hypervisor_type=connection.getType().lower()
    )


def domains(
    connection: libvirt.virConnect, definitions: Definitions, *, bulk: bool
) -> tuple[Domain, ...]:
    """Every domain, as `Libvirt.domains` gives them."""
    states = _states_in_bulk(connection) if bulk else _states_singly(connection)
    found: list[Domain] = []
    for handle, state in states:
        uuid = handle.UUIDString()
        definition = definitions.get(uuid) or _read(handle, uuid, definitions)
        if definition is None:
            continue
        found.append(
            Domain(
                uuid=uuid,
                name=name_of(handle),
                active=handle.ID() >= 0,
                state=domain_state(state),
                memory_bytes=definition.memory_bytes,
                vcpus=definition.vcpus,
                pins=definition.pins,
                memory_nodes=definition.memory_nodes,
                problem=definition.problem,
            )
        )
    definitions.retain({one.uuid for one in found})
    return tuple(sorted(found, key=lambda one: (not one.active, one.name, one.uuid)))


def job(connection: libvirt.virConnect, uuid: str, *, completed: bool) -> JobStats | None:
    """A domain's present or last job; reading the last one leaves it to other readers."""
    flags = 0
    if completed:
        flags = libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED
    try:
        found = job_of(connection.lookupByUUIDString(uuid).jobStats(flags))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in _NO_JOB or not connection.isAlive():
            raise
        return None
    return None if found.type is JobType.NONE else found


def counters(connection: libvirt.virConnect, *, bulk: bool) -> tuple[DomainStats, ...]:
    """Counters of the active domains."""
    if bulk:
        return tuple(
            domain_stats(handle.UUIDString(), name_of(handle), values)
            for handle, values in connection.getAllDomainStats(_COUNTERS, _ACTIVE | _NOWAIT)
        )
    found: list[DomainStats] = []
    for handle in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        try:
            state, maximum_kib, memory_kib, vcpus, _ = handle.info()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            continue
        found.append(
            DomainStats(
                uuid=handle.UUIDString(),
                name=name_of(handle),
                state=domain_state(state),
                vcpu_count=vcpus,
                memory_bytes=memory_kib * 1024,
                memory_maximum_bytes=maximum_kib * 1024,
            )
        )
    return tuple(found)


def _read(handle: libvirt.virDomain, uuid: str, definitions: Definitions) -> Definition | None:
    """Ask for a domain's document; None when the domain has gone."""
    ticket = definitions.start_reading(uuid)
    try:
        definition = domain.parse(handle.XMLDesc())
    except UnicodeDecodeError:
        definition = Definition(problem="the document cannot be read: it is not UTF-8")
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        if not handle.connect().isAlive():
            raise
        return Definition(problem=f"libvirt does not give the document: {exc}")
    definitions.keep(uuid, definition, ticket)
    return definition


def _states_in_bulk(connection: libvirt.virConnect) -> Iterator[tuple[libvirt.virDomain, int]]:
    for handle, values in connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, _NOWAIT):
        state = values.get("state.state", 0)
        yield handle, state if isinstance(state, int) else 0


def _states_singly(connection: libvirt.virConnect) -> Iterator[tuple[libvirt.virDomain, int]]:
    for handle in connection.listAllDomains():
        try:
            state, _ = handle.state()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            continue
        yield handle, state


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
