"""Frames: a length of four bytes, the highest first, and so many bytes of JSON.

A peer may be broken into, so it gets no more memory than one frame, and no more time than a frame
may take. Between frames it may be silent for ever.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from hypercobalt.errors import TransientError

LONGEST: Final = 1 << 20
"""Bytes of a frame's content."""
PATIENCE: Final = 10.0
"""Seconds from the first byte of a frame to its last."""

_LENGTH: Final = struct.Struct(">I")


class FrameError(TransientError):
    """A peer sends what is no frame, or not in time; the connection is of no use any more."""


def frame(content: bytes) -> bytes:
    """A frame with this content.

    Raises:
        FrameError: it is empty or too long.
    """
    _check(len(content))
    return _LENGTH.pack(len(content)) + content


async def read_frame(reader: asyncio.StreamReader, *, patience: float = PATIENCE) -> bytes | None:
    """Read the content of the next frame; None if the peer closed the connection before it.

    Args:
        reader: of the connection.
        patience: seconds for a frame that has begun.

    Raises:
        FrameError: its length cannot be, it is cut, or it takes too long.
    """
    try:
        begun = await reader.read(1)
        if not begun:
            return None
        async with asyncio.timeout(patience):
            (length,) = _LENGTH.unpack(begun + await reader.readexactly(_LENGTH.size - 1))
            _check(length)
            return await reader.readexactly(length)
    except TimeoutError as exc:
        raise FrameError(f"a frame took longer than {patience:g} s") from exc
    except asyncio.IncompleteReadError as exc:
        raise FrameError("the connection ended within a frame") from exc
    except OSError as exc:
        raise FrameError(f"the connection broke: {exc.strerror or exc}") from exc


def _check(length: int) -> None:
    if not 0 < length <= LONGEST:
        raise FrameError(f"a frame of {length} bytes: must be 1 to {LONGEST}")
