"""What a process that ended in the middle of its moves has left in the network."""

from __future__ import annotations

import asyncio

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, view_of
from hypercobalt.compute.direct.site import Site
from hypercobalt.logs import get_logger

log = get_logger(__name__)


async def settle_ports(site: Site) -> None:
    """Bind each port that may be on several hosts to the one where its domain is.

    Those of a domain on its way are left alone: the move's follower binds them at its end.

    Raises:
        TransientError: the network cannot be read or changed.
    """
    between = await site.ports.between_hosts()
    if not between:
        return
    listed = await asyncio.gather(*(_domains(site, place) for place in site.hosts.all_places()))
    for place, domains in listed:
        for domain in domains:
            ports = [port for port in domain.devices.ports if port in between]
            is_here = view_of(domain) in {HostView.RUNS, HostView.OFF}
            if ports and is_here and not site.records.under_way(domain.uuid):
                log.info("ports_settled", server=domain.uuid, host=place.name)
                await site.ports.bind(ports, (place.name,))


async def _domains(site: Site, place: Place) -> tuple[Place, tuple[Domain, ...]]:
    try:
        return place, await site.daemon(place).domains(jobs=True)
    except LibvirtError:
        return place, ()  # what is there now is unknown
