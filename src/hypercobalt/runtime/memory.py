"""Bound what connections cost a process, and give their memory back to the system.

glibc raises its threshold for separate mappings to the largest buffer ever freed. From then on the
buffers of TLS and of bodies lie on the heap, and a flood of requests keeps its memory for good.

asyncio gives each TLS connection, of a client too, a buffer of 256 KiB, written from end to end
when it is made. A record of TLS has 16 KiB: a smaller buffer takes the same in more steps.

Source: mallopt(3), M_MMAP_THRESHOLD; asyncio.sslproto, `SSLProtocol.max_size`.
"""

from __future__ import annotations

import ctypes
from asyncio.sslproto import SSLProtocol
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
_THRESHOLD: Final = 128 * 1024  # bytes, glibc's first value; setting it keeps it there
_TLS_BUFFER: Final = 64 * 1024  # bytes


def bound_memory() -> None:
    """Fix both for this process; other C libraries than glibc have no threshold."""
    SSLProtocol.max_size = _TLS_BUFFER
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD)
