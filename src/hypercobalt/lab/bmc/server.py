"""Serves one BMC by both of its protocols, on one address: Redfish on a TCP port, IPMI on UDP."""

from __future__ import annotations

import ssl
import threading
from typing import NoReturn

from hypercobalt.lab.bmc.board import Board
from hypercobalt.lab.bmc.ipmi import IpmiServer
from hypercobalt.lab.bmc.redfish import RedfishServer


class BmcServer:
    """A board, bound to an address; the only one of its process.

    Args:
        board: of which machine.
        address: an IPv4 address and a port, for TCP and UDP.
        tls: with the certificate that Redfish shows.

    Raises:
        OSError: it cannot be bound.
    """

    def __init__(self, board: Board, address: tuple[str, int], tls: ssl.SSLContext) -> None:
        self._redfish = RedfishServer(board, address, tls)
        self._ipmi = IpmiServer(board, address)

    def serve_forever(self) -> NoReturn:
        """Serve until the process ends: with an error when IPMI fails, which nothing restarts."""
        threading.Thread(target=self._redfish.serve_forever, name="redfish", daemon=True).start()
        self._ipmi.serve_forever()
