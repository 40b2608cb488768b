"""Settings by which a site without OpenStack reaches its hosts and network, and their exposures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """How hosts are reached. `{name}` and `{ip}` in a URI stand for a host's own.

    Args:
        control: URI from the operator to a libvirtd. With TLS, `?pkipath=DIRECTORY` behind it names
            the directory of the client's certificate; else libvirt's own is taken.
        migration: URI from one host's libvirtd to another's.
        stream: URI from QEMU to QEMU; "" leaves it to libvirt, which then needs names that resolve.
        tls: QEMU encrypts its streams by the certificates in the hosts' `/etc/pki/qemu`, and
            nothing moves without them.
        northbound: OVN's northbound database, `tcp:HOST:PORT` or `unix:PATH`, with commas between
            the servers of a cluster; "" where the network finds out by itself where a domain is.
        allowed: allow-list for definitions that go from host to host.
    """

    control: str = "qemu+tls://{ip}/system"
    migration: str = "qemu+tls://{ip}/system"
    stream: str = "tcp://{ip}"
    tls: bool = True
    northbound: str = ""
    allowed: Allowed = field(default_factory=Allowed)


CLEAR_STREAMS: Final = "clear-streams"
PLAIN_LIBVIRT: Final = "plain-libvirt"
EXPOSURES: Final = (CLEAR_STREAMS, PLAIN_LIBVIRT)
"""Settings by which a third party between the hosts can read guests, or take hosts over."""


def exposures(settings: DirectSettings) -> dict[str, str]:
    """Return what the settings leave unprotected: the kind, and a sentence with the remedy."""
    found: dict[str, str] = {}
    if not settings.tls:
        found[CLEAR_STREAMS] = (
            "memory and disks of migrations cross the network in clear; put certificates into "
            "/etc/pki/qemu of the hosts and remove --no-direct-tls (DIRECT_TLS=false)"
        )
    plain = [uri for uri in (settings.control, settings.migration) if "+tcp://" in uri]
    if plain:
        found[PLAIN_LIBVIRT] = (
            f"libvirt at {plain[0]} is reached without TLS: every client that reaches it is root; "
            "use qemu+tls:// in --direct-libvirt-uri and --direct-migration-uri"
        )
    return found
