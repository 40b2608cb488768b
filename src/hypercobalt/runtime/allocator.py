"""How the C library hands out memory.

glibc gives threads arenas of their own, and each keeps what its busiest moment took. Threads that
wait for answers, one holding Python's lock at a time, gain nothing by that.

Source: mallopt(3), M_ARENA_MAX.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

_M_ARENA_MAX: Final = -8


def use_one_arena() -> None:
    """Have all threads share one arena; before the first of them allocates.

    Another C library has no such thing, and is left as it is.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
