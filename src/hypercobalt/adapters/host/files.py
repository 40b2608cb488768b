"""Notices when one of a few files may have changed, also behind symbolic links.

The directories are watched, not the files: a file is usually replaced by a rename, and one that
does not exist yet cannot be watched.

Source: inotify(7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from asyncinotify import Inotify, Mask

MAX_LINKS: Final = 40  # as the kernel
_CHANGES = Mask.CREATE | Mask.DELETE | Mask.MOVE | Mask.CLOSE_WRITE
_ALL = Mask.Q_OVERFLOW | Mask.IGNORED | Mask.UNMOUNT  # anything may have happened

Changed = Callable[[timedelta], Coroutine[None, None, None]]


@contextmanager
def follow(files: Iterable[Path], root: Path) -> Generator[Changed]:
    """Follow files below `root` from now on, whether they exist or not.

    Gives what waits for one of them to change once, or for a time to pass: a directory above the
    one with the file, or a mount, can be swapped without a notice.
    """
    with Inotify() as inotify:
        names = _watch(inotify, files, root)

        async def changed(within: timedelta) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(within.total_seconds()):
                    await _next(inotify, names)

        yield changed


def resolve(path: Path, root: Path) -> Path:
    """Where the links lead in the end, if it is a link."""
    return list(_hops(path, root))[-1]


async def _next(inotify: Inotify, names: dict[Path, set[str]]) -> None:
    async for event in inotify:
        if event.watch is None or event.mask & _ALL or event.name is None:
            return
        if event.name.name in names.get(event.watch.path, ()):
            return


def _watch(inotify: Inotify, files: Iterable[Path], root: Path) -> dict[Path, set[str]]:
    """Watch the directories of the files and of the links on the way; return names by directory."""
    names: dict[Path, set[str]] = {}
    for file in files:
        for path in _hops(file, root):
            names.setdefault(path.parent, set()).add(path.name)
    for directory in list(names):
        with suppress(OSError):  # not there
            mask = _CHANGES | Mask.ONLYDIR | Mask.EXCL_UNLINK
            inotify.add_watch(directory, mask)  # pyright: ignore[reportUnknownMemberType]
    return names


def _hops(path: Path, root: Path) -> Generator[Path]:
    """Yield the path, and what each link leads to; an absolute link starts at `root`."""
    for _ in range(MAX_LINKS):
        yield path
        try:
            target = path.readlink()
        except OSError:  # no link, or nothing there
            return
        path = root / target.relative_to("/") if target.is_absolute() else path.parent / target
