"""The sockets to one API server, under one client certificate.

Calls and watches have pools of their own, so that long watches never keep a call waiting. When the
client certificate changes, a new session takes over and the old one closes after its last response.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import httpx2

from hypercobalt.kubeconfig import Connection
from hypercobalt.runtime.client.http1 import Http1
from hypercobalt.runtime.client.tls import make_context

TransportFactory = Callable[[ssl.SSLContext | None, int | None], httpx2.AsyncBaseTransport]

# The kernel notices a peer that vanished without closing in about half a minute, also mid-write.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),  # ms
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A response on a session."""

    session: Session
    response: httpx2.Response

    async def body(self) -> AsyncIterator[bytes]:
        """The chunks of the body as they arrive, at most 64 KiB each."""
        stream = self.response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            async for chunk in stream:
                yield chunk

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.body()])

    async def aclose(self) -> None:
        """Give the connection back, or drop it if the body is not read to its end."""
        try:
            await self.response.aclose()
        finally:
            await self.session.finished()


class Session:
    """Two connection pools.

    Args:
        connection: where to.
        certificate: PEM chain and key, or None.
        connections: most sockets for calls at one time; watches are not counted.
        factory: makes a pool; tests put a scripted one here.
    """

    def __init__(
        self,
        connection: Connection,
        certificate: tuple[bytes, bytes] | None,
        connections: int,
        factory: TransportFactory | None = None,
    ) -> None:
        secure = connection.server.startswith("https://")
        context = make_context(connection, certificate) if secure else None
        make = factory or _pool_factory(connection)
        self.certificate = certificate
        self._calls, self._watches = make(context, connections), make(context, None)
        self.under_way = 0
        self._retired = False

    async def open(self, request: httpx2.Request, *, watch: bool) -> Exchange:
        """Send a request; the body of the response is not read yet. The caller closes it."""
        self.under_way += 1
        try:
            pool = self._watches if watch else self._calls
            return Exchange(self, await pool.handle_async_request(request))
        except BaseException:
            await self.finished()
            raise

    async def finished(self) -> None:
        """An exchange has ended."""
        self.under_way -= 1
        if self._retired and not self.under_way:
            await self.aclose()

    async def retire(self) -> None:
        """Close as soon as nothing is under way."""
        self._retired = True
        if not self.under_way:
            await self.aclose()

    async def aclose(self) -> None:
        await self._calls.aclose()
        await self._watches.aclose()


def _pool_factory(connection: Connection) -> TransportFactory:
    def make(context: ssl.SSLContext | None, connections: int | None) -> httpx2.AsyncBaseTransport:
        if connection.proxy is None:
            return Http1(context, connections, _KEEPALIVE)
        return httpx2.AsyncHTTPTransport(
            # Without TLS the context is not used, and loading the system's takes 20 ms.
            verify=context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            limits=httpx2.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=60.0,
            ),
            proxy=connection.proxy,
            socket_options=_KEEPALIVE,
        )

    return make
