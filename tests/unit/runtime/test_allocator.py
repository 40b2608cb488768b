"""Arenas of the C library, counted in a process of its own."""

from __future__ import annotations

import subprocess
import sys

COUNT = """
import ctypes, os, threading
from hypercobalt.runtime.allocator import use_one_arena

{first}
ready, kept = threading.Barrier(8), []

def allocate():
    ready.wait()
    kept.extend(bytes(20_000) for _ in range(50))
    ready.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fdopen(os.dup(1), b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
"""


def test_threads_share_one_arena() -> None:
    assert arenas("use_one_arena()") == 1
    assert arenas("") > 1, "it is the call that has this effect"


def arenas(first: str) -> int:
    found = subprocess.run(
        [sys.executable, "-c", COUNT.format(first=first)], capture_output=True, check=True
    )
    return found.stdout.count(b"<heap nr=")
