"""An HTTP/1.1 client that costs little, so that a benchmark measures the server.

It keeps one TLS connection, sends one request at a time and hands the bytes of the answer back
without decoding them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

LIMIT = 64 * 1024 * 1024  # of one line; answers come in chunks far below it


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class RawClient:
    """One connection to one server."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._context = context
        self._head = (
            f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Accept: application/json\r\nUser-Agent: benchmark/1\r\n"
        )

    async def __aenter__(self) -> RawClient:
        self._reader, self._writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, limit=LIMIT
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> Answer:
        self._write(method, path, body, content_type)
        status, length = await self._read_head()
        if length is not None:
            return Answer(status, await self._reader.readexactly(length))
        return Answer(status, b"".join([chunk async for chunk in self._chunks()]))

    async def watch(self, path: str) -> AsyncIterator[bytes]:
        """Start an answer that has no end, and give its lines as they come."""
        self._write("GET", path, b"", "")
        status, _ = await self._read_head()
        assert status == 200, status
        return self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    def _write(self, method: str, path: str, body: bytes, content_type: str) -> None:
        kind = f"Content-Type: {content_type}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)

    async def _read_head(self) -> tuple[int, int | None]:
        """Return the status and the length of the body; None when it comes in chunks."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head[9:12])
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name == "content-length":
                return status, int(value)
        return status, None

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readline()
        await self._reader.readline()
