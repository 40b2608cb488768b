"""Directory of the hosts of a site, from the Hypervisors of a cluster or from another source.

The address and the UUID of a host are what its Node and its node agent report, so both are checked
before they are used: an address is parsed before it goes into a URI, and of two hosts that claim
one address or UUID, the first holder in the operator's record (`api.holders`) keeps it; without a
record neither does. A host without a UUID of its own takes and gives no domains, because `identity`
compares it with that of the daemon.

Capacity is the amount that may be promised (`status.effectiveCapacity`), used the amount that the
node agent counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from typing import Protocol

from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.conditions import get_condition
from hypercobalt.api.fencing import assertion_of, is_declared_dead, only_word
from hypercobalt.api.holders import (
    address_form,
    held_address,
    held_uuid,
    reported_uuid,
    way_out,
)
from hypercobalt.api.hypervisor import CPU, MEMORY, Hypervisor, is_fenced
from hypercobalt.api.hypervisor_conditions import (
    AgentReportingReason,
    DefinitionsStoredReason,
    HypervisorConditionType,
)
from hypercobalt.api.quantity import Quantity, units
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.model import Size

_MIB = 1024 * 1024
_NOTHING = Size(0, 0)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Place:
    """One host.

    Args:
        name: of the Hypervisor.
        id: UUID that stays, for callers that need one.
        control: URI by which this process reaches its libvirtd.
        migration: URI by which the other hosts' libvirtds reach it.
        stream: URI of the memory's stream to it, `tcp://192.0.2.1`; "" leaves it to libvirt.
        capacity: resources that may be promised on it.
        used: resources that have been promised, according to its agent.
        domains: UUIDs of the domains that `used` counts.
        disabled: why it is out of service, according to its Hypervisor; "" when it is in service.
        closed: why no domain may go there; "" when one may.
        uuid: UUID of the host, according to its agent; "" before its first report.
        unidentified: why no daemon can prove that it is this host's; "" when no other host claims
            its UUID.
        refused: why no connection to it is made, in which case it has no URIs; "" when one may be.
        up: its libvirtd answers, according to its agent, which is not silent.
        reports: its agent is not silent, whatever it says.
        fenced: the boot that its agent reported last is proven dead.
        fenced_boot: id of the boot that was fenced, until the host is back in service; "" else.
        one_word: the only source that proves it dead, so that its guests may run on; "" for none.
        holds_address: the operator has recorded its address as its own.
        held_uuid: the host UUID that the operator has recorded for it; "" for none.
    """

    name: str
    id: str
    control: str
    migration: str
    stream: str = ""
    capacity: Size = _NOTHING
    used: Size = _NOTHING
    domains: frozenset[str] = frozenset()
    disabled: str = ""
    closed: str = ""
    uuid: str = ""
    unidentified: str = ""
    refused: str = ""
    up: bool = True
    reports: bool = False
    fenced: bool = False
    fenced_boot: str = ""
    one_word: str = ""
    holds_address: bool = False
    held_uuid: str = ""


class Directory(Protocol):
    """The hosts of a site."""

    def places(self) -> tuple[Place, ...]:
        """Return all of them, as known now."""
        ...


class HypervisorDirectory:
    """Directory of hosts by their Hypervisors.

    Args:
        hypervisors: returns the objects as known now.
        settings: how the hosts are reached.
    """

    def __init__(
        self, hypervisors: Callable[[], Iterable[Hypervisor]], settings: DirectSettings
    ) -> None:
        self._hypervisors, self._settings = hypervisors, settings

    def places(self) -> tuple[Place, ...]:
        known = (one for one in self._hypervisors() if _address(one))
        return distinct(tuple(place(one, self._settings) for one in known))


def fill(template: str, name: str, ip: str) -> str:
    """Return an address of a host.

    Raises:
        ValueError: the name or the address is invalid in a URI.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:64]!r} is not the name of a host")
    address = parse_host_address(ip)
    bracketed = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    return template.replace("{name}", name).replace("{ip}", bracketed)


def distinct(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Return the same hosts; where several claim one address or UUID, only its holder is accepted.

    Without a holder all of them are refused, each naming the rest: the owner cannot be known here.
    """
    uris, uuids = defaultdict[str, _Claimed](_Claimed), defaultdict[str, _Claimed](_Claimed)
    for one in places:
        for uri in filter(None, {one.control, one.migration, one.stream}):
            uris[uri].add(one.name, holds=one.holds_address)
        uuids[one.uuid].add(one.name, holds=bool(one.uuid) and one.held_uuid == one.uuid)
        if not one.uuid and one.held_uuid:
            uuids[one.held_uuid].add(one.name, holds=True)
    return tuple(_distinct(one, uris, uuids) for one in places)


@dataclass(slots=True)
class _Claimed:
    """Hosts that claim an address or a UUID, and the host that holds it."""

    by: set[str] = field(default_factory=set[str])
    held_by: set[str] = field(default_factory=set[str])

    def add(self, name: str, *, holds: bool) -> None:
        self.by.add(name)
        if holds:
            self.held_by.add(name)

    def refusal(self, name: str, has: str) -> str:
        """Return why the value is not that host's; "" where it is.

        Args:
            name: of the host.
            has: what all of the hosts have, for people.
        """
        if self.by == {name} or self.held_by == {name}:
            return ""
        if len(self.held_by) == 1:
            (holder,) = self.held_by
            return f"host {holder} holds {has}, which {name} claims as well: {way_out(holder)}"
        return f"hosts {', '.join(sorted(self.by))} have the same {has.removeprefix('the ')}"


def _distinct(one: Place, uris: Mapping[str, _Claimed], uuids: Mapping[str, _Claimed]) -> Place:
    for uri in filter(None, (one.control, one.migration, one.stream)):
        if why := uris[uri].refusal(one.name, f"the address ({uri})"):
            return _refused(one, why)
    if one.uuid and (why := uuids[one.uuid].refusal(one.name, f"the host UUID {one.uuid}")):
        return replace(one, unidentified=why, closed=one.closed or why)
    return one


def _refused(one: Place, why: str) -> Place:
    return replace(one, control="", migration="", stream="", refused=why, closed=why, up=False)


def place(hypervisor: Hypervisor, settings: DirectSettings) -> Place:
    """Return the host of a Hypervisor that has an address."""
    name, ip = hypervisor.metadata.name, _address(hypervisor)
    found = _without_address(hypervisor)
    try:
        return replace(
            found,
            control=fill(settings.control, name, ip),
            migration=fill(settings.migration, name, ip),
            stream=fill(settings.stream, name, ip),
        )
    except ValueError as exc:
        return _refused(found, f"its address in status.internalIp: {exc}")


def _address(hypervisor: Hypervisor) -> str:
    """Return a host's address; "" for none.

    A host whose status has lost it, as one that was restored, is where the operator has recorded
    it: one that is left out is looked at by nobody before its instances are started elsewhere.
    """
    return hypervisor.status.internalIp or held_address(hypervisor)


def _without_address(hypervisor: Hypervisor) -> Place:
    status, ip = hypervisor.status, _address(hypervisor)
    uuid = reported_uuid(hypervisor)
    unknown = "" if uuid else "its node agent has not reported the host's UUID (status.hostUUID)"
    return Place(
        name=hypervisor.metadata.name,
        id=hypervisor.metadata.uid,
        control="",
        migration="",
        uuid=uuid,
        unidentified=unknown,
        capacity=_size(status.effectiveCapacity or status.capacity),
        used=_size(status.allocation),
        domains=frozenset(instance.id for instance in status.instances),
        disabled=_why_disabled(hypervisor),
        closed=_why_closed(hypervisor) or unknown,
        up=_is_up(hypervisor),
        reports=_reports(hypervisor),
        fenced=is_fenced(hypervisor),
        fenced_boot=_fenced_boot(hypervisor),
        one_word=_one_word(hypervisor),
        holds_address=bool(ip) and address_form(ip) == held_address(hypervisor),
        held_uuid=held_uuid(hypervisor),
    )


def _one_word(hypervisor: Hypervisor) -> str:
    fencing = hypervisor.fencing
    if fencing is None or not is_fenced(hypervisor) or not (word := only_word(fencing)):
        return ""
    return f"{word}: it may run on; make sure that it does not, then set the annotation " + (
        f"{assertion_of(fencing.bootID)} of the Hypervisor"
    )


def _fenced_boot(hypervisor: Hypervisor) -> str:
    fencing = hypervisor.fencing
    if fencing is None or not is_declared_dead(fencing):
        return ""
    return fencing.bootID or "unknown"


def _why_disabled(hypervisor: Hypervisor) -> str:
    if hypervisor.metadata.deletionTimestamp is not None:
        return "it is being deleted"
    maintenance = hypervisor.spec.maintenance
    return f"it is in maintenance ({maintenance})" if maintenance else ""


def _why_closed(hypervisor: Hypervisor) -> str:
    if disabled := _why_disabled(hypervisor):
        return disabled
    if boot := _fenced_boot(hypervisor):
        return f"it was fenced (boot {boot}) and is not back in service"
    service = get_condition(hypervisor.conditions, HypervisorConditionType.HYPERVISOR_DISABLED)
    if service is not None and service.status == "True":
        return f"it is disabled: {service.message}"
    ready = get_condition(hypervisor.conditions, HypervisorConditionType.READY)
    if ready is None or ready.status != "True":
        return f"it is not ready: {ready.message}" if ready else "it is not ready"
    accepts = get_condition(hypervisor.conditions, HypervisorConditionType.ACCEPTS_NEW_INSTANCES)
    if accepts is not None and accepts.status == "False":
        return f"it takes no new instances: {accepts.message}"
    stored = get_condition(hypervisor.conditions, HypervisorConditionType.DEFINITIONS_STORED)
    if stored is not None and stored.reason == DefinitionsStoredReason.NOT_STORED:
        return f"what comes would be lost with the host: its agent stores nothing: {stored.message}"
    return "" if _is_up(hypervisor) else "its libvirtd does not answer"


def _reports(hypervisor: Hypervisor) -> bool:
    agent = get_condition(hypervisor.conditions, HypervisorConditionType.AGENT_REPORTING)
    return agent is not None and agent.status == "True"


def _is_up(hypervisor: Hypervisor) -> bool:
    agent = get_condition(hypervisor.conditions, HypervisorConditionType.AGENT_REPORTING)
    if agent is not None and agent.reason == AgentReportingReason.AGENT_SILENT:
        return False
    connection = get_condition(hypervisor.conditions, HypervisorConditionType.LIBVIRT_CONNECTION)
    return connection is not None and connection.status == "True"


def _size(resources: Mapping[str, Quantity]) -> Size:
    return Size(float(units(resources.get(CPU))), int(units(resources.get(MEMORY))) // _MIB)
