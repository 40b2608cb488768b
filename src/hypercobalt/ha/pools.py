"""Which storage a disk is on, by its path. Pure."""

from __future__ import annotations

import re
from posixpath import basename, dirname
from typing import Final

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pool_of(path: str) -> str:
    """What a disk shares with others: its directory, or the pool in front of its image.

    Nova has a directory for each instance, which lies in the one that they share.
    """
    folder = dirname(path) or path
    return dirname(folder) if _UUID.fullmatch(basename(folder)) else folder


def site_pool_of(path: str) -> str:
    """The same, if that name means the same storage on every host; "" otherwise.

    Each host numbers its devices by itself.
    """
    pool = pool_of(path) if "/" in path else ""
    return "" if pool == "/dev" or pool.startswith("/dev/") else pool
