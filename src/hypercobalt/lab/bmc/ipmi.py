"""A BMC that speaks IPMI 2.0 over LAN (RMCP+): the power of one machine, and faults to order.

pyghmi keeps sockets and sessions in variables of its modules, so a process has one server. Packets
are answered one after the other, in the thread that serves; an order is carried out in another one,
as a host takes seconds to boot, and a client repeats a packet that was not answered for two.

Source: IPMI 2.0 rev. 1.1, table 5-2 (completion codes), 28.2, 28.3 (chassis); pyghmi 1.6.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NoReturn
from uuid import UUID

from pyghmi.ipmi.bmc import Bmc

from hypercobalt.lab.bmc.board import USER, Board
from hypercobalt.lab.bmc.faults import SLOW_SECONDS, BoardFault
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_FIRMWARE_UPDATE: Final = 0xD1
"""Completion code: device in firmware update mode."""
_IDLE: Final = 3600.0
"""Seconds to wait for a packet. If pyghmi's thread, which waits for 300 s, had to wake before that,
it would be woken by a packet to our port at 127.0.0.1, where another program may listen."""


class IpmiServer(Bmc):
    """Serves a board; the only one of its process.

    Args:
        board: of which machine.
        address: an IPv4 address and a UDP port.

    Raises:
        OSError: it cannot be bound.
    """

    def __init__(self, board: Board, address: tuple[str, int]) -> None:
        self._board = board
        self._orders = ThreadPoolExecutor(1, "order")
        host, port = address
        super().__init__(_Accounts(board), port=port, address=host)

    def serve_forever(self) -> NoReturn:
        self.listen(timeout=_IDLE)

    def sessionless_data(self, data: bytes, sockaddr: object) -> None:
        """Answer a client without a session."""
        if not self._board.is_silent(self._board.fault()):
            super().sessionless_data(data, sockaddr)

    def handle_raw_request(self, request: object, session: object) -> None:
        """Execute a command of a session."""
        if not self._board.is_silent(self._board.fault()):
            super().handle_raw_request(request, session)

    def get_system_guid(self) -> UUID:
        return self._board.uuid

    def get_power_state(self) -> str:
        return "on" if self._board.reports_on(self._fault_after_its_delay()) else "off"

    def power_off(self) -> int:
        return self._order(self._board.chassis.off)

    def power_on(self) -> int:
        return self._order(self._board.chassis.on)

    def _order(self, act: Callable[[], None]) -> int:
        """Accept an order, or refuse it, and return the completion code."""
        fault = self._fault_after_its_delay()
        if fault is BoardFault.CONFLICT:
            return _FIRMWARE_UPDATE
        if fault is not BoardFault.LYING:
            self._orders.submit(act).add_done_callback(_report)
        return 0

    def _fault_after_its_delay(self) -> BoardFault:
        fault = self._board.fault()
        if fault is BoardFault.SLOW:
            time.sleep(SLOW_SECONDS)
        return fault


class _Accounts:
    """Passwords by user, as pyghmi looks them up at each login."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def get(self, user: str, /) -> str | None:
        if user != USER:
            return None
        changed = self._board.fault() is BoardFault.DENIED
        return f"not {self._board.password}" if changed else self._board.password


def _report(order: Future[None]) -> None:
    if (error := order.exception()) is not None:
        log.error("order_failed", error=str(error))
