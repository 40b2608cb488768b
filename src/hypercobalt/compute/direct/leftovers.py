"""Repairs the network after a process that ended in the middle of its moves.

A port between hosts is what the ended process has recorded of a move. Either of its two hosts lists
any domain, so neither's list alone decides: a port is bound where one of them has the domain, and
the other reports that it has none, or that the domain has left it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct.claims import ports_taken
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.direct.outcome import HostView, view_of
from hypercobalt.compute.direct.site import Site
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_SETTLED: Final = frozenset({HostView.RUNS, HostView.OFF})


_AGAIN: Final = 60.0
"""Seconds between two looks at ports that are left over: a host has come back, or a person has
undefined a copy. A guest has its network meanwhile, on both hosts."""


async def settle_until_done(site: Site, left: frozenset[str]) -> None:
    """Look at ports that are left over until none of them is.

    Args:
        site: see there.
        left: what `settle_ports` has returned.
    """
    while left:
        await asyncio.sleep(_AGAIN)  # no event says that a host answers again
        try:
            left &= await settle_ports(site)
        except TransientError as exc:
            log.warning("ports_between_hosts_not_settled", reason=str(exc))


async def settle_ports(site: Site) -> frozenset[str]:
    """Bind each port that may be on several hosts to the one where its domain is.

    Ports of a domain on its way are left alone: the move's follower binds them at its end, unless
    another host claims to have the domain.

    Returns:
        The ports that are left over, those of moves that are followed included.

    Raises:
        TransientError: the network cannot be read or changed.
    """
    between = await site.ports.between_hosts()
    if not between:
        return frozenset()
    places = site.hosts.all_places()
    listed = await site.listed(places)
    unknown = {one.name for one in places if one.name not in listed and not one.fenced}
    open_ports = set(between)
    for uuid, there in _by_uuid(listed, between).items():
        if site.records.under_way(uuid):
            continue
        home = _home(there)
        if not home:
            log.warning("ports_not_settled", server=uuid, hosts=sorted(there))
            continue
        domain = there[home]
        ports = [
            one
            for one in domain.devices.ports
            if home in between.get(one, ()) and unknown.isdisjoint(between[one])
        ]
        if ports and (why := ports_taken(domain, listed)):
            log.warning("ports_not_settled", server=uuid, host=home, why=why.text)
        elif ports:
            log.info("ports_settled", server=uuid, host=home)
            await site.ports.bind(ports, (home,))
            open_ports.difference_update(ports)
    return frozenset(open_ports)


def _by_uuid(
    listed: Mapping[str, Iterable[Domain]], between: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, Domain]]:
    """Return the domains that have ports between hosts: by UUID, then by the name of the host.

    Of such a domain each copy on one of these hosts is there, whatever ports that has.
    """
    hosts = dict[str, set[str]]()
    for host, domains in listed.items():
        for domain in domains:
            for port in domain.devices.ports:
                if host in between.get(port, ()):
                    hosts.setdefault(domain.uuid, set()).update(between[port])
    found: dict[str, dict[str, Domain]] = {uuid: {} for uuid in hosts}
    for host, domains in listed.items():
        for domain in domains:
            if host in hosts.get(domain.uuid, ()):
                found[domain.uuid][host] = domain
    return found


def _home(there: Mapping[str, Domain]) -> str:
    """Return the only host that has a domain, and has it in no move; "" for none or several."""
    staying = [host for host in there if not _has_gone(host, there)]
    if len(staying) == 1 and view_of(there[staying[0]]) in _SETTLED:
        return staying[0]
    return ""


def _has_gone(host: str, there: Mapping[str, Domain]) -> bool:
    """Whether a host reports that its copy is what a move to another host has left or begun."""
    copy, others = there[host], [other for other in there if other != host]
    if copy.active or not others:
        return False
    left = copy.reason == ShutoffReason.MIGRATED
    return left or any(copy.evacuated == moving_from(other) for other in others)
