"""Repairs the network after a process that ended in the middle of its moves."""

from __future__ import annotations

from hypercobalt.compute.direct.claims import ports_taken
from hypercobalt.compute.direct.outcome import HostView, view_of
from hypercobalt.compute.direct.site import Site
from hypercobalt.logs import get_logger

log = get_logger(__name__)


async def settle_ports(site: Site) -> None:
    """Bind each port that may be on several hosts to the one where its domain is.

    Ports of a domain on its way are left alone: the move's follower binds them at its end.

    Raises:
        TransientError: the network cannot be read or changed.
    """
    between = await site.ports.between_hosts()
    if not between:
        return
    places = site.hosts.all_places()
    listed = await site.listed(places)
    for place in places:
        for domain in listed.get(place.name, ()):
            ports = [one for one in domain.devices.ports if place.name in between.get(one, ())]
            is_here = view_of(domain) in {HostView.RUNS, HostView.OFF}
            if ports and (why := ports_taken(domain, listed)):
                log.warning("ports_not_settled", server=domain.uuid, host=place.name, why=why.text)
            elif ports and is_here and not site.records.under_way(domain.uuid):
                log.info("ports_settled", server=domain.uuid, host=place.name)
                await site.ports.bind(ports, (place.name,))
