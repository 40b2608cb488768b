"""Health, readiness and metrics over HTTP: three pages for probes and scrapers.

One request per connection, read with a bound on size and time. A whole HTTP server would be more to
carry for every agent than these pages are worth.

Source: Kubernetes API health endpoints (`/healthz`, `/readyz`, `?verbose` text form).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

Check = Callable[[], str | None]  # what is wrong, None if nothing is
Refresh = Callable[[], Coroutine[None, None, None]]  # brings metrics up to date for a scrape
_MAX_PORT = 65535
_MAX_HEAD_BYTES = 16 * 1024
_SECONDS = 5.0  # for a request to arrive and for its answer to leave; for a TLS handshake
_STOP_SECONDS = 2.0  # for what is under way when the server stops
_TEXT = "text/plain; charset=utf-8"
_OK = 200
_PHRASES = {
    _OK: "OK",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes a free one, host "" means all addresses."""

    host: str = "127.0.0.1"
    port: int = 8080


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands before a page.

    Args:
        tls: of the listener.
        admits: the HTTP status for a request with this token on this path; 200 admits it.
    """

    tls: ssl.SSLContext
    admits: Callable[[str, str], Coroutine[None, None, int]]


def parse_address(flag: str, text: str) -> Address | None:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (all addresses); `0` is none.

    Raises:
        ConfigurationError: the text is no such thing; the message names the flag.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
        raise ConfigurationError(f"{flag} {text!r}: must look like :8081, 127.0.0.1:8081 or 0")
    return Address(host.strip("[]"), int(port))


class Endpoints:
    """The server for the three pages.

    Args:
        registry: of `/metrics`; None serves no such page.
        healthy: named checks of `/healthz`; a failing one gets the process restarted. None serves
            no such page.
        ready: named checks of `/readyz`; None serves no such page.
        refreshes: awaited before each scrape; bounded in time by themselves.
        guard: admits readers; None admits all, without TLS.
    """

    def __init__(
        self,
        address: Address,
        *,
        registry: CollectorRegistry | None,
        healthy: Mapping[str, Check] | None,
        ready: Mapping[str, Check] | None,
        refreshes: Sequence[Refresh] = (),
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        self._address, self._registry, self._refreshes = address, registry, refreshes
        self._healthy, self._ready = healthy, ready
        self._server: asyncio.Server | None = None

    async def start(self) -> Address:
        """Listen; gives the address with its real port.

        Raises:
            ConfigurationError: the address cannot be had.
        """
        host, port = self._address.host, self._address.port
        tls = self._guard.tls if self._guard else None
        try:
            self._server = await asyncio.start_server(
                self._serve,
                host or None,
                port,
                limit=_MAX_HEAD_BYTES,
                ssl=tls,
                ssl_handshake_timeout=_SECONDS if tls else None,
                ssl_shutdown_timeout=_SECONDS if tls else None,
            )
        except OSError as exc:
            raise ConfigurationError(f"cannot listen on {host}:{port}: {exc.strerror}") from exc
        taken: int = self._server.sockets[0].getsockname()[1]
        log.info("endpoints_opened", host=host, port=taken)
        return Address(host, taken)

    async def stop(self) -> None:
        """Listen no more; requests under way have 2 s to be answered."""
        if self._server is not None:
            self._server.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, or its request was none
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        code = (
            await self._guard.admits(_token(head), path.decode(errors="replace"))
            if self._guard
            else _OK
        )
        kind, body = _TEXT, _PHRASES.get(code, "").encode() + b"\n"
        if code == _OK:
            code, kind, body = await self._page(method, path)
        lines = (
            f"HTTP/1.1 {code} {_PHRASES[code]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "\r\n",
        )
        return "\r\n".join(lines).encode() + (b"" if method == b"HEAD" else body)

    async def _page(self, method: bytes, path: bytes) -> tuple[int, str, bytes]:
        if method not in {b"GET", b"HEAD"}:
            return 405, _TEXT, b"only GET\n"
        if path == b"/metrics" and self._registry is not None:
            for refresh in self._refreshes:
                await refresh()
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        pages = {b"/healthz": self._healthy, b"/livez": self._healthy, b"/readyz": self._ready}
        checks = pages.get(path)
        if checks is None:
            return 404, _TEXT, b"there are /healthz, /readyz and /metrics\n"
        return _report(checks)


def _token(head: bytes) -> str:
    """The bearer token of a request, empty if it has none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        scheme, _, token = value.strip().partition(b" ")
        if name.strip().lower() == b"authorization" and scheme.lower() == b"bearer":
            return token.strip().decode("ascii", errors="replace")
    return ""


def _report(checks: Mapping[str, Check]) -> tuple[int, str, bytes]:
    problems = {name: _problem(check) for name, check in checks.items()}
    lines = [
        f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"
        for name, problem in problems.items()
    ]
    failed = any(problems.values())
    lines.append("check failed" if failed else "ok")
    return 500 if failed else 200, _TEXT, "\n".join(lines).encode() + b"\n"


def _problem(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        log.exception("check_crashed")
        return repr(error)
