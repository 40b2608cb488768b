"""A BMC that speaks Redfish over TLS: one computer system, its power, and faults to order.

Each request has a thread: a host takes seconds to boot, and a slow BMC delays only its own.

Source: DMTF DSP0266 (Redfish 1.20), ComputerSystem schema 1.22: PowerState, Actions, ResetType.
"""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, cast

from hypercobalt.lab.bmc.board import USER, Board
from hypercobalt.lab.bmc.faults import SLOW_SECONDS, BoardFault

_ROOT: Final = "/redfish/v1"
_SYSTEMS: Final = f"{_ROOT}/Systems"
_LONGEST: Final = 4096  # bytes of an order


class RedfishServer(ThreadingHTTPServer):
    """Serves a board until it is shut down.

    Args:
        board: of which machine.
        address: and port; port 0 takes a free one.
        tls: with the certificate to show.
    """

    daemon_threads = True

    def __init__(self, board: Board, address: tuple[str, int], tls: ssl.SSLContext) -> None:
        super().__init__(address, _Handler)
        self.board = board
        # The handshake is the request's thread's: a client that is silent holds up no other.
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


class _Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds for a client to send its request

    @property
    def _board(self) -> Board:
        return cast("RedfishServer", self.server).board

    @property
    def _system(self) -> str:
        return f"{_SYSTEMS}/{self._board.name}"

    def do_GET(self) -> None:
        self._answer({}, self._read)

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), _LONGEST)
        order = json.loads(self.rfile.read(length) or b"{}")
        self._answer(order, self._reset)

    def _answer(
        self,
        order: dict[str, object],
        act: Callable[[BoardFault, dict[str, object]], tuple[HTTPStatus, dict[str, object]]],
    ) -> None:
        fault = self._board.fault()
        if self._board.is_silent(fault):
            self.close_connection = True
            return
        if fault is BoardFault.SLOW:
            time.sleep(SLOW_SECONDS)
        status, body = (
            act(fault, order)
            if fault is not BoardFault.DENIED and self._knows_password()
            else _refusal(HTTPStatus.UNAUTHORIZED, "NoValidSession")
        )
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _knows_password(self) -> bool:
        wanted = base64.b64encode(f"{USER}:{self._board.password}".encode()).decode()
        return hmac.compare_digest(self.headers.get("Authorization", ""), f"Basic {wanted}")

    def _read(
        self, fault: BoardFault, _: dict[str, object]
    ) -> tuple[HTTPStatus, dict[str, object]]:
        path = self.path.rstrip("/")
        if path == _ROOT:
            return HTTPStatus.OK, {"Systems": {"@odata.id": _SYSTEMS}}
        if path == _SYSTEMS:
            return HTTPStatus.OK, {"Members": [{"@odata.id": self._system}]}
        if path == self._system:
            target = f"{self._system}/Actions/ComputerSystem.Reset"
            return HTTPStatus.OK, {
                "Id": self._board.name,
                "UUID": str(self._board.uuid),
                "PowerState": "On" if self._board.reports_on(fault) else "Off",
                "Actions": {"#ComputerSystem.Reset": {"target": target}},
            }
        return _refusal(HTTPStatus.NOT_FOUND, "ResourceMissingAtURI")

    def _reset(
        self, fault: BoardFault, order: dict[str, object]
    ) -> tuple[HTTPStatus, dict[str, object]]:
        if self.path != f"{self._system}/Actions/ComputerSystem.Reset":
            return _refusal(HTTPStatus.NOT_FOUND, "ResourceMissingAtURI")
        if fault is BoardFault.CONFLICT:
            return _refusal(HTTPStatus.CONFLICT, "ResourceInUse")
        chassis = self._board.chassis
        acts: dict[object, Callable[[], None]] = {"ForceOff": chassis.off, "On": chassis.on}
        act = acts.get(order.get("ResetType"))
        if act is None:
            return _refusal(HTTPStatus.BAD_REQUEST, "ActionParameterNotSupported")
        if fault is not BoardFault.LYING:
            act()
        return HTTPStatus.OK, {}

    def log_message(self, format: str, *args: object) -> None:
        """Requests are logged by their callers."""


def _refusal(status: HTTPStatus, code: str) -> tuple[HTTPStatus, dict[str, object]]:
    return status, {"error": {"code": f"Base.1.19.{code}", "message": code}}
