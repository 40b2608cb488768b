"""Bare connections to a server, and whether it serves others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from .conftest import Client, no_check
from .objects import CONFIG_MAPS


@contextlib.asynccontextmanager
async def connection(
    api: Client, *, tls: bool = True
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection to the server."""
    place = urlsplit(str(api.base_url))
    reader, writer = await asyncio.open_connection(
        place.hostname, place.port, ssl=no_check() if tls else None
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def works(api: Client, name: str = "c") -> None:
    """Check that the server reads and writes for others, at once."""
    async with asyncio.timeout(5):
        assert (await api.post(CONFIG_MAPS, json={"metadata": {"name": name}})).status_code == 201
        assert (await api.get(f"{CONFIG_MAPS}/{name}")).status_code == 200
        assert (await api.delete(f"{CONFIG_MAPS}/{name}")).status_code == 200


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the server has ended the connection."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        async with asyncio.timeout(10):
            while await reader.read(65536):
                pass
