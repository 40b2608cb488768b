"""Faults of a host's shared disks: set by a command, read by the storage server."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path


class StorageFault(StrEnum):
    """A way in which a host's storage fails."""

    CUT = "cut"
    """No request about a disk is answered until repair; then all of them are."""
    HANG = "hang"
    """Same as `cut`, for reads and writes only: disks can be looked up and opened."""
    DENY = "deny"
    """Every read, write and open fails with EIO, as for a client that the storage has fenced."""
    FULL = "full"
    """A write that needs new space fails with ENOSPC; other writes are done."""


class FaultFiles:
    """The faults of a lab's hosts, one file each.

    Args:
        folder: that holds them; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def version(self) -> int:
        """Differs after each change."""
        try:
            return self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def read(self) -> Mapping[str, StorageFault]:
        """The faults by machine: a host's name for the kernel, such as `hc0-1`."""
        if not self._folder.exists():
            return {}
        files = (file for file in self._folder.iterdir() if not file.suffix)
        return {file.name: StorageFault(file.read_text()) for file in files}

    def write(self, machine: str, fault: StorageFault | None) -> None:
        """Set what is wrong for one host; None is nothing."""
        self._folder.mkdir(exist_ok=True)
        file = self._folder / machine
        if fault is None:
            file.unlink(missing_ok=True)
            return
        new = file.with_suffix(".new")
        new.write_text(fault.value)
        new.replace(file)
