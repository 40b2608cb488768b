"""Sends calls: with a fresh credential, a deadline, retries, a metric and a log line.

A `Call` is a whole request in the API's own words; the answer is the body's bytes, or
an error of `client.errors`. Compression is not requested: inside a data centre it costs both sides
more time than the bytes do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlencode

import httpx2

from hypercobalt.errors import ConfigurationError, HypercobaltError, words
from hypercobalt.kubeconfig import Connection
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.auth import Credential, Credentials, credentials_for
from hypercobalt.runtime.client.errors import (
    ApiError,
    ConnectionFailedError,
    DeadlineExceededError,
    UnauthorizedError,
    WatchClosedError,
    from_status,
    read_status,
)
from hypercobalt.runtime.client.http1 import GATHER
from hypercobalt.runtime.client.retry import (
    Backoff,
    NotSentError,
    read_retry_after,
    retry_wait,
)
from hypercobalt.runtime.client.session import Exchange, Session, TransportFactory
from hypercobalt.runtime.clock import Clock
from hypercobalt.runtime.metrics import Metrics

log = get_logger(__name__)

_FIRST_ERROR = 400
_NO_ANSWER = "<error>"
AT_ONCE = timedelta(0)
"""Value of `gather` by which chunks are read as they arrive."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much the client may.

    Args:
        deadline: for a call, all its attempts and waits included.
        attempt: for one attempt to get an answer.
        connect: for the TCP and TLS handshakes of an attempt.
        connections: most sockets for calls at once; further calls wait within their deadline.
    """

    deadline: timedelta = timedelta(seconds=30)
    attempt: timedelta = timedelta(seconds=10)
    connect: timedelta = timedelta(seconds=5)
    connections: int = 16
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the API's words.

    Args:
        verb: get, list, watch, create, apply, patch or delete.
        about: verb and object, for messages: `patch Hypervisor kvm-a`.
        idempotent: done twice, it leaves what it leaves done once.
        deadline: for this call; None is the client's.
        guard: called right before each attempt, however long after the first; what it raises ends
            the call.
    """

    verb: str
    method: str
    path: str
    resource: str
    about: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    content_type: str = "application/json"
    idempotent: bool = True
    deadline: timedelta | None = None
    guard: Callable[[], None] | None = None


class Transport:
    """Sends calls to one API server; one for a process.

    Args:
        connection: where to and who we are.
        user_agent: shown in the server's audit log and request metrics.
        factory: makes the connection pools; None makes real ones.

    Raises:
        ConfigurationError: the connection's URLs or its identity cannot be used.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        metrics: Metrics,
        limits: Limits,
        user_agent: str,
        factory: TransportFactory | None = None,
    ) -> None:
        self._connection, self._limits, self._clock = connection, limits, clock
        self._metrics, self._factory = metrics, factory
        self._credentials: Credentials = credentials_for(connection, clock)
        self._session: Session | None = None
        self._host = _host(connection)
        self._headers = {
            "Host": self._host,
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }

    async def send(self, call: Call) -> bytes:
        """Make a call.

        Raises:
            ApiError: the server refused.
            ConnectionFailedError: no answer.
            DeadlineExceededError: no answer in time.

        What the call's guard raises comes through as it is.
        """
        started = self._clock.monotonic()
        code = _NO_ANSWER
        try:
            body = await self._within_deadline(call)
        except ApiError as error:
            code = str(error.code)
            raise
        else:
            code = "ok"
            return body
        finally:
            seconds = self._clock.monotonic() - started
            self._metrics.call_seconds.labels(call.verb, call.resource, code).observe(seconds)
            log.debug("api_called", call=call.about, code=code, duration_ms=round(seconds * 1000))

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.aclose()
            self._session = None

    @asynccontextmanager
    async def stream(
        self, call: Call, idle: timedelta, gather: timedelta = AT_ONCE
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a watch, and yield an iterator over the chunks of its body.

        Args:
            call: the watch; its deadline is for the answer's head.
            idle: longest silence before the connection counts as dead.
            gather: how long chunks may arrive before they are read.

        Raises:
            ApiError: the server refused; also what `send` raises.
            WatchClosedError: from the iterator, when the connection broke or went silent.
        """
        exchange = await self._open_watch(call, idle, gather)
        try:
            yield _chunks(exchange, call, idle)
        finally:
            await exchange.aclose()

    async def _open_watch(self, call: Call, idle: timedelta, gather: timedelta) -> Exchange:
        credential = await self._credentials.current()
        try:
            return await self._open(call, credential, read=idle, gather=gather)
        except UnauthorizedError:
            self._credentials.rejected(credential)
            fresh = await self._credentials.current()
            return await self._open(call, fresh, read=idle, gather=gather)

    async def _within_deadline(self, call: Call) -> bytes:
        deadline = call.deadline or self._limits.deadline
        failures: list[HypercobaltError] = []
        try:
            async with asyncio.timeout(deadline.total_seconds()) as scope:
                return await self._attempts(call, scope, failures)
        except TimeoutError as exc:
            last = f"; before that: {failures[-1]}" if failures else ""
            raise DeadlineExceededError(
                f"{call.about}: no answer in {deadline.total_seconds():g} s{last}"
            ) from exc

    async def _attempts(
        self, call: Call, scope: asyncio.Timeout, failures: list[HypercobaltError]
    ) -> bytes:
        refreshed = False
        while True:
            credential = await self._credentials.current()
            if call.guard is not None:
                call.guard()
            try:
                return await self._attempt(call, credential)
            except UnauthorizedError:
                self._credentials.rejected(credential)
                if refreshed:
                    raise
                refreshed = True
            except (ApiError, ConnectionFailedError, DeadlineExceededError) as error:
                await self._wait_to_retry(call, scope, failures, error)

    async def _wait_to_retry(
        self,
        call: Call,
        scope: asyncio.Timeout,
        failures: list[HypercobaltError],
        error: HypercobaltError,
    ) -> None:
        wait = retry_wait(
            error,
            idempotent=call.idempotent,
            attempt=len(failures),
            backoff=self._limits.backoff,
        )
        until = (scope.when() or 0) - asyncio.get_running_loop().time()
        if wait is None or wait >= until:
            raise error
        failures.append(error)
        log.info("api_call_retried", call=call.about, wait_ms=round(wait * 1000), error=str(error))
        await asyncio.sleep(wait)

    async def _attempt(self, call: Call, credential: Credential) -> bytes:
        exchange = await self._open(call, credential, read=self._limits.attempt)
        try:
            return await exchange.read()
        except httpx2.TransportError as exc:
            raise _no_answer(call, self._host, exc) from exc
        finally:
            await exchange.aclose()

    async def _open(
        self,
        call: Call,
        credential: Credential,
        *,
        read: timedelta,
        gather: timedelta | None = None,
    ) -> Exchange:
        """Send a call; `gather` is how long the chunks of a watch may arrive before a read."""
        session, watch = await self._session_for(credential), gather is not None
        request = self._build(call, credential, read)
        if gather:
            request.extensions[GATHER] = gather.total_seconds()
        code = _NO_ANSWER
        try:
            exchange = await session.open(request, watch=watch)
            code = str(exchange.response.status_code)
        except httpx2.TransportError as exc:
            raise _no_answer(call, self._host, exc) from exc
        finally:
            self._metrics.requests.labels(code, call.method, self._host).inc()
        if exchange.response.status_code < _FIRST_ERROR:
            return exchange
        try:
            raise await self._refusal(call, exchange)
        finally:
            await exchange.aclose()

    async def _refusal(self, call: Call, exchange: Exchange) -> ApiError:
        response = exchange.response
        try:
            body = await exchange.read()
        except httpx2.TransportError:
            body = b""  # the code alone suffices
        retry_after = read_retry_after(response.headers.get("Retry-After"), self._clock)
        return from_status(
            call.about, read_status(response.status_code, body), retry_after=retry_after
        )

    def _build(self, call: Call, credential: Credential, read: timedelta) -> httpx2.Request:
        headers = dict(self._headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        query = f"?{urlencode(call.params)}" if call.params else ""
        extensions: dict[str, object] = {
            "timeout": {
                "connect": self._limits.connect.total_seconds(),
                "read": read.total_seconds(),
                "write": self._limits.attempt.total_seconds(),
                "pool": None,  # bounded by the call's deadline
            }
        }
        if self._connection.tls_server_name:
            extensions["sni_hostname"] = self._connection.tls_server_name
        return httpx2.Request(
            call.method,
            f"{self._connection.server}{call.path}{query}",
            headers=headers,
            content=call.body,
            extensions=extensions,
        )

    async def _session_for(self, credential: Credential) -> Session:
        old = self._session
        if old is not None and old.certificate == credential.certificate:
            return old
        new = Session(
            self._connection, credential.certificate, self._limits.connections, self._factory
        )
        self._session = new
        if old is not None:
            await old.retire()
        return new


def _host(connection: Connection) -> str:
    """Host and port of the server."""
    try:
        host = httpx2.URL(connection.server).netloc.decode("ascii")
        if connection.proxy:
            httpx2.Proxy(connection.proxy)
    except (httpx2.InvalidURL, ValueError) as exc:
        raise ConfigurationError(f"server {connection.server} or its proxy: {exc}") from exc
    return host


async def _chunks(exchange: Exchange, call: Call, idle: timedelta) -> AsyncIterator[bytes]:
    try:
        async for chunk in exchange.body():
            yield chunk
    except httpx2.ReadTimeout as exc:
        silence = f"silent for {idle.total_seconds():g} s"
        raise WatchClosedError(f"{call.about}: {silence}") from exc
    except httpx2.TransportError as exc:
        raise WatchClosedError(f"{call.about}: {words(exc)}") from exc


def _no_answer(call: Call, host: str, exc: httpx2.TransportError) -> HypercobaltError:
    if isinstance(exc, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)):
        return NotSentError(f"{call.about}: cannot connect to {host}: {words(exc)}")
    if isinstance(exc, httpx2.TimeoutException):
        return DeadlineExceededError(f"{call.about}: {words(exc)}")
    return ConnectionFailedError(f"{call.about}: {words(exc)}")
