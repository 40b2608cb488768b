"""Answers that come in chunks, and clients that leave, stall, or wait for too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api.address import Address
from hypercobalt.errors import HypercobaltError
from hypercobalt.launch import own_certificate
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned, TimeOverError, call
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, Stream

END = b"0\r\n\r\n"


@dataclass
class Source:
    """Chunks, and whether they were closed."""

    kind: str
    taken: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: int = 0

    async def handle(self, _: Request) -> Answer | Stream:
        return Stream(self.chunks(), "application/octet-stream", self.give_up)

    async def give_up(self) -> None:
        self.given_up += 1

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            for piece in (b"one", b"", b"two"):
                yield piece
            while self.kind == "endless":
                self.taken += 1
                yield b"x" * 10_000
            if self.kind == "silent":
                await asyncio.Event().wait()
            if self.kind == "fails":
                raise HypercobaltError("tap1 is\r\ngone")
            if self.kind == "bug":
                raise RuntimeError("secret")
        finally:
            await asyncio.sleep(0)  # a cleanup may wait
            self.closed.set()


@asynccontextmanager
async def served(source: Source, lasts: float = 5.0) -> AsyncGenerator[tuple[Endpoints, int]]:
    pages = Endpoints(Address(port=0), routes=(Route("/stream", source.handle, lasts=lasts),))
    port = (await pages.start()).port
    try:
        yield pages, port
    finally:
        await pages.stop()


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /stream HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    return reader, writer


async def body(port: int) -> bytes:
    reader, writer = await opened(port)
    async with asyncio.timeout(5):
        found = await reader.read()
    writer.close()
    return found


FIRST = b"3\r\none\r\n3\r\ntwo\r\n"


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("whole", END),
        ("fails", b"0\r\nError: tap1 is gone\r\n\r\n"),
        ("bug", b"0\r\nError: internal error; see the log of the agent\r\n\r\n"),
        (
            "silent",
            b"0\r\nError: ended after 0.2 s, the longest that it may take\r\nEnded: time\r\n\r\n",
        ),
    ],
)
async def test_end_of_a_stream_shows_why(kind: str, end: bytes) -> None:
    source = Source(kind)
    async with served(source, lasts=5.0 if kind != "silent" else 0.2) as (_, port):
        assert await body(port) == FIRST + end
        await asyncio.wait_for(source.closed.wait(), 5)
    assert source.given_up == 1


@pytest.mark.parametrize("kind", ["silent", "endless"])
async def test_source_is_closed_when_the_client_leaves(kind: str) -> None:
    source = Source(kind)
    async with served(source) as (_, port):
        _, writer = await opened(port)
        writer.transport.abort()
        await asyncio.wait_for(source.closed.wait(), 5)
    assert source.given_up == 1


async def test_source_is_closed_and_its_stream_cut_off_when_the_process_stops() -> None:
    source = Source("silent")
    async with served(source) as (pages, port):
        reader, writer = await opened(port)
        async with asyncio.timeout(1):  # not the two seconds that answers have
            await pages.stop()
            left = await reader.read()
        writer.close()
    assert source.closed.is_set()
    assert source.given_up == 1
    assert left == FIRST  # no last chunk: the client sees that it is cut off


async def test_slow_client_slows_the_source_down() -> None:
    source = Source("endless")
    async with served(source) as (_, port):
        _, writer = await opened(port)

        async def still() -> None:
            seen = -1
            while seen != source.taken or not seen:
                seen = source.taken
                await asyncio.sleep(0.1)  # a source that is not held back gives thousands in this

        await asyncio.wait_for(still(), 10)
        assert source.taken < 1000  # what the buffers of both sockets hold
        writer.transport.abort()
        await asyncio.wait_for(source.closed.wait(), 5)


async def test_head_of_a_stream_begins_nothing() -> None:
    source = Source("endless")
    async with served(source) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HEAD /stream HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
    assert (source.taken, source.given_up) == (0, 1)


async def admit(_request: Request, _route: Route | None) -> Requester:
    return Requester("jane")


@pytest.mark.parametrize(
    ("kind", "raised"), [("silent", TimeOverError), ("fails", HypercobaltError), ("whole", None)]
)
async def test_pinned_client_sees_whether_time_or_an_error_ended_a_stream(
    kind: str, raised: type[HypercobaltError] | None
) -> None:
    source, tls = Source(kind), ListenerTls(own_certificate())
    route = Route("/stream", source.handle, lasts=0.3 if kind == "silent" else 5.0)
    pages = Endpoints(Address("127.0.0.1", 0), routes=(route,), guard=Guard(tls.context, admit))
    port = (await pages.start()).port
    server = Pinned(f"https://127.0.0.1:{port}", tls.fingerprint)
    chunks: list[bytes] = []
    found: HypercobaltError | None = None
    try:
        async with call(server, "GET", "/stream", Credential("Bearer x"), seconds=5) as reply:
            async for chunk in reply.chunks:
                chunks.append(chunk)  # noqa: PERF401 - those before an error count
    except HypercobaltError as error:
        found = error
    finally:
        await pages.stop()
    assert b"".join(chunks) == b"onetwo"
    assert (type(found) if found else None) is raised
