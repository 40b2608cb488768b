"""What is missing between the links that are there and those that are wanted. Pure.

The result is commands of `ip`, in an order in which each can be done; those that are done are not
in the next result.

Source: ip-link(8), ip-address(8), ip-tuntap(8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypercobalt.adapters.network.model import (
    Link,
    NetworkError,
    WantedLink,
    check_link_name,
    check_mac,
)


def link_changes(found: Mapping[str, Link], wanted: Sequence[WantedLink]) -> tuple[str, ...]:
    """Commands that make links as they should be, and switch them on.

    Args:
        found: links of the namespace, by name.
        wanted: a bridge before its ports.

    Raises:
        NetworkError: a link that cannot be made is absent, or one is of another kind.
        NetworkValueError: a name or a MAC address is none.
    """
    return tuple(line for one in wanted for line in _changes(found.get(one.name), one))


def _changes(found: Link | None, wanted: WantedLink) -> Iterator[str]:
    name = wanted.name
    check_link_name(name)
    if wanted.mac:
        check_mac(wanted.mac)
    if found is None:
        yield _making(wanted)
        found = Link(name=name, mtu=0)
    elif (kind := "tun" if wanted.kind == "tap" else wanted.kind) and found.kind != kind:
        raise NetworkError(
            f"link {name}: is {found.kind or 'hardware'}, not {wanted.kind}; delete it"
        )
    if wanted.mac and found.mac != wanted.mac:
        yield f"link set dev {name} address {wanted.mac}"
    if wanted.mtu is not None and found.mtu != wanted.mtu:
        yield f"link set dev {name} mtu {wanted.mtu}"
    if found.master != wanted.master:
        yield f"link set dev {name} " + (f"master {wanted.master}" if wanted.master else "nomaster")
    for address in found.addresses:
        if address not in wanted.addresses:
            yield f"address delete {address} dev {name}"
    for address in wanted.addresses:
        if address not in found.addresses:
            yield f"address add {address} dev {name}"
    if not found.is_up:
        yield f"link set dev {name} up"


def _making(wanted: WantedLink) -> str:
    match wanted.kind:
        case "bridge":
            # With an address of its own a bridge does not change it with each port.
            mac = f" address {wanted.mac}" if wanted.mac else ""
            return f"link add name {wanted.name}{mac} type bridge mcast_snooping 0"
        case "tap":
            return f"tuntap add dev {wanted.name} mode tap user {wanted.owner}"
        case _:
            raise NetworkError(f"link {wanted.name}: is not there")
