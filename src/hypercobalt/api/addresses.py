"""A host's IP address as text, checked: what a Node reports of itself comes from its kubelet.

Whoever owns a host owns its Node's addresses, so none goes into a URI, a certificate or a command
before it was parsed. An address that names no single host, or names the reader's own machine, is
refused; so is the scope of an IPv6 address, which may hold any text.

Source: RFC 4291, 2.5 and 2.7; RFC 6890; Python's ipaddress (scope ids).
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_host_address(text: str) -> Address:
    """The address of a host; an IPv4 address that is mapped into IPv6 is given as IPv4.

    Raises:
        ValueError: the text is no IP address, or one that no host can be reached by.
    """
    try:
        found: Address = ipaddress.ip_address(text)
    except ValueError as exc:
        raise ValueError(f"{text[:64]!r} is not an IP address") from exc
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise ValueError(f"{text[:64]!r} has a scope, which holds on one machine only")
        found = found.ipv4_mapped or found
    if why := _unusable(found):
        raise ValueError(f"{text[:64]!r} is {why}, not the address of a host")
    return found


def is_host_address(text: str) -> bool:
    """Whether `parse_host_address` takes it."""
    try:
        parse_host_address(text)
    except ValueError:
        return False
    return True


def _unusable(address: Address) -> str:
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "a loopback address"
    if address.is_multicast:
        return "a multicast address"
    if address.is_link_local:
        return "a link-local address"
    if isinstance(address, ipaddress.IPv4Address) and address.is_reserved:
        return "reserved"
    return ""
