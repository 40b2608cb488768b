"""A file that holds some space of the disk, for writes that a full disk must not stop.

Deletes make room, and renewals of Leases keep leaders in office. What else is written waits until
the space can be held again, so it never uses up what these need.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from hypercobalt.apiserver.storage.objects import Event
from hypercobalt.logs import get_logger

log = get_logger(__name__)

FILE = "reserve"
SIZE = 4 * 2**20  # bytes: a log of SQLite between two checkpoints
LEASES = "leases.coordination.k8s.io"
MAX_LEASE = 16 * 1024  # bytes


class _Meta(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815  # wire name


class _Object(msgspec.Struct):
    metadata: _Meta


_decoder = msgspec.json.Decoder(_Object)


class Reserve:
    """The file in one data directory; held from the start, if there is room."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self.held = self._missed = False
        self.hold()

    def hold(self) -> bool:
        """Take the space unless it is held, and return whether it is held now."""
        if self.held:
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, SIZE)
            finally:
                os.close(file)
        except OSError as error:
            self.release()
            if not self._missed:
                log.warning("reserve_missing", file=str(self._path), error=error.strerror)
            self._missed = True
            return False
        self.held, self._missed = True, False
        return True

    def release(self) -> None:
        """Free the space for the next write."""
        self._path.unlink(missing_ok=True)
        self.held = False


def is_essential(event: Event) -> bool:
    """Whether a write may use the reserve: a delete, a step of one, or the renewal of a Lease."""
    if event.type != "MODIFIED":
        return event.type == "DELETED"
    if event.key.resource == LEASES:
        return len(event.data) <= MAX_LEASE
    if b'"deletionTimestamp"' not in event.data:
        return False
    return _decoder.decode(event.data).metadata.deletionTimestamp is not None
