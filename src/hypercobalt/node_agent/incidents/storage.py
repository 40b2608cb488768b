"""Whether a disk's storage can be used, without blocking on storage that hangs.

A thread that the kernel holds cannot be ended, so each file has one at most, and none of them keeps
the process from its end.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Final

from hypercobalt.logs import get_logger

log = get_logger(__name__)

DEADLINE: Final = 5.0
_ROOM: Final = 1 << 20  # bytes


class Storage:
    """Files and devices of the host.

    Args:
        root: of the host's file system; what is not mounted there cannot be tried.
        deadline: seconds; storage that needs longer is away.
    """

    def __init__(self, root: Path, *, deadline: float = DEADLINE) -> None:
        self._root, self._deadline = root, deadline
        self._asked: set[Path] = set()

    async def usable(self, path: str) -> bool | None:
        """Whether the disk can be opened and has room; None: it cannot be tried from here."""
        file = self._root / path.removeprefix("/")
        if not path.startswith("/"):
            return None
        if file in self._asked:
            return False
        loop, answer = asyncio.get_running_loop(), asyncio.Event()
        result: list[bool | None] = []

        def ask() -> None:
            result.append(usable(file))
            self._asked.discard(file)
            if not loop.is_closed():
                loop.call_soon_threadsafe(answer.set)

        self._asked.add(file)
        threading.Thread(target=ask, name="storage-probe", daemon=True).start()
        try:
            async with asyncio.timeout(self._deadline):
                await answer.wait()
        except TimeoutError:
            log.warning("storage_hangs", disk=path)
            return False
        return result[0]


def usable(file: Path) -> bool | None:
    """Open the file, and ask for the room of its file system. May block for ever."""
    try:
        if not file.parent.exists():  # raises for a file system that has failed, or gone stale
            return None
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        room = os.fstatvfs(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return not room.f_blocks or room.f_bavail * room.f_frsize >= _ROOM
