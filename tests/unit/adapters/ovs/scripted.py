"""A server on a Unix socket whose every byte a test writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TEXTS = {"key": "string", "value": "string", "min": 0, "max": "unlimited"}
COLUMNS: dict[str, dict[str, object]] = {
    "Open_vSwitch": {"cur_cfg": "integer"},
    "SSL": {"ca_cert": "string"},
    "Bridge": {
        "name": "string",
        "datapath_id": {"key": "string", "min": 0},
        "external_ids": TEXTS,
    },
    "Port": {"name": "string"},
    "Interface": {"name": "string"},
    "Mirror": {"name": "string"},
    "Manager": {"target": "string"},
}
SCHEMA = {
    "version": "7.0.0",
    "tables": {
        table: {"columns": {name: {"type": kind} for name, kind in columns.items()}}
        for table, columns in COLUMNS.items()
    },
}
_STEPS_OF_ACCEPTING = 5  # of the loop, until the handler of an accepted connection runs


@asynccontextmanager
async def served(socket: Path, serve: Serve) -> AsyncIterator[Path]:
    """Serve each connection with `serve`; the connection ends when that returns."""
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        handlers.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            handlers.discard(task)
            writer.transport.abort()

    server = await asyncio.start_unix_server(handle, socket)
    try:
        yield socket
    finally:
        # asyncio loses a connection that it accepts while its server closes.
        for _ in range(_STEPS_OF_ACCEPTING):
            await asyncio.sleep(0)
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def replies(*chunks: bytes, hold: bool = True) -> Serve:
    """Answer the first bytes that come with these, each written by itself.

    Args:
        chunks: what is written.
        hold: keep the connection open afterwards.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0)
        if hold:
            await reader.read()

    return serve


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read and never answer, as a stopped daemon."""
    await reader.read()
