"""How a process ended that is no child of ours, from the pidfd that was opened while it lived.

Source: Linux 6.15, include/uapi/linux/pidfd.h, PIDFD_GET_INFO with PIDFD_INFO_EXIT: the exit status
of a process that its parent has reaped. An earlier kernel does not report it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from typing import Final

_GET_INFO: Final = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes)
_EXIT: Final = 1 << 3
_INFO: Final = struct.Struct("=QQ11Ii")


def describe(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    return f"exit code {os.WEXITSTATUS(status)}"


def how(pidfd: int) -> str | None:
    """How an ended process ended; None until its parent, process 1, has reaped it."""
    info = bytearray(_INFO.pack(_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return "the kernel does not report how"
    mask, *_, status = _INFO.unpack(info)
    return describe(status) if mask & _EXIT else None
