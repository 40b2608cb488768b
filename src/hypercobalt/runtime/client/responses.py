"""Responses of HTTP/1.1, from the bytes of a stream: head, then body.

Source: RFC 9112.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from hypercobalt.runtime.client.chunked import Chunked

PIECE: Final = 65536
"""Most bytes of a body that are read at once."""

_NO_CONTENT, _NOT_MODIFIED = 204, 304


@dataclass(frozen=True, slots=True)
class Head:
    """Head of a response.

    Args:
        code: of the status.
        headers: as they came.
        length: of the body, in bytes; None where only the end of the stream bounds it.
        chunked: the body comes in chunks with their lengths.
        keeps: the server keeps the connection.
    """

    code: int
    headers: list[tuple[bytes, bytes]]
    length: int | None
    chunked: bool
    keeps: bool

    def get(self, name: bytes) -> str:
        """The first header of a name in small letters; "" without one."""
        found = (value for key, value in self.headers if key.lower() == name)
        return next(found, b"").decode("latin-1")


def read_head(raw: bytes) -> Head:
    """The head of a response.

    Raises:
        ValueError: it cannot be read.
    """
    status, *lines = raw[:-4].split(b"\r\n")
    version, code = status.split(b" ", 2)[:2]
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    known = {name.lower(): value.lower() for name, value in headers}
    number, length = int(code), known.get(b"content-length")
    chunked = known.get(b"transfer-encoding") == b"chunked"
    if length is not None and not length.isdigit():
        raise ValueError(f"Content-Length {length[:32]!r} is not a number")
    empty = number in (_NO_CONTENT, _NOT_MODIFIED)
    size = 0 if empty else int(length) if length is not None and not chunked else None
    keeps = version == b"HTTP/1.1" and known.get(b"connection") != b"close"
    return Head(number, headers, size, chunked, keeps and (chunked or size is not None))


class ResponseBody:
    """The body of a response, read once.

    Args:
        reader: the connection, after the head.
        head: of the response.
        seconds: longest silence; None sets no limit.
        gather: waits for more chunks to come, and returns a whole piece of them or nothing.

    Attributes:
        trailers: what follows the last chunk, by names in small letters.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        head: Head,
        seconds: float | None,
        gather: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        self._reader, self._head, self._seconds, self._gather = reader, head, seconds, gather
        self.trailers: dict[str, str] = {}

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The pieces as they come, at most 64 KiB each.

        Raises:
            TimeoutError: it was silent for too long.
            asyncio.IncompleteReadError: it was cut off.
            ValueError: the bytes are no body in chunks.
        """
        return self._chunked() if self._head.chunked else self._plain(self._head.length)

    async def _chunked(self) -> AsyncGenerator[bytes, None]:
        """All that has come of the chunks, each time."""
        chunks = Chunked()
        while not chunks.ended:
            data = await self._read(PIECE)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            while data:
                if piece := chunks.feed(data):
                    yield piece
                data = b"" if self._gather is None or chunks.ended else await self._gather()
        self.trailers = chunks.trailers

    async def _plain(self, length: int | None) -> AsyncGenerator[bytes, None]:
        left = length
        while left is None or left > 0:
            piece = await self._read(PIECE if left is None else min(left, PIECE))
            if piece:
                left = None if left is None else left - len(piece)
                yield piece
            elif left is None:
                return
            else:
                raise asyncio.IncompleteReadError(b"", left)

    async def _read(self, most: int) -> bytes:
        async with asyncio.timeout(self._seconds):
            return await self._reader.read(most)
