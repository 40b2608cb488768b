"""A key that was made on the host and waits for its certificate: one file that its owner can read.

The file is written whole before the request is created: whatever dies on the way, the next start
finds the key of its request.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.agent.certificates.files import File, put

_MODE: Final = 0o600
_DIGITS: Final = 10
_LONGEST: Final = 238  # of a prefix that makes a name together with a digest


class Pending(msgspec.Struct, frozen=True):
    """A key and its request.

    Args:
        wanted: digest of the names, the issuer and the lifetime that were requested.
        request: PEM.
        key: PEM.
    """

    wanted: str
    request: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Pending(wanted={self.wanted})"

    def name(self, prefix: str) -> str:
        """The name of the request's object: the same for the same request."""
        digest = hashlib.sha256(self.request).hexdigest()[:_DIGITS]
        return f"{prefix[:_LONGEST]}-{digest}"


def load(path: Path) -> Pending | None:
    """The pending key; None without one, or when its file cannot be read as one.

    The file is made private again, if it was opened to others.
    """
    try:
        path.chmod(_MODE)
        return msgspec.json.decode(path.read_bytes(), type=Pending)
    except (OSError, msgspec.DecodeError):
        return None


def store(path: Path, pending: Pending) -> None:
    """Write it, in place of any other.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    put(path, File(path.name, msgspec.json.encode(pending), _MODE))


def discard(path: Path) -> None:
    """Delete it; one that is gone is no error."""
    with suppress(FileNotFoundError):
        path.unlink()
