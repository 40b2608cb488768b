"""Sends a stream as the body of an answer, in chunks whose end is marked.

A body that lacks its last chunk was cut off: the process ended, or the connection broke. A body
that ends with an error, or because its time is over, has the reason in the trailer `Error`. When
its time is over, it also has `Ended: time`, so that a client may go on with another request. A
chunk is requested when the client has taken those before, so a slow client slows its source down.

Source: RFC 9112, section 7.1 (chunks, trailers).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hypercobalt.errors import HypercobaltError, words
from hypercobalt.logs import get_logger
from hypercobalt.runtime.routes import Stream

log = get_logger(__name__)

STALLED: Final = 30.0
"""Seconds after which a client that takes nothing counts as gone."""

ENDED, TIME = "Ended", "time"
"""The trailer of a stream whose time was over, and its value."""

_BUFFERED: Final = 65536  # bytes that wait for the client
_MOST_TEXT: Final = 512  # of an error, in characters


@dataclass(frozen=True, slots=True)
class _End:
    """How a stream ended: by what error, "" for none, or because its time was over."""

    error: str
    by_time: bool = False


async def send_stream(
    stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, lasts: float
) -> None:
    """Send a stream to its end; close it however it ends.

    Raises:
        OSError, TimeoutError: the client is gone, or takes nothing.
    """
    try:
        writer.transport.set_write_buffer_limits(high=_BUFFERED)
        writer.write(stream.head())
        end = await _sent(stream.chunks, reader, writer, lasts)
        if end is not None:
            writer.write(b"0\r\n" + _trailers(end) + b"\r\n")
            async with asyncio.timeout(STALLED):
                await writer.drain()
    finally:
        await close(stream)


async def close(stream: Stream) -> None:
    """Close a stream, whether or not it has started."""
    try:
        await stream.chunks.aclose()
    finally:
        await stream.close()


async def _sent(
    chunks: AsyncGenerator[bytes, None],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    lasts: float,
) -> _End | None:
    """Send the chunks, and return what ended them; None if the client left."""
    pump = asyncio.create_task(_pump(chunks, writer), name="stream")
    gone = asyncio.create_task(_gone(reader), name="stream-client")
    try:
        await asyncio.wait({pump, gone}, timeout=lasts, return_when=asyncio.FIRST_COMPLETED)
        if pump.done():
            return _End(pump.result())
        if gone.done():
            return None
        return _End(f"ended after {lasts:g} s, the longest that it may take", by_time=True)
    finally:
        pump.cancel()
        gone.cancel()
        await asyncio.gather(pump, gone, return_exceptions=True)


async def _pump(chunks: AsyncGenerator[bytes, None], writer: asyncio.StreamWriter) -> str:
    """Send every chunk, and return the error that ended them; "" for none.

    Raises:
        OSError, TimeoutError: the client is gone, or takes nothing.
    """
    while True:
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            return ""
        except HypercobaltError as error:
            return words(error)
        except Exception:  # a bug ends one stream, not the process
            log.exception("stream_failed")
            return "internal error; see the log of the agent"
        if chunk:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            async with asyncio.timeout(STALLED):
                await writer.drain()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Wait until the client leaves; one that sends more than its request does not keep to HTTP."""
    with suppress(OSError):
        await reader.read(1)


def _trailers(end: _End) -> bytes:
    if not end.error:
        return b""
    text = " ".join(end.error.split())[:_MOST_TEXT]
    printable = "".join(one if one.isprintable() else "?" for one in text)
    ended = f"{ENDED}: {TIME}\r\n" if end.by_time else ""
    return f"Error: {printable}\r\n{ended}".encode("ascii", "backslashreplace")
