"""Finds the storage of a disk by its path. Pure."""

from __future__ import annotations

import re
from posixpath import basename, dirname
from typing import Final

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pool_of(path: str) -> str:
    """Return the storage of a disk: its directory, or the pool in front of its image.

    Nova has a directory for each instance; all of these lie in the shared one.
    """
    folder = dirname(path) or path
    return dirname(folder) if _UUID.fullmatch(basename(folder)) else folder


def site_pool_of(path: str) -> str:
    """Return the same, if that name means the same storage on every host; "" otherwise.

    Each host numbers its devices by itself.
    """
    pool = pool_of(path) if "/" in path else ""
    return "" if pool == "/dev" or pool.startswith("/dev/") else pool
