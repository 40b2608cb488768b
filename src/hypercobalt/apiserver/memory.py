"""Give memory of large buffers back to the system when they are freed.

glibc raises its threshold for separate mappings to the largest buffer ever freed. From then on the
buffers of TLS and of bodies lie on the heap, and a flood of requests keeps its memory for good.

Source: mallopt(3), M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import ctypes

_M_MMAP_THRESHOLD = -3
_THRESHOLD = 128 * 1024  # bytes, glibc's first value; setting it keeps it there


def release_large_buffers() -> None:
    """Fix the threshold of this process; other C libraries than glibc have none."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD)
