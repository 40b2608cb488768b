"""Checks the owner of a network port: of two domains with one port, a move gives it to neither.

Definitions name their ports, and are hostile input: a definition with another instance's port would
take that instance off the network.
"""

from __future__ import annotations

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct.claims import ClaimedError
from hypercobalt.compute.direct.site import Site


class PortClaimedError(ClaimedError):
    """Another domain has a port of the domain; the message names it and its host."""


async def bind(site: Site, domain: Domain, hosts: tuple[str, ...]) -> None:
    """Let the network bind a domain's ports on some hosts, if the ports are the domain's alone.

    Raises:
        PortClaimedError: another domain has one.
        TransientError: the network cannot be changed.
    """
    await _check(site, domain)
    await site.ports.bind(domain.devices.ports, hosts)


async def _check(site: Site, domain: Domain) -> None:
    """Check that no other domain has a port of a domain, on any host that answers or is dead.

    A dead host whose definitions cannot be read holds nothing up: its agent has written them.

    Raises:
        PortClaimedError: one has.
    """
    if not domain.devices.ports:
        return
    own, places = frozenset(domain.devices.ports), site.hosts.all_places()
    everywhere = await site.everywhere([one for one in places if one.fenced])
    everywhere |= await site.listed(one for one in places if not one.fenced)
    for host, there in everywhere.items():
        for other in there:
            taken = own.intersection(other.devices.ports)
            if taken and other.uuid != domain.uuid:
                text = f"its port {min(taken)[:64]} is that of {other.name} on {host}, too"
                raise PortClaimedError(text, host)
