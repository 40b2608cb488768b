"""Ends connections of this process that libvirt itself would wait on for ever.

libvirt's keepalive begins once a connection is open. If the peer's machine goes while it is being
opened, `virConnectOpen` waits for an answer that nobody will send, and nothing interrupts it, but
the end of its socket does.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress


def shut_down_to(port: int) -> int:
    """Shut down every TCP socket of this process whose peer has this port.

    Args:
        port: of a libvirt daemon, to which only libvirt connects.

    Returns:
        How many there were.
    """
    return sum(_shut_down(int(name), port) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208


def _shut_down(descriptor: int, port: int) -> bool:
    with suppress(OSError):  # not connected, or closed meanwhile
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as own:
            inet = own.family in {socket.AF_INET, socket.AF_INET6}
            if inet and own.getpeername()[1] == port:
                own.shutdown(socket.SHUT_RDWR)
                return True
    return False
