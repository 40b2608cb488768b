"""Servers of hosts that are proven dead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.api.definitions import DomainDefinition
from hypercobalt.compute.direct import servers
from hypercobalt.compute.direct.answers import translated
from hypercobalt.compute.direct.definitions import stored_domain
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.obstacles import IsShared
from hypercobalt.compute.direct.remains import remains
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.model import Server

UNKNOWN: Final = "UNKNOWN"
EVACUATING: Final = "evacuating"


@dataclass(frozen=True, slots=True)
class DeadDomain:
    """A domain of a dead host.

    Args:
        domain: as it was on the host.
        place: the host.
        xml: its document, which must never be logged.
        mark: see `HostDefinitions`.
        autostart: the domain starts with the host.
    """

    domain: Domain
    place: Place
    xml: str = field(repr=False)
    mark: str
    autostart: bool


async def servers_of(site: Site, place: Place) -> tuple[Server, ...]:
    """Return the servers that are still on a dead host.

    A disk counts as shared as long as a host has not answered whether it is: that host's storage
    may hang. A server that cannot be started then is refused, and tried again later.

    Raises:
        UnreachableError: its definitions cannot be read.
    """
    others = site.hosts.others(place.name)
    with translated(f"host {place.name}"):
        found = await remains(site.witnesses, place, others)
    stored = found.stored
    answering = [one for one in others if one.name in found.answering]
    await site.sharing.learn_dead(found.domains, stored.mark, place, answering)

    def is_shared(disk: Disk) -> bool:
        known = site.sharing.is_shared(disk, place.name)
        return known or site.sharing.is_open(disk, place, answering)

    listed = list[Server]()
    for one in found.domains:
        listed.append(server(site, one, place, is_shared, stored.domains[one.uuid]))
        await asyncio.sleep(0)  # each takes a millisecond: the loop goes on in between
    return (
        *listed,
        *(_unknown(place, uuid, name) for uuid, name in stored.left_out.items()),
    )


async def has_stored(site: Site, place: Place, uuid: str) -> bool:
    """Whether a dead host has stored a domain, or at least its name.

    Raises:
        UnreachableError: its definitions cannot be read.
    """
    with translated(f"host {place.name}"):
        stored = await site.witnesses.definitions(place.name)
    return uuid in stored.domains or uuid in stored.left_out


async def find(site: Site, place: Place, uuid: str, others: Iterable[Place]) -> DeadDomain | None:
    """Read a domain that a dead host has stored, and whether other hosts share its disks.

    Raises:
        UnreachableError: its definitions cannot be read.
    """
    with translated(f"host {place.name}"):
        stored = await site.witnesses.definitions(place.name)
    kept = stored.domains.get(uuid)
    if kept is None:
        return None
    domain = stored_domain(stored, uuid)
    await site.sharing.learn_dead((domain,), stored.mark, place, others)
    return DeadDomain(domain, place, kept.xml, stored.mark, kept.autostart)


def strict(site: Site, found: DeadDomain) -> Server:
    """Return the server that a domain of a dead host is, by certain knowledge only."""
    place = found.place
    known = partial(site.sharing.is_shared, here=place.name)
    return server(site, found.domain, place, known, found)


def server(
    site: Site,
    domain: Domain,
    place: Place,
    is_shared: IsShared,
    stored: DomainDefinition | DeadDomain,
) -> Server:
    """Return the server that a domain of a dead host is."""
    found = servers.server(
        domain,
        place.name,
        is_shared,
        autostart=stored.autostart,
        one_word=place.one_word,
        not_carried=site.carrying.obstacle(stored.xml, domain.uuid),
    )
    busy = site.records.holds_back(domain.uuid, place.name)
    died = None if not domain.active else found.died  # libvirt's reason is not stored
    return replace(found, hindrance="", died=died, task_state=EVACUATING if busy else "")


def _unknown(place: Place, uuid: str, name: str) -> Server:
    why = "its host has stored its name alone: the definition did not fit, or libvirt refused it"
    return Server(uuid, name, place.name, UNKNOWN, waits_for_host=why)
