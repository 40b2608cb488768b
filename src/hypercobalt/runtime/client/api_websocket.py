"""A websocket at the API server, which serves it or passes it on to the server of its group.

Source: RFC 6455, section 4.1; k8s.io/kube-aggregator, pkg/apiserver (handler_proxy.go).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.kubeconfig import Connection
from hypercobalt.runtime import long_lived
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import CONNECT_SECONDS, RefusedError, answer_head
from hypercobalt.runtime.client.pinned_websocket import SWITCHED, check_accepted, handshake
from hypercobalt.runtime.client.responses import PIECE
from hypercobalt.runtime.client.tls import make_context
from hypercobalt.runtime.websocket import new_key
from hypercobalt.runtime.websocket_bytes import WebSocketBytes


class _Status(msgspec.Struct):
    message: str = ""


@asynccontextmanager
async def api_websocket(
    connection: Connection, credential: Credential, path: str, protocol: str, *, seconds: float
) -> AsyncGenerator[WebSocketBytes]:
    """Begin a websocket; leaving ends it.

    Args:
        connection: of the API server; one behind a proxy is not reached.
        credential: of the person.
        path: of the page, encoded.
        protocol: the subprotocol.
        seconds: until there is an answer.

    Raises:
        TransientError: no connection, or no answer.
        RefusedError: the API server, or the server of the group, refuses; with its message.
        ConfigurationError: the authority or the client certificate cannot be used.
    """
    parts, key = urlsplit(connection.server), new_key()
    reader, writer = await _connected(connection, credential)
    try:
        lines = [f"GET {parts.path.rstrip('/')}{path} HTTP/1.1", f"Host: {parts.netloc}"]
        if credential.authorization:
            lines.append(f"Authorization: {credential.authorization}")
        writer.write(handshake(lines, key, protocol))
        try:
            head = await answer_head(reader, connection.server, credential, SWITCHED, seconds)
        except RefusedError as error:
            raise RefusedError(error.code, _message(str(error))) from error
        check_accepted(head, key, connection.server)
        long_lived.keep(writer)
        yield WebSocketBytes(reader, writer, is_server=False)
    finally:
        writer.transport.abort()


async def _connected(
    connection: Connection, credential: Credential
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(connection.server)
    if not parts.hostname:
        raise HypercobaltError(f"{connection.server} is no URL of an API server")
    context: ssl.SSLContext | None = None
    if parts.scheme == "https":
        context = make_context(connection, credential.certificate)
    name = (connection.tls_server_name or parts.hostname) if context else None
    port = parts.port or (443 if context else 80)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(
                parts.hostname, port, ssl=context, server_hostname=name, limit=PIECE
            )
    except TimeoutError as error:
        text = f"{connection.server}: no connection in {CONNECT_SECONDS:g} s"
        raise TransientError(text) from error
    except OSError as error:
        raise TransientError(f"{connection.server}: {error.strerror or error}") from error


def _message(text: str) -> str:
    """The message of a Status; the text itself if it is none."""
    try:
        return msgspec.json.decode(text, type=_Status).message or text
    except (ValueError, RecursionError):
        return text
