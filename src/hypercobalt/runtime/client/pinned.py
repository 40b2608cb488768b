"""Calls to a server that is known by its certificate's digest, not by a name or an authority.

One request per connection. Nothing of the request is sent before the certificate is the right one.
The answer comes in pieces; one that is cut off, or that ends with an error, raises.

Source: RFC 9112 (chunks, trailers); the agents' diagnostics servers (`runtime/endpoints.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.responses import PIECE, Head, ResponseBody, read_head
from hypercobalt.runtime.client.tls import load_certificate
from hypercobalt.runtime.streaming import ENDED, TIME

CONNECT_SECONDS: Final = 10.0
_MOST_TEXT: Final = 4096  # of a refusal, in bytes
_OK: Final = 200


class PinError(HypercobaltError):
    """The server has another certificate than the one it is known by."""


class RefusedError(HypercobaltError):
    """The server refused.

    Args:
        code: HTTP status.
        message: its text.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class TimeOverError(HypercobaltError):
    """The answer ended because it had taken the longest time that it may; all before it came."""


class CutOffError(TransientError):
    """The answer did not come to its end."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A server.

    Args:
        url: https://HOST:PORT.
        fingerprint: SHA-256 of its certificate, in hexadecimal digits.
    """

    url: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose head has arrived.

    Args:
        kind: of the body.
        chunks: the body; raises CutOffError, TimeOverError, and HypercobaltError with the server's
            reason.
    """

    kind: str
    chunks: AsyncGenerator[bytes, None]


@asynccontextmanager
async def call(
    server: Pinned,
    method: str,
    target: str,
    credential: Credential,
    *,
    seconds: float,
    idle: float | None = None,
    body: bytes = b"",
) -> AsyncGenerator[Reply]:
    """Send a request.

    Args:
        server: where to.
        method: of HTTP.
        target: path and query, encoded.
        credential: a client certificate, or a token for this server alone.
        seconds: until the answer begins.
        idle: longest silence within the answer; None sets no limit.
        body: of the request.

    Raises:
        TransientError: no connection, or no answer.
        PinError: the server is another one.
        RefusedError: it answered with another status than 200.
        HypercobaltError: the URL is none.
    """
    sent = _request(server, method, target, credential, body) + body
    async with answered(server, credential, sent, _OK, seconds) as (head, reader, _):
        chunks = _pieces(reader, head, idle)
        try:
            yield Reply(head.get(b"content-type"), chunks)
        finally:
            await chunks.aclose()


@asynccontextmanager
async def answered(
    server: Pinned, credential: Credential, sent: bytes, code: int, seconds: float
) -> AsyncGenerator[tuple[Head, asyncio.StreamReader, asyncio.StreamWriter]]:
    """The connection of a request, once it is answered with this status; errors as of `call`."""
    reader, writer = await _connected(server, credential)
    try:
        writer.write(sent)
        head = await answer_head(reader, server.url, credential, code, seconds)
        yield head, reader, writer
    finally:
        writer.transport.abort()  # the server takes that for the client's leaving


async def answer_head(
    reader: asyncio.StreamReader, url: str, credential: Credential, code: int, seconds: float
) -> Head:
    """The head of the answer to a request, which has to have a status; errors as of `call`."""
    try:
        async with asyncio.timeout(seconds):
            head = read_head(await reader.readuntil(b"\r\n\r\n"))
            text = await reader.read(_MOST_TEXT) if head.code != code else b""
    except TimeoutError as error:
        raise TransientError(f"{url}: no answer in {seconds:g} s") from error
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise TransientError(f"{url}: {_cause(error, credential)}") from error
    except ValueError as error:
        raise TransientError(f"{url}: the answer is not HTTP: {error}") from error
    if head.code != code:
        reason = text.decode(errors="replace").strip() or f"HTTP {head.code}"
        raise RefusedError(head.code, reason)
    return head


async def _connected(
    server: Pinned, credential: Credential
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the pin takes its place, below
    if credential.certificate is not None:
        load_certificate(context, *credential.certificate)
    host, port = _address(server.url)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname="", limit=PIECE
            )
    except TimeoutError as error:
        raise TransientError(f"{server.url}: no connection in {CONNECT_SECONDS:g} s") from error
    except OSError as error:
        raise TransientError(f"{server.url}: {error.strerror or error}") from error
    except UnicodeError as error:  # of the encoding of names
        raise HypercobaltError(f"{server.url}: its host is no name: {error}") from error
    tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
    shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
    if shown != server.fingerprint.lower():
        writer.transport.abort()
        raise PinError(f"{server.url} shows another certificate than the agent has published")
    return reader, writer


def _address(url: str) -> tuple[str, int]:
    """Host and port of a URL, which whoever runs the server has chosen.

    Raises:
        HypercobaltError: it has none, or is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise HypercobaltError(f"{url} is not https://HOST:PORT: {error}") from error
    if not host or not port or not url.isascii():
        raise HypercobaltError(f"{url} is not https://HOST:PORT")
    return host, port


def request_lines(server: Pinned, method: str, target: str, credential: Credential) -> list[str]:
    """Lines of a request that show who sends it; its headers and an empty line follow.

    Raises:
        HypercobaltError: the URL is none.
    """
    _address(server.url)
    lines = [f"{method} {target} HTTP/1.1", f"Host: {urlsplit(server.url).netloc}"]
    if credential.authorization and credential.certificate is None:
        lines.append(f"Authorization: {credential.authorization}")
    return lines


def _request(
    server: Pinned, method: str, target: str, credential: Credential, body: bytes
) -> bytes:
    lines = request_lines(server, method, target, credential)
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("ascii")


async def _pieces(
    reader: asyncio.StreamReader, head: Head, idle: float | None
) -> AsyncGenerator[bytes, None]:
    body = ResponseBody(reader, head, idle)
    if not head.chunked and head.length is None:
        raise CutOffError("the answer states no length, so its end would not show")
    try:
        async for piece in body.pieces():
            yield piece
    except TimeoutError as error:
        raise CutOffError(f"the agent was silent for {idle} s") from error
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        raise CutOffError("the answer was cut off: the agent stopped, or is cut off") from error
    if reason := body.trailers.get("error"):
        over = body.trailers.get(ENDED.lower()) == TIME
        raise TimeOverError(reason) if over else HypercobaltError(reason)


def _cause(error: Exception, credential: Credential) -> str:
    """Cause of the end of the connection, for a person.

    With TLS 1.3 a refused certificate shows after the request only, and not every server sends an
    alert.
    """
    if credential.certificate is None:
        return f"the connection ended without an answer: {error}"
    return (
        "the connection ended without an answer; the server takes client certificates only of the "
        f"cluster's client CA and within their dates: {error}"
    )
