"""The names and addresses of a Node that its host's certificate may have: its own alone. Pure.

A kubelet writes the addresses of its Node, so a host that was taken over names whatever it likes: a
wildcard, another host, the site's registry. A name is taken only with the first label of the Node's
own, an address only if it parses as one that a host can have, and neither when another Node claims
it too: which of the two has it cannot be known from here.

Source: RFC 1123, 2.1; Kubernetes, admission plugin NodeRestriction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.core import Node

_DNS_TYPES: Final = frozenset({"Hostname", "InternalDNS", "ExternalDNS"})
_IP_TYPES: Final = frozenset({"InternalIP", "ExternalIP"})
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_LONGEST: Final = 253
_MOST: Final = 64  # of one Node; a certificate with thousands of names is of no use

Claimants = Callable[[str], Iterable[Node]]
"""Gives the Nodes that claim a name or an address, by the index of `claims`."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """What a certificate of the Node's host may name, each sorted.

    Args:
        dns: names, the Node's own among them.
        addresses: in their one form.
    """

    dns: tuple[str, ...]
    addresses: tuple[str, ...]


def claims(node: Node) -> Iterable[str]:
    """Index function: the name of the Node and every name and address that it lists."""
    return frozenset((node.metadata.name, *_names(node), *_addresses(node)))


def names_of(node: Node, claimants: Claimants) -> NodeNames:
    """The names and addresses that are the Node's own."""
    own = node.metadata.name
    short = own.partition(".")[0]

    def alone(claimed: str) -> bool:
        return all(other.metadata.name == own for other in claimants(claimed))

    dns = {name for name in _names(node) if name.partition(".")[0] == short and alone(name)}
    addresses = {address for address in _addresses(node) if alone(address)}
    return NodeNames(tuple(sorted({own, *dns})), tuple(sorted(addresses)))


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
