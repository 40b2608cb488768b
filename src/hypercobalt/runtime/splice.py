"""Carries bytes between two connections, as they are, until one of them ends.

Whoever sends faster than the other side takes is made to wait: what a splice costs is the buffers
of its connections. Nothing ends it for being idle.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

CHUNK: Final = 16 * 1024
"""Bytes that are handed on at once, at most."""

_LAST_SECONDS: Final = 5.0  # for the last bytes to leave, such as a websocket's close

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def splice(one: Stream, other: Stream) -> None:
    """Carry bytes both ways until one side has ended and its last bytes are handed on."""
    ways = (
        asyncio.create_task(_carried(one[0], other[1]), name="there"),
        asyncio.create_task(_carried(other[0], one[1]), name="back"),
    )
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for _, writer in (one, other):
            await _left(writer)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # either connection broke: that is its end
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


async def _left(writer: asyncio.StreamWriter) -> None:
    """Wait until all bytes are with the system; a peer that takes none is waited for 5 s."""
    writer.transport.set_write_buffer_limits(high=0)
    with suppress(OSError):  # a time-out is one
        async with asyncio.timeout(_LAST_SECONDS):
            await writer.drain()
