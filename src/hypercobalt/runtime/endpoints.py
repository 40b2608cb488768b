"""Health, readiness and metrics over HTTP: pages for probes and scrapers, further routes.

One request per connection, read with a bound on size and time; a whole answer, or a stream. A full
HTTP server would cost every agent more than these pages are worth.

Source: Kubernetes API health endpoints (`/healthz`, `/readyz`, `?verbose` text form).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hypercobalt.api.address import Address
from hypercobalt.logs import get_logger
from hypercobalt.runtime import long_lived
from hypercobalt.runtime.bind import listening
from hypercobalt.runtime.listener import Bounds, Listener, Place
from hypercobalt.runtime.places import address_of
from hypercobalt.runtime.routes import (
    Answer,
    Request,
    Requester,
    Route,
    Stream,
    Upgrade,
    read_head,
    route_of,
    text,
)
from hypercobalt.runtime.streaming import close, send_stream

log = get_logger(__name__)

Check = Callable[[], str | None]  # the fault, None without one
Refresh = Callable[[], Coroutine[None, None, None]]  # brings metrics up to date for a scrape
_MAX_HEAD_BYTES = 16 * 1024
_DISCARDED = 64 * 1024  # of a body that is too long, so that a client that still sends is answered
_SECONDS = 5.0  # for a request to arrive and for its answer to leave; for a TLS handshake
_ADMISSION_SECONDS = 10.0  # for the API server's verdict
_STOP_SECONDS = 2.0  # for what is under way when the server stops
_OK = 200


BOUNDS: Final = Bounds()
"""Connections of a listener: some 8 MiB of buffers at most."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides whether a request may read a page.

    Args:
        tls: of the listener.
        admits: who sends a request for a page (None: there is no such page), or the refusal.
    """

    tls: ssl.SSLContext
    admits: Callable[[Request, Route | None], Coroutine[None, None, Requester | Answer]]


class Endpoints:
    """The server for the three pages and further routes.

    Args:
        registry: of `/metrics`; None serves no such page.
        healthy: named checks of `/healthz`; a failing one gets the process restarted. None serves
            no such page.
        ready: named checks of `/readyz`; None serves no such page.
        refreshes: awaited before each scrape; bounded in time by themselves.
        routes: other pages.
        guard: admits clients; None admits all, without TLS.
        bounds: of the connections.
    """

    def __init__(
        self,
        address: Address,
        *,
        registry: CollectorRegistry | None = None,
        healthy: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        refreshes: Sequence[Refresh] = (),
        routes: Sequence[Route] = (),
        guard: Guard | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._guard, self._address, self._bounds = guard, address, bounds
        self._routes = (*_checked(healthy, ready), *_scraped(registry, refreshes), *routes)
        self._listener: Listener | None = None
        self._serving, self._streams = set[asyncio.Task[None]](), set[asyncio.Task[None]]()

    async def start(self) -> Address:
        """Listen, and return the address with its real port.

        Raises:
            ConfigurationError: the address cannot be used.
        """
        host = self._address.host
        sockets = await listening(host, self._address.port)
        taken: int = sockets[0].getsockname()[1]
        tls = self._guard.tls if self._guard else None
        self._listener = Listener(sockets, self._connect, self._bounds, tls)
        log.info("endpoints_opened", host=host, port=taken)
        return Address(host, taken)

    async def stop(self) -> None:
        """Stop listening; streams end, other requests under way have 2 s to be answered."""
        if self._listener is None:
            return
        self._listener.close()
        for stream in self._streams:
            stream.cancel()
        if self._serving:
            _, late = await asyncio.wait(self._serving, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._listener.wait_closed()

    def _connect(self, place: Place) -> asyncio.Protocol:
        return _Connection(place, self._begin)

    def _begin(
        self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._serve(place, reader, writer), name="request")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(
        self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                request = _of_client(read_head(await reader.readuntil(b"\r\n\r\n")), writer)
                found = route_of(request, self._routes)
                whole = await _with_body(request, found, reader)
            answer = await self._answer(place, request, found, whole)
            if isinstance(answer, (Upgrade, Stream)):
                task = cast("asyncio.Task[None]", asyncio.current_task())
                self._streams.add(task)
                task.add_done_callback(self._streams.discard)
            if isinstance(answer, Upgrade):
                long_lived.keep(writer)
                writer.write(answer.head)
                await answer.run(reader, writer)
                return
            if isinstance(answer, Stream):
                lasts = found.lasts if isinstance(found, Route) else 0.0
                await send_stream(answer, reader, writer, lasts=lasts)
                return
            async with asyncio.timeout(_SECONDS):
                writer.write(answer.encoded(head=request.method == "HEAD"))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, or its request was none
        finally:
            await _closed(writer)

    async def _answer(
        self, place: Place, request: Request, found: Route | Answer, whole: Request | Answer
    ) -> Answer | Stream | Upgrade:
        route = found if isinstance(found, Route) else None
        admitted = await self._admitted(request, route)
        if isinstance(admitted, Answer):
            return admitted
        place.at_work = True
        if isinstance(found, Answer):
            return found
        if isinstance(whole, Answer):
            return whole
        return await _handled(found, replace(whole, requester=admitted))

    async def _admitted(self, request: Request, route: Route | None) -> Requester | Answer | None:
        if self._guard is None:
            return None
        try:
            async with asyncio.timeout(_ADMISSION_SECONDS):
                return await self._guard.admits(request, route)
        except TimeoutError:
            return text(504, "the API server does not answer; try again")


class _Connection(asyncio.StreamReaderProtocol):
    """The protocol of a connection, which holds its place until it is lost."""

    def __init__(
        self,
        place: Place,
        begin: Callable[[Place, asyncio.StreamReader, asyncio.StreamWriter], None],
    ) -> None:
        super().__init__(asyncio.StreamReader(limit=_MAX_HEAD_BYTES), partial(begin, place))
        self._place = place

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._place.release()


def _of_client(request: Request, writer: asyncio.StreamWriter) -> Request:
    """The request with what its connection shows of the client."""
    certificate: dict[str, object] | None = writer.get_extra_info("peercert")
    address = address_of(writer.get_extra_info("peername"))
    return replace(request, certificate=certificate or {}, address=address)


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection; one whose client does not take the rest of its answer is ended."""
    writer.close()
    try:
        async with asyncio.timeout(_SECONDS):
            await writer.wait_closed()
    except OSError:  # the client is gone, or its time is over
        pass
    finally:
        writer.transport.abort()


async def _with_body(
    request: Request, found: Route | Answer, reader: asyncio.StreamReader
) -> Request | Answer:
    """The request with its body; an answer if the page does not take that.

    It is read either way: a client that still sends would miss an answer.
    """
    try:
        length = request.length
    except ValueError as error:
        return text(400, str(error))
    if length is None:
        return text(411, "send a Content-Length")
    most = found.most if isinstance(found, Route) else 0
    if length <= most:
        return replace(request, body=await reader.readexactly(length))
    left = min(length, _DISCARDED)
    while left > 0 and (read := len(await reader.read(left))):
        left -= read
    return text(413, f"the body has {length} bytes; at most {most}")


async def _handled(route: Route, request: Request) -> Answer | Stream | Upgrade:
    try:
        async with asyncio.timeout(route.seconds):
            answer = await route.handle(request)
    except TimeoutError:
        return text(504, f"no answer within {route.seconds:g} s; try again")
    if isinstance(answer, Stream) and request.method == "HEAD":
        await close(answer)
        return Answer(_OK, kind=answer.kind)
    if isinstance(answer, Upgrade) and request.method == "HEAD":
        return text(405, "only GET")
    return answer


def _checked(
    healthy: Mapping[str, Check] | None, ready: Mapping[str, Check] | None
) -> Iterator[Route]:
    async def report(checks: Mapping[str, Check], _: Request) -> Answer:
        return _report(checks)

    for path, checks in (("/healthz", healthy), ("/livez", healthy), ("/readyz", ready)):
        if checks is not None:
            yield Route(path, partial(report, checks))


def _scraped(registry: CollectorRegistry | None, refreshes: Sequence[Refresh]) -> Iterator[Route]:
    if registry is None:
        return

    async def metrics(_: Request) -> Answer:
        for refresh in refreshes:
            await refresh()
        return Answer(_OK, generate_latest(registry), CONTENT_TYPE_LATEST)

    yield Route("/metrics", metrics)


def _report(checks: Mapping[str, Check]) -> Answer:
    problems = {name: _problem(check) for name, check in checks.items()}
    lines = [
        f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"
        for name, problem in problems.items()
    ]
    failed = any(problems.values())
    lines.append("check failed" if failed else "ok")
    return text(500 if failed else _OK, "\n".join(lines))


def _problem(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        log.exception("check_crashed")
        return repr(error)
