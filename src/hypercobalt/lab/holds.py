"""Processes that a command has stopped, and that stay so until a command starts them.

A file for each role: the lab's supervisor starts none of them (`supervision`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path


class Holds:
    """Roles that are held.

    Args:
        folder: of the files; it need not be there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, role: str) -> None:
        """Have a role stay stopped."""
        file = self._folder / role
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def release(self, role: str) -> None:
        """Have a role started again when it dies."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (self._folder / role).unlink()

    def held(self) -> frozenset[str]:
        """The roles that are held."""
        files = (file for file in self._folder.rglob("*") if file.is_file())
        return frozenset(str(file.relative_to(self._folder)) for file in files)
