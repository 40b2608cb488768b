"""Whether a disk's storage can be used, without blocking on storage that hangs.

A thread that the kernel holds cannot be ended, so each file has one at most, and none of them keeps
the process from its end.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hypercobalt.logs import get_logger

log = get_logger(__name__)

DEADLINE: Final = 5.0
_ROOM: Final = 1 << 20  # bytes
_BLOCK: Final = 4096


class Storage:
    """Files and devices of the host.

    Args:
        root: of the host's file system; what is not mounted there cannot be tried.
        deadline: seconds; storage that needs longer is away.
    """

    def __init__(self, root: Path, *, deadline: float = DEADLINE) -> None:
        self._root, self._deadline = root, deadline
        self._unanswered: dict[Path, float] = {}
        """Since when a read of a file has had no result."""

    async def usable(self, path: str) -> bool | None:
        """Whether the disk can be opened and has room; None: it cannot be tried from here."""
        file = self._file(path)
        if file is None:
            return None
        found = await self._try(file, usable)
        return found[0] if found else False

    async def silent(self, path: str) -> float | None:
        """Seconds for which a read of the disk has had no answer; 0 when it was answered.

        An error is an answer.

        Returns:
            None when it cannot be tried from here.
        """
        file = self._file(path)
        if file is None:
            return None
        found = await self._try(file, answers)
        if found:
            return 0 if found[0] else None
        now = time.monotonic()
        return now - self._unanswered.get(file, now)

    def _file(self, path: str) -> Path | None:
        return self._root / path.removeprefix("/") if path.startswith("/") else None

    async def _try(
        self, file: Path, question: Callable[[Path], bool | None]
    ) -> tuple[bool | None] | None:
        """Read something about a file; None when this read, or an earlier one, hangs."""
        if file in self._unanswered:
            return None
        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        results: list[bool | None] = []

        def run() -> None:
            results.append(question(file))
            self._unanswered.pop(file, None)
            if not loop.is_closed():
                loop.call_soon_threadsafe(answered.set)

        self._unanswered[file] = time.monotonic()
        threading.Thread(target=run, name="storage-probe", daemon=True).start()
        try:
            async with asyncio.timeout(self._deadline):
                await answered.wait()
        except TimeoutError:
            log.warning("storage_hangs", disk=str(file))
            return None
        return (results[0],)


def answers(file: Path) -> bool | None:
    """Read the file's first block, past the cache; None where that is not possible.

    May block for ever.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError:
        return None
    try:
        with mmap.mmap(-1, _BLOCK) as block, suppress(OSError):
            os.preadv(descriptor, [block], 0)
    except OSError:  # no memory for the block: not an answer of the disk
        return None
    finally:
        os.close(descriptor)
    return True


def usable(file: Path) -> bool | None:
    """Open the file, and read the free space of its file system. May block for ever."""
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
