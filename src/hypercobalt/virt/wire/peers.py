"""Who is at the other end of a Unix socket, as the kernel knows it.

Source: unix(7), SO_PEERCRED: the user that called connect(2), or listen(2).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, NamedTuple

_UCRED: Final = struct.Struct("3i")


class PeerCredentials(NamedTuple):
    """Process, user and group; the process is 0 where this PID namespace does not have it."""

    pid: int
    uid: int
    gid: int


def credentials(writer: asyncio.StreamWriter) -> PeerCredentials:
    """The other end of a connection over a Unix socket."""
    connection: socket.socket = writer.get_extra_info("socket")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return PeerCredentials(*_UCRED.unpack(found))
