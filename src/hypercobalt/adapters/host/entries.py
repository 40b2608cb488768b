"""Notices when an entry of one directory may have changed. Follows no link.

Source: inotify(7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from asyncinotify import Inotify, Mask

_CHANGES = Mask.CREATE | Mask.DELETE | Mask.MOVE

Changed = Callable[[timedelta], Coroutine[None, None, None]]


@contextmanager
def follow_directory(directory: int) -> Generator[Changed]:
    """Follow the entries of an open directory from now on.

    Gives what waits until one of them has changed since it waited last, or a time has passed.

    Args:
        directory: its descriptor.

    Raises:
        OSError: it cannot be watched.
    """
    with Inotify() as inotify:
        path = Path(f"/proc/self/fd/{directory}")
        inotify.add_watch(path, _CHANGES | Mask.ONLYDIR)  # pyright: ignore[reportUnknownMemberType]

        async def changed(within: timedelta) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(within.total_seconds()):
                    await inotify.get()

        yield changed
