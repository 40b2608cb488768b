"""HTTP/1.1 on streams: framing, connections that are used again, and what breaks."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from hypercobalt.runtime.client.http1 import GATHER, KEPT_SECONDS, Http1

SECONDS = {"connect": 5.0, "read": 0.3, "write": 5.0, "pool": None}
OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = OK + b"Content-Length: 5\r\n\r\nhello"


class Server:
    """Answers each request with the next of some bytes; None hangs up instead."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers, self.connections, self.requests = list(answers), 0, list[bytes]()
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                if b"\r\n\r\n" in answer and b"Until-End" in answer:
                    break
                if b"Silent" in answer:
                    await reader.read()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[tuple[Server, Http1]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    pool = Http1(None, 1, ())
    try:
        yield server, pool
    finally:
        await pool.aclose()
        listening.close()


async def get(server: Server, pool: Http1, **headers: str) -> bytes:
    url = f"http://127.0.0.1:{server.port}/a?b=c"
    request = httpx2.Request("GET", url, headers=headers, extensions={"timeout": SECONDS})
    response = await pool.handle_async_request(request)
    try:
        return await response.aread()
    finally:
        await response.aclose()


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body", "connections"),
    [
        pytest.param(PLAIN, b"hello", 1, id="length"),
        pytest.param(CHUNKED, b"hello", 1, id="chunks-and-trailers"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN, b"hello", 1, id="interim"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", 1, id="no-content"),
        pytest.param(OK + b"Until-End: 1\r\n\r\nhello", b"hello", 2, id="until-its-end"),
        pytest.param(
            PLAIN.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), b"hello", 2, id="closes"
        ),
    ],
)
async def test_body_is_read_and_the_connection_used_again(
    answer: bytes, body: bytes, connections: int
) -> None:
    async with serving(answer, PLAIN) as (server, pool):
        assert await get(server, pool) == body
        assert await get(server, pool) == b"hello"
        assert server.connections == connections
        assert server.requests[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(None, httpx2.RemoteProtocolError, id="hangs-up"),
        pytest.param(b"no HTTP\r\n\r\n", httpx2.RemoteProtocolError, id="not-http"),
        pytest.param(OK + b"A: " + b"x" * 70_000, httpx2.RemoteProtocolError, id="endless-head"),
        pytest.param(
            OK + b"Content-Length: 9\r\nUntil-End: 1\r\n\r\nhello",
            httpx2.RemoteProtocolError,
            id="cut-off",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            httpx2.RemoteProtocolError,
            id="no-length-of-a-chunk",
        ),
        pytest.param(OK + b"Silent: 1\r\n", httpx2.ReadTimeout, id="silent-in-its-head"),
        pytest.param(
            OK + b"Silent: 1\r\nContent-Length: 9\r\n\r\nhello",
            httpx2.ReadTimeout,
            id="silent-in-its-body",
        ),
    ],
)
async def test_broken_response_is_an_error_and_its_connection_is_not_used_again(
    answer: bytes | None, error: type[Exception]
) -> None:
    async with serving(answer, PLAIN) as (server, pool):
        with pytest.raises(error):
            await get(server, pool)
        assert await get(server, pool) == b"hello"
        assert server.connections == 2


async def test_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async with serving(PLAIN, PLAIN) as (server, pool):
        await get(server, pool)
        (connection,) = pool._idle
        connection._reader.feed_eof()
        assert await get(server, pool) == b"hello"
        assert server.connections == 2


async def test_connection_is_not_kept_for_ever() -> None:
    async with serving(PLAIN, PLAIN) as (server, pool):
        await get(server, pool)
        (connection,) = pool._idle
        connection.idle_since -= KEPT_SECONDS
        assert await get(server, pool) == b"hello"
        assert server.connections == 2


async def test_unread_response_gives_its_place_back() -> None:
    async with serving(PLAIN, PLAIN) as (server, pool):
        url = f"http://127.0.0.1:{server.port}/"
        request = httpx2.Request("GET", url, extensions={"timeout": SECONDS})
        response = await pool.handle_async_request(request)
        await response.aclose()
        assert await get(server, pool) == b"hello"
        assert server.connections == 2


async def test_header_with_a_line_break_is_not_sent() -> None:
    async with serving(PLAIN) as (server, pool):
        with pytest.raises(httpx2.LocalProtocolError):
            await get(server, pool, a="b\r\nc: d")
        assert not server.requests


async def test_server_that_is_not_there_is_a_connect_error() -> None:
    server, pool = Server(), Http1(None, 1, ())
    server.port = 1
    for _ in range(2):
        with pytest.raises(httpx2.ConnectError):
            await get(server, pool)


EVENTS = 40


async def test_request_that_is_cancelled_at_any_step_leaves_no_socket_open() -> None:
    async with serving(*([PLAIN] * 50)) as (server, pool):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for steps in range(50):
                asked = asyncio.create_task(get(server, pool, Connection="close"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                await pool.aclose()
            await asyncio.sleep(0)  # transports close their sockets with the next turn
            gc.collect()
    assert [str(one.message) for one in seen] == []
    assert server.connections > 0, "none was cancelled while it connected"


async def test_chunks_that_arrive_within_a_moment_are_read_together() -> None:
    """Being woken for each is what a busy watch costs; none of its chunks is lost or late."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(EVENTS):
            writer.write(b"3\r\n%02d\n\r\n" % number)
            await writer.drain()
            await asyncio.sleep(0.01)  # apart, as events are
        writer.write(b"0\r\n\r\n")
        writer.close()

    async def pieces(seconds: float) -> list[bytes]:
        listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        pool = Http1(None, 1, ())
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        extensions = {"timeout": SECONDS, GATHER: seconds}
        try:
            response = await pool.handle_async_request(
                httpx2.Request("GET", url, extensions=extensions)
            )
            return [piece async for piece in response.stream]  # type: ignore[union-attr]
        finally:
            await pool.aclose()
            listening.close()

    apart, together = await pieces(0.0), await pieces(0.2)
    assert b"".join(apart) == b"".join(together) == b"".join(b"%02d\n" % n for n in range(EVENTS))
    assert len(together) < len(apart) / 3


async def test_more_than_the_buffers_hold_does_not_wait_for_the_end_of_the_moment() -> None:
    """A server that sends faster than that would be held up, and a watch fall behind for good."""
    sent = b"10000\r\n%b\r\n" % bytes(65536) * 64  # far more than socket and stream buffer
    async with serving(OK + b"Transfer-Encoding: chunked\r\nSilent: 1\r\n\r\n" + sent) as (
        server,
        pool,
    ):
        extensions = {"timeout": SECONDS, GATHER: 3600.0}
        request = httpx2.Request("GET", f"http://127.0.0.1:{server.port}/", extensions=extensions)
        response = await pool.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        read = 0
        async with asyncio.timeout(10):
            async for piece in response.stream:
                read += len(piece)
                if read >= len(sent) // 2:
                    break
        await response.aclose()


async def test_connection_that_ends_while_its_chunks_gather_is_an_error() -> None:
    async with serving(OK + b"Transfer-Encoding: chunked\r\nUntil-End: 1\r\n\r\n1\r\na\r\n") as (
        server,
        pool,
    ):
        url = f"http://127.0.0.1:{server.port}/"
        extensions = {"timeout": SECONDS, GATHER: 0.05}
        response = await pool.handle_async_request(
            httpx2.Request("GET", url, extensions=extensions)
        )
        with pytest.raises(httpx2.RemoteProtocolError):
            await response.aread()
        await response.aclose()
