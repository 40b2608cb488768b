"""Checks the owner of a network port: of two domains with one port, a move gives it to neither.

Definitions name their ports, and are hostile input: a definition with another instance's port would
take that instance off the network.
"""

from __future__ import annotations

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct.claims import ClaimedError, Everywhere
from hypercobalt.compute.direct.site import Site


class PortClaimedError(ClaimedError):
    """Another domain has a port of the domain; the message names it and its host."""


async def bind(
    site: Site, domain: Domain, hosts: tuple[str, ...], everywhere: Everywhere | None = None
) -> None:
    """Let the network bind a domain's ports on some hosts, if the ports are the domain's alone.

    Args:
        site: see there.
        domain: as it is where it goes.
        hosts: see `Ports.bind`.
        everywhere: all domains of all hosts, if they were read just now.

    Raises:
        PortClaimedError: another domain has one.
        TransientError: the network cannot be changed.
    """
    await _check(site, domain, everywhere)
    await site.ports.bind(domain.devices.ports, hosts)


async def _check(site: Site, domain: Domain, everywhere: Everywhere | None) -> None:
    """Check that no other domain has a port of a domain, on any host.

    Of a host that does not answer, what its agent has stored counts: its guests may run on. One
    whose definitions cannot be read holds nothing up: its agent has written them.

    Raises:
        PortClaimedError: one has.
    """
    if not domain.devices.ports:
        return
    own = frozenset(domain.devices.ports)
    if everywhere is None:
        everywhere = await site.everywhere(site.hosts.all_places())
    for host, there in everywhere.items():
        for other in there:
            taken = own.intersection(other.devices.ports)
            if taken and other.uuid != domain.uuid:
                text = f"its port {min(taken)[:64]} is that of {other.name} on {host}, too"
                raise PortClaimedError(text, host)
