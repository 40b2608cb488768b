"""Requests of one Node's agent whose answers nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from .conftest import Client, no_check

TAKEN, REFUSED = b"HTTP/1.1 200 OK", b"HTTP/1.1 429 Too Many Requests"


@contextlib.asynccontextmanager
async def unread(
    api: Client, path: str, headers: Mapping[str, str], count: int
) -> AsyncIterator[list[bytes]]:
    """Send requests over connections of their own, and read the first lines of their answers."""
    place = urlsplit(str(api.base_url))
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {headers['authorization']}\r\n\r\n"
    async with contextlib.AsyncExitStack() as stack:
        lines: list[bytes] = []
        for _ in range(count):
            bare = socket.socket()
            bare.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
            )  # so that little is on its way
            bare.setblocking(False)
            await asyncio.get_running_loop().sock_connect(bare, (place.hostname, place.port))
            reader, writer = await asyncio.open_connection(
                sock=bare, ssl=no_check(), server_hostname=place.hostname, limit=1024
            )
            stack.callback(lambda kept: kept.transport.abort(), writer)
            writer.write(request.encode())
            lines.append((await reader.readline()).rstrip())
        yield lines
