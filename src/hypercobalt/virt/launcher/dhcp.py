"""Answers the guest's requests for an address: one client on each bridge.

The guest's address is decided outside. What it asks by DHCP comes over the bridge that joins its
tap to the pod; the answer goes back there alone.

Source: RFC 2131, section 4.1; socket(7), SO_BINDTODEVICE; KubeVirt, pkg/network/dhcp.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network
from typing import Final, cast

from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.virt.launcher.dhcp_packets import DhcpLease, answer, read_request
from hypercobalt.virt.wire.messages import DhcpOffer, TapDevice
from hypercobalt.vmi.unfit import UnfitVMIError

log = get_logger(__name__)

_SERVER_PORT, _CLIENT_PORT = 67, 68
_SO_NO_CHECK: Final = 11  # of linux/socket.h; Python has no name for it
_EVERYBODY: Final = ("255.255.255.255", _CLIENT_PORT)


class DhcpError(TransientError):
    """Requests on a bridge cannot be answered now."""


class DhcpServers:
    """A server for each network that has an offer."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[DhcpLease, asyncio.DatagramTransport]] = {}

    async def serve(self, taps: Mapping[str, TapDevice]) -> None:
        """Serve these networks; one that is served as it should be is left alone.

        Raises:
            UnfitVMIError: an address cannot be.
            DhcpError: a bridge is not there, or its port is taken.
        """
        for network, tap in taps.items():
            if tap.dhcp is None:
                continue
            lease = lease_of(network, tap, tap.dhcp)
            known, transport = self._known.get(network, (None, None))
            if known != lease:
                if transport is not None:
                    transport.close()
                self._known[network] = (lease, await _open(tap.dhcp.bridge, lease))
                log.info("dhcp_served", network=network, address=str(lease.address))

    def close(self) -> None:
        """Serve nothing any more."""
        for _, transport in self._known.values():
            transport.close()
        self._known.clear()


def lease_of(network: str, tap: TapDevice, offer: DhcpOffer) -> DhcpLease:
    """What the guest of a tap gets.

    Raises:
        UnfitVMIError: an address cannot be.
    """
    try:
        return DhcpLease(
            mac=bytes.fromhex(tap.mac.replace(":", "")),
            address=IPv4Interface(offer.address),
            server=IPv4Address(offer.server),
            gateway=IPv4Address(offer.gateway) if offer.gateway else None,
            dns=tuple(map(IPv4Address, offer.dns)),
            host_name=offer.host_name,
            domain=offer.domain,
            mtu=tap.mtu,
            routes=tuple((IPv4Network(to), IPv4Address(by)) for to, by in offer.routes),
        )
    except (AddressValueError, ValueError) as exc:
        raise UnfitVMIError(f"network {network[:64]!r}", f"no DHCP: {exc}") from exc


class _Server(asyncio.DatagramProtocol):
    def __init__(self, lease: DhcpLease) -> None:
        self._lease = lease

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        request = read_request(data)
        reply = answer(request, self._lease) if request else None
        if reply is not None:
            self._transport.sendto(reply, _EVERYBODY)

    def error_received(self, exc: Exception) -> None:
        log.warning("dhcp_not_answered", error=str(exc))


async def _open(bridge: str, lease: DhcpLease) -> asyncio.DatagramTransport:
    """A server on one device; the socket takes broadcasts, so it belongs to no address."""
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bridge.encode())
        # A bridge hands frames on with half a sum, which clients that read frames take for wrong.
        endpoint.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        endpoint.bind(("", _SERVER_PORT))
        loop = asyncio.get_running_loop()
        made = await loop.create_datagram_endpoint(lambda: _Server(lease), sock=endpoint)
    except OSError as exc:
        endpoint.close()
        raise DhcpError(f"DHCP on {bridge[:16]!r}: {exc.strerror or exc}") from exc
    return made[0]
