"""Bytes between two connections: what waits, what is bounded, what ends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from hypercobalt.runtime.splice import Stream, splice

DEADLINE = 20.0
MOST = 8 * 2**20
"""Bytes: more than the buffers of two sockets and two streams."""


async def opened(end: socket.socket) -> Stream:
    return await asyncio.open_connection(sock=end, limit=64 * 1024)


@asynccontextmanager
async def spliced() -> AsyncIterator[tuple[Stream, Stream, asyncio.Task[None]]]:
    """Two peers whose connections are one."""
    left, right = socket.socketpair(), socket.socketpair()
    peers = await opened(left[0]), await opened(right[0])
    inner = await opened(left[1]), await opened(right[1])
    task = asyncio.create_task(splice(*inner))
    try:
        yield *peers, task
    finally:
        task.cancel()
        for _, writer in (*peers, *inner):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_bytes_go_both_ways() -> None:
    async with spliced() as (one, other, _):
        for source, target in ((one, other), (other, one)):
            source[1].write(b"bytes")
            async with asyncio.timeout(DEADLINE):
                assert await target[0].readexactly(5) == b"bytes"


async def test_peer_that_reads_nothing_makes_the_other_one_wait() -> None:
    async with spliced() as (one, other, _):
        sent = 0
        with suppress(TimeoutError):
            while sent < MOST:
                one[1].write(b"x" * 2**16)
                sent += 2**16
                async with asyncio.timeout(1.0):
                    await one[1].drain()
        assert sent < MOST
        other[1].write(b"typed")  # the other way is free
        async with asyncio.timeout(DEADLINE):
            assert await one[0].readexactly(5) == b"typed"
            assert len(await other[0].readexactly(sent)) == sent


async def test_last_bytes_arrive_before_the_end() -> None:
    async with spliced() as (one, other, task):
        one[1].write(b"x" * 2**20 + b"closed")
        one[1].close()
        async with asyncio.timeout(DEADLINE):
            assert (await other[0].readexactly(2**20 + 6))[-6:] == b"closed"
            await task


async def test_peer_that_is_gone_ends_it() -> None:
    async with spliced() as (one, _, task):
        one[1].transport.abort()
        async with asyncio.timeout(DEADLINE):
            await task
