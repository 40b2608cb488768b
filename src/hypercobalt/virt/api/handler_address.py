"""Where virt-api may connect to for the guests of a node. Pure.

The address of a handler stands in an annotation of its Node, which whoever owns the host can write,
as the addresses of the Node. virt-api believes it within bounds that the host does not set: one
port, an address of that Node and no name, in networks of hosts. So a host that was broken into
leads virt-api to the port of handlers on some host at most, and to no service of the cluster.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hypercobalt.api.addresses import Address, parse_host_address
from hypercobalt.api.core import Node
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.kubevirt.console import ENDPOINT, read_endpoint

HANDLER_PORT: Final = 9189

_ADDRESSES: Final = frozenset({"InternalIP", "ExternalIP"})


class ForeignEndpointError(ValueError):
    """The Node names no handler that virt-api may connect to."""


@dataclass(frozen=True, slots=True)
class HandlerNetwork:
    """Where handlers are.

    Args:
        port: that all of them listen at.
        networks: that their addresses are in, such as `10.0.0.0/16`; empty: any that a host has.
    """

    port: int = HANDLER_PORT
    networks: tuple[str, ...] = ()


ANYWHERE: Final = HandlerNetwork()


def handler_of(node: Node, allowed: HandlerNetwork) -> DiagnosticsEndpoint:
    """The handler of a Node.

    Raises:
        ForeignEndpointError: the Node publishes none, or one elsewhere.
    """
    name = node.metadata.name
    found = read_endpoint(node.metadata.annotations.get(ENDPOINT, ""))
    if found is None:
        raise ForeignEndpointError(
            f"Node {name} has no annotation {ENDPOINT}: start its virt-handler with "
            "--diagnostics-bind-address"
        )
    about = f"Node {name}, annotation {ENDPOINT}: {found.url[:128]!r}"
    try:
        address, port = _parts(found.url, allowed)
    except ValueError as error:
        raise ForeignEndpointError(f"{about}: {error}") from error
    if port != allowed.port:
        raise ForeignEndpointError(
            f"{about} is not at port {allowed.port}, at which virt-api expects handlers "
            "(--handler-port)"
        )
    if address not in _addresses(node, allowed):
        raise ForeignEndpointError(
            f"{about} is no address in status.addresses of the Node; set HOST_IP_ADDRESS of its "
            "virt-handler to one of them"
        )
    shown = f"[{address}]" if isinstance(address, ipaddress.IPv6Address) else f"{address}"
    return DiagnosticsEndpoint(
        url=f"https://{shown}:{port}", certificateSHA256=found.certificateSHA256
    )


def _parts(url: str, allowed: HandlerNetwork) -> tuple[Address, int | None]:
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.username is not None or parts.password is not None:
        raise ValueError("is not https://ADDRESS:PORT")
    return _host(parts.hostname or "", allowed), parts.port


def _addresses(node: Node, allowed: HandlerNetwork) -> set[Address]:
    found = set[Address]()
    for one in node.status.addresses:
        if one.type in _ADDRESSES:
            try:
                found.add(_host(one.address, allowed))
            except ValueError:  # the kubelet's own affair
                continue
    return found


def _host(text: str, allowed: HandlerNetwork) -> Address:
    """The address of a host.

    Raises:
        ValueError: it is a name, or nowhere that handlers are.
    """
    if not allowed.networks:
        return parse_host_address(text)
    found = ipaddress.ip_address(text)
    if not any(found in ipaddress.ip_network(one) for one in allowed.networks):
        raise ValueError(f"{text[:64]!r} is in none of the networks of --handler-networks")
    return found
