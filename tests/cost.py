"""What a piece of work costs this process: turns of its loop, and memory."""

from __future__ import annotations

import ctypes
import gc
import resource
import time
from collections.abc import Callable
from pathlib import Path


def on_loop(work: Callable[[], object]) -> float:
    """Milliseconds of CPU."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def resident_mib() -> float:
    """What is held; memory that is free already but not given back yet is no leak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
