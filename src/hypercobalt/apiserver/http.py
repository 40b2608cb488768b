"""HTTP: bytes from and to the pipeline, over uvicorn.

A request's head and body must arrive within a deadline and below a size, so that slow or greedy
clients cost little.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import (
    AsyncGenerator,
    Generator,
    Sequence,
)
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access.authentication import Authenticator, bearer_token
from hypercobalt.apiserver.connections import Kept
from hypercobalt.apiserver.inflight import Inflight, Share, count_answer, is_read, weight
from hypercobalt.apiserver.pipeline import Api
from hypercobalt.apiserver.rendering import error_response
from hypercobalt.apiserver.requests.request import ANONYMOUS, PIECE, Request, Response, Stream, User
from hypercobalt.apiserver.transfer import (
    ClientGoneError,
    IncomingBody,
    Receive,
    Scope,
    Send,
    send_response,
    send_stream,
)
from hypercobalt.logs import get_logger
from hypercobalt.runtime.listener import Bounds, Listener, Place

log = get_logger(__name__)

REQUEST_SECONDS = 60.0  # a request is answered after this long, as in kube-apiserver
KEEP_ALIVE_SECONDS = 90
STOP_SECONDS = 5
HEAD_SECONDS = 32.0  # a request's head must have arrived after this long, as in kube-apiserver
BOUNDS = Bounds(places=512, handshakes=64, waiting=2048, seconds=15.0)
MAX_HEAD = 2**20  # bytes, as Go's http.Server


class _Control:
    """A connection as its requests see it; no reference that keeps one that is lost in memory."""

    def __init__(self, protocol: _Protocol) -> None:
        self.protocol: _Protocol | None = protocol

    def abort(self) -> None:
        """End the connection."""
        if self.protocol is not None:
            self.protocol.abort()

    def serve(self, user: str) -> None:
        """Take note that a request of this user is served; empty for strangers."""
        if self.protocol is not None:
            self.protocol.serve(user)


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which bounds a request's head and passes the client's certificate on.

    It holds a place among the connections of strangers until a user has sent a request.
    """

    def __init__(self, server: _Uvicorn, place: Place) -> None:
        state = server.server_state
        super().__init__(server.config, state, server.lifespan.state)
        self._place, self._kept = place, server.kept
        self._user = ""  # the last user who has sent a request; empty for strangers
        self._deadline: asyncio.TimerHandle | None = None  # while a head is awaited
        self._head_bytes = 0
        self._control = _Control(self)

    def abort(self) -> None:
        """End the connection."""
        self.transport.abort()

    def serve(self, user: str) -> None:
        """Take note that a request of this user is served; empty for strangers."""
        self._kept.remove(self._user, self)
        if user:  # else it goes on to count for who was there before
            self._user = user
            self._place.release()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(PIECE)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._kept.remove(self._user, self)
        self._place.release()
        self._control.protocol = None
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._user and not self.transport.is_closing():
            self._kept.remove(self._user, self)
            self._kept.add(self._user, self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self.transport.abort()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()
        tls = self.transport.get_extra_info("ssl_object")
        peer = tls.getpeercert() if tls is not None else None
        extensions: dict[str, Any] = {
            "peer": peer or {},
            "connection": self._control,
        }
        self.scope["extensions"] = extensions

    def shutdown(self) -> None:
        super().shutdown()
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        if cycle is None or cycle.response_complete:
            # An idle client would not answer the end of TLS, and we would wait for it.
            self.transport.abort()


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, on a listener that bounds connections.

    Signals are the caller's business: a server may run inside another program.
    """

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.kept, self._tls = Kept(), tls

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        listener = Listener(sockets or (), partial(_Protocol, self), BOUNDS, self._tls)
        self.servers = cast("list[asyncio.Server]", [listener])  # of which it uses what both have
        self.started = True
        self.ready.set()


@contextlib.asynccontextmanager
async def running(
    api: Api,
    authenticator: Authenticator,
    tls: ssl.SSLContext,
    listening: Sequence[socket.socket],
) -> AsyncGenerator[asyncio.Future[None]]:
    """Answer requests until the block is left, and yield a future that ends with the server."""
    config = uvicorn.Config(
        _App(api, authenticator),
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = _Uvicorn(config, tls)
    task = asyncio.create_task(server.serve(sockets=[*listening]), name="http")
    try:
        await server.ready.wait()
        yield task
    finally:
        server.should_exit = True
        await asyncio.wait({task})


class _App:
    """The ASGI side of the pipeline."""

    def __init__(self, api: Api, authenticator: Authenticator) -> None:
        self._api, self._authenticator = api, authenticator
        self._inflight = Inflight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        headers = dict(reversed(fields))  # the first of each counts, as in Go
        user = self._user(scope, headers)
        connection: _Control = scope["extensions"]["connection"]
        connection.serve("" if user is ANONYMOUS else user.flow)
        body = IncomingBody(receive, headers, Share(self._inflight.bodies, user.flow))
        query = _query(scope["query_string"].decode("latin-1"))
        request = Request(scope["method"], scope["path"], query, headers, user, read=body.read)
        request.room = room = self._inflight.room(user)
        share = self._inflight.share(request)
        try:
            answer = await self._answer(request, fields, body, share)
            if isinstance(answer, Stream):
                await send_stream(answer, receive, send)
            else:
                async with asyncio.timeout(REQUEST_SECONDS):
                    await send_response(answer, request, body, send)
        except ClientGoneError:
            return
        except TimeoutError:  # the client does not read the answer
            connection.abort()
        finally:
            share.release()
            if room is not None:
                room.release()

    async def _answer(
        self, request: Request, fields: Sequence[tuple[str, str]], body: IncomingBody, share: Share
    ) -> Response | Stream:
        try:
            _refuse_several_identities(fields)
            self._api.authorize(request, fields)  # before its body costs anything
            if places := weight(request):
                share.take(places)
                await self._inflight.turns.wait(request.user.flow)
            if is_read(request):
                answer = await self._api.handle(request)
            else:
                answer = await self._within_time(request, body, share)
            if isinstance(answer, Response):
                count_answer(request, answer)
        except errors.StatusError as error:
            return error_response(error)
        except ClientGoneError:
            raise
        except Exception:  # a bug must end one request, not the server
            log.exception("request_failed", method=request.method, path=request.path)
            return error_response(errors.internal("see the server's log"))
        return answer

    async def _within_time(
        self, request: Request, body: IncomingBody, share: Share
    ) -> Response | Stream:
        """The answer to a write; a slower write continues, and keeps its share until it ends.

        Raises:
            StatusError: 408 when the body did not come, 504 when something else takes too long.
        """

        def release(_: object) -> None:
            share.release()
            body.share.release()

        share.hold()  # for the write, whose answer holds it as well
        task = asyncio.create_task(self._api.handle(request), name="write")
        task.add_done_callback(release)
        done, _ = await asyncio.wait({task}, timeout=REQUEST_SECONDS)
        if done:
            return task.result()
        task.cancel()  # unless its write was begun: that ends it when the write is decided
        raise errors.timed_out() if body.whole else _no_body()

    def _user(self, scope: Scope, headers: dict[str, str]) -> User:
        user = self._authenticator.by_certificate(scope["extensions"].get("peer"))
        if user is None and (token := bearer_token(headers)):
            user = self._authenticator.by_token(token)
        return user or ANONYMOUS


def _query(text: str) -> dict[str, str]:
    """The first value of each parameter, as Go's url.Values.Get."""
    return dict(reversed(parse_qsl(text, keep_blank_values=True)))


def _no_body() -> errors.StatusError:
    text = f"the body did not arrive within {REQUEST_SECONDS:g} s"
    return errors.StatusError(408, "Timeout", text)


def _refuse_several_identities(fields: Sequence[tuple[str, str]]) -> None:
    """Refuse several Authorization headers: proxies may differ in which they look at."""
    if sum(name == "authorization" for name, _ in fields) > 1:
        raise errors.bad_request("the request has several Authorization headers")
