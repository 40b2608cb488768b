"""Replaces a file of `--state-dir` as a whole: a reader finds the old one or the new one.

Content and name reach the disk before it counts, so a power cut leaves one of the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Sync = Callable[[int], None]
"""Makes what was written to a file descriptor reach the disk."""


def replace(path: Path, content: bytes, sync: Sync) -> None:
    """Replace the content of a file.

    Raises:
        OSError: the new file could not be written; the old one is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        sync(file.fileno())
    new.replace(path)
    sync_directory(path.parent, sync)


def remove(path: Path, sync: Sync) -> None:
    """Remove a file, if there is one.

    Raises:
        OSError: it could not be removed.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_directory(path.parent, sync)


def sync_directory(directory: Path, sync: Sync) -> None:
    """Have the names in a directory reach the disk.

    Raises:
        OSError: they did not.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
