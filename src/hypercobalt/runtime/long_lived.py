"""Connections that last for hours: idle, or with a peer that reads nothing for a while.

A listener gives up a client that takes nothing for a minute (`bind`). That is right for a request,
and wrong for a session whose person has stopped the output. What is asked instead is whether the
peer's machine is still there: its kernel answers, however long its process waits. A machine that
lost its power sends no end, and would hold the place of an idle session for good.

Source: tcp(7), TCP_USER_TIMEOUT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, cast

IDLE_SECONDS: Final = 60
"""Silence before the first question; shorter than load balancers and firewalls remember."""

_OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0),  # the kernel's own patience
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)


def keep(writer: asyncio.StreamWriter) -> None:
    """Have a connection last until its peer ends it, or its peer's machine is gone."""
    found = cast("socket.socket | None", writer.get_extra_info("socket"))
    if found is None or found.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    for level, option, value in _OPTIONS:
        found.setsockopt(level, option, value)
