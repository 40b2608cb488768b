"""A program's answer counts, a kernel's does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hypercobalt.adapters.libvirt.greeting import greet
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.framing import Frames, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.xdr import codec

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BOUND = 5.0
HELLO = b"\x16\x03"  # a TLS handshake, of version 3.x
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    async with await asyncio.start_server(once, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def libvirtd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    (call,) = Frames().feed(await reader.read(1024))
    assert (call.procedure, call.payload) == (protocol.AUTH_LIST.number, b"")
    answer = codec(protocol.Types).encode(protocol.Types((0,)))
    writer.write(call._replace(kind=MessageKind.REPLY, status=Status.OK, payload=answer).pack())


async def alerting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert (await reader.read(1024)).startswith(HELLO)
    writer.write(ALERT)


async def closing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1024)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1024):
        pass


@pytest.mark.parametrize(("serve", "tls"), [(libvirtd, False), (alerting, True)])
async def test_any_answer_of_a_program_is_one(serve: Serve, tls: bool) -> None:
    async with serving(serve) as port, asyncio.timeout(BOUND):
        await greet("127.0.0.1", port, tls=tls)


@pytest.mark.parametrize("tls", [False, True])
async def test_a_connection_that_is_only_accepted_is_no_answer(tls: bool) -> None:
    async with serving(silent) as port:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(greet("127.0.0.1", port, tls=tls), 0.1)


async def test_a_connection_that_ends_is_no_answer() -> None:
    async with serving(closing) as port:
        with pytest.raises((EOFError, ConnectionError)):
            await greet("127.0.0.1", port, tls=False)
