"""The names and addresses of a Node that its host's certificate may have: its own alone. Pure.

A kubelet writes the addresses of its Node, so a host that was taken over names whatever it likes: a
wildcard, another host, the site's registry. A name is taken only with the first label of the Node's
own, an address only if it parses as one that a host can have. An address that a host holds
(`api.holders`) is that host's alone; other addresses, and names, are not taken if another Node that
may have them claims them.

Source: RFC 1123, 2.1; Kubernetes, admission plugin NodeRestriction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.core import Node

_DNS_TYPES: Final = frozenset({"Hostname", "InternalDNS", "ExternalDNS"})
_IP_TYPES: Final = frozenset({"InternalIP", "ExternalIP"})
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_LONGEST: Final = 253
_MOST: Final = 64  # of one Node; a certificate with thousands of names is of no use

BY_CLAIM: Final = "claim"
"""Index of Nodes by `claims`."""

Holder = Callable[[str], str]
"""Returns the host that holds an address; "" for none."""

Claimants = Callable[[str], Iterable[Node]]
"""Returns the Nodes that claim a name or an address, by the index of `claims`."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Names and addresses that a certificate of the Node's host may have, each sorted.

    Args:
        dns: names, the Node's own among them.
        addresses: in their one form.
        taken: addresses that the Node lists and another host holds, with that host.
    """

    dns: tuple[str, ...]
    addresses: tuple[str, ...]
    taken: Mapping[str, str] = field(default_factory=dict[str, str])


def claims(node: Node) -> Iterable[str]:
    """Index function: return the name of the Node and every name and address that it lists."""
    return frozenset((node.metadata.name, *_names(node), *_addresses(node)))


def nobody(address: str) -> str:
    """A `Holder` of a site where nothing is recorded."""
    del address
    return ""


def names_of(node: Node, claimants: Claimants, holder: Holder = nobody) -> NodeNames:
    """Return the names and addresses that are the Node's own."""
    own = node.metadata.name
    short = _short(own)

    def others(claimed: str) -> set[str]:
        return {other.metadata.name for other in claimants(claimed)} - {own}

    def is_named(name: str) -> bool:
        return _short(name) == short and all(_short(one) != short for one in others(name))

    dns = {name for name in _names(node) if is_named(name)}
    held = {address: holder(address) for address in _addresses(node)}
    addresses = {
        address for address, has in held.items() if has == own or not (has or others(address))
    }
    return NodeNames(
        tuple(sorted({own, *dns})),
        tuple(sorted(addresses)),
        {address: has for address, has in held.items() if has not in {"", own}},
    )


def _short(name: str) -> str:
    return name.partition(".")[0]


def _names(node: Node) -> set[str]:
    listed = (a.address.lower() for a in node.status.addresses[:_MOST] if a.type in _DNS_TYPES)
    return {name for name in listed if len(name) <= _LONGEST and _DNS_NAME.fullmatch(name)}


def _addresses(node: Node) -> set[str]:
    found: set[str] = set()
    for address in node.status.addresses[:_MOST]:
        if address.type in _IP_TYPES:
            try:
                found.add(str(parse_host_address(address.address)))
            except ValueError:
                continue
    return found
