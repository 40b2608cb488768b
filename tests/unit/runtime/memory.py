"""The scripted server without sockets, for tests whose time is the event loop's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from urllib.parse import parse_qsl

import httpx2
from tests.integration.runtime.scripted import Drop, Hang, Reply, Request, ScriptedServer

from hypercobalt.runtime import Clock, Connection, Kube, Metrics


class MemoryTransport(httpx2.AsyncBaseTransport):
    def __init__(self, server: ScriptedServer, reachable: Callable[[], bool]) -> None:
        self._server, self._reachable = server, reachable

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        received = Request(
            request.method,
            request.url.path,
            dict(parse_qsl(request.url.query.decode())),
            request.headers,
            json.loads(body) if body else {},
        )
        await asyncio.sleep(0.001)
        if not self._reachable():
            raise httpx2.ConnectError("unreachable")
        self._server.calls[received.verb] += 1
        self._server.requests.append(received)
        try:
            reply = next((r for fault in self._server.faults if (r := fault(received))), None)
        except Drop:
            raise httpx2.ReadError("dropped") from None
        except Hang:
            await asyncio.sleep(request.extensions["timeout"]["read"])
            raise httpx2.ReadTimeout("hangs") from None
        reply = reply or self._server._answer(received)
        return httpx2.Response(reply.code, headers=reply.headers, content=content(reply))


def content(reply: Reply) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()


def memory_kube(
    server: ScriptedServer,
    clock: Clock,
    *,
    metrics: Metrics | None = None,
    reachable: Callable[[], bool] = lambda: True,
) -> Kube:
    """A client whose requests end in `server`, as long as it is reachable."""
    return Kube(
        Connection("http://memory"),
        clock=clock,
        metrics=metrics,
        factory=lambda _context, _connections: MemoryTransport(server, reachable),
    )
