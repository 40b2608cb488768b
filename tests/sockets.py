"""Sockets that the HTTP library leaves to the garbage collector."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def left_to_the_collector() -> Generator[None]:
    """Collect at the end, in silence, what a call that is cancelled in a TLS handshake leaves open.

    Collected by chance, it would be a warning in whatever test runs then. One in another leaves the
    collector off for the rest of the outer one.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        if was_on:
            gc.enable()
