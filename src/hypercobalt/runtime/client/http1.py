"""HTTP/1.1 on asyncio's own streams.

A controller's calls are many and small, and so are the chunks of a watch. Most of the CPU
that a call costs is spent between it and the socket: here a third of what httpx2's pool takes. That
pool still serves what is rare: proxies.

Errors are httpx2's, so that callers need not distinguish the two.

Source: RFC 9112; docs/decisions/0022-calls-on-streams.md.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager, suppress
from socket import SO_RCVLOWAT, SOL_SOCKET
from typing import Final

import httpx2

from hypercobalt.errors import words
from hypercobalt.runtime.client.connecting import connected
from hypercobalt.runtime.client.responses import PIECE, Head, ResponseBody, read_head

KEPT_SECONDS: Final = 60.0
"""How long an idle connection is kept."""

GATHER: Final = "gather"
"""Extension of a request: seconds in which more chunks may arrive before they are read."""

SocketOption = tuple[int, int, int]

_PORTS: Final = {"http": 80, "https": 443}
_INTERIM, _FIRST_FINAL = 100, 200


class Http1(httpx2.AsyncBaseTransport):
    """The connections to one server.

    Args:
        context: of TLS; None where the server has none.
        connections: at once; further requests wait. None sets no limit.
        options: of each socket.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        connections: int | None,
        options: Sequence[SocketOption],
    ) -> None:
        self._context, self._options = context, options
        self._places = asyncio.Semaphore(sys.maxsize if connections is None else connections)
        self._idle: list[_Connection] = []
        self._used: set[_Connection] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the body of the response is read from its stream."""
        await self._places.acquire()
        connection: _Connection | None = None
        try:
            connection = self._kept() or await self._connect(request)
            self._used.add(connection)
            head = await connection.send(request)
        except BaseException:
            self.release(connection, reusable=False)
            raise
        return httpx2.Response(
            head.code, headers=head.headers, stream=_Stream(self, connection, head)
        )

    async def aclose(self) -> None:
        """Close every connection; responses that are not read to their end break."""
        for connection in (*self._idle, *self._used):
            connection.abort()
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        """The connection used last, if it is still good; it is the least likely to have ended."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_good and now - connection.idle_since < KEPT_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self, request: httpx2.Request) -> _Connection:
        url, extensions = request.url, request.extensions
        name = extensions.get("sni_hostname") or url.host
        with _errors(httpx2.ConnectTimeout, httpx2.ConnectError):
            async with asyncio.timeout(extensions["timeout"]["connect"]):
                reader, writer = await asyncio.open_connection(
                    sock=await connected(url.host, url.port or _PORTS[url.scheme]),
                    limit=PIECE,
                    ssl=self._context,
                    server_hostname=name if self._context else None,
                )
        for option in self._options:
            writer.get_extra_info("socket").setsockopt(*option)
        return _Connection(reader, writer)

    def release(self, connection: _Connection | None, *, reusable: bool) -> None:
        """Take note that a request has ended; a connection that is not reusable is closed."""
        self._places.release()
        if connection is None:
            return
        self._used.discard(connection)
        if reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()


class _Connection:
    """A socket, with one request on it at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.idle_since = 0.0
        self.read_seconds = self.gather_seconds = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the server has not closed it, as far as can be seen."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def abort(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()

    async def send(self, request: httpx2.Request) -> Head:
        """Send a request and read the head of its response."""
        timeout = request.extensions["timeout"]
        self.read_seconds = timeout["read"]
        self.gather_seconds = request.extensions.get(GATHER, 0.0)
        with _errors(httpx2.WriteTimeout, httpx2.WriteError):
            self._writer.write(_request(request) + await request.aread())
            async with asyncio.timeout(timeout["write"]):
                await self._writer.drain()
        with _errors(httpx2.ReadTimeout, httpx2.ReadError):
            while True:
                async with asyncio.timeout(self.read_seconds):
                    head = read_head(await self._reader.readuntil(b"\r\n\r\n"))
                if not _INTERIM <= head.code < _FIRST_FINAL:
                    return head

    def body(self, head: Head) -> ResponseBody:
        """Where the pieces of a body come from."""
        gather = self._gather if self.gather_seconds else None
        return ResponseBody(self._reader, head, self.read_seconds, gather)

    async def _gather(self) -> bytes:
        """Let bytes arrive for a moment, without being woken for each of them.

        The kernel reports the socket when much has come, or it has ended. Returns a whole piece as
        soon as there is one, because a full buffer would hold the server up; else nothing.

        Source: socket(7), SO_RCVLOWAT.
        """
        socket = self._writer.get_extra_info("socket")
        with suppress(OSError):  # it is closed: the next read shows that
            socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, PIECE)
        try:
            async with asyncio.timeout(self.gather_seconds):
                return await self._reader.readexactly(PIECE)
        except TimeoutError:
            return b""  # what has come stays in the buffer
        except asyncio.IncompleteReadError as exc:
            return exc.partial
        finally:
            with suppress(OSError):
                socket.setsockopt(SOL_SOCKET, SO_RCVLOWAT, 1)


class _Stream(httpx2.AsyncByteStream):
    """Body of a response; closing it gives the connection back."""

    def __init__(self, pool: Http1, connection: _Connection, head: Head) -> None:
        self._pool, self._connection, self._head = pool, connection, head
        self._ended = self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors(httpx2.ReadTimeout, httpx2.ReadError):
            async for piece in self._connection.body(self._head).pieces():
                yield piece
        self._ended = True

    async def aclose(self) -> None:
        """Give the connection back, or drop it if the body was not read to its end."""
        if not self._closed:
            self._closed = True
            self._pool.release(self._connection, reusable=self._ended and self._head.keeps)


def _request(request: httpx2.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    if any(b"\r" in line or b"\n" in line for line in lines):
        raise httpx2.LocalProtocolError("a header has a line break")
    return b"\r\n".join((*lines, b"", b""))


@contextmanager
def _errors(
    late: type[httpx2.TimeoutException], broken: type[httpx2.NetworkError]
) -> Generator[None]:
    """Raise httpx2's errors for those of the streams."""
    try:
        yield
    except TimeoutError as exc:
        raise late("timed out") from exc
    except OSError as exc:
        raise broken(words(exc)) from exc
    except asyncio.IncompleteReadError as exc:
        raise httpx2.RemoteProtocolError("the server closed the connection") from exc
    except (asyncio.LimitOverrunError, ValueError) as exc:
        raise httpx2.RemoteProtocolError(f"not an HTTP response: {exc}") from exc
