"""A websocket to a server that is known by its certificate's digest (`pinned`).

Source: RFC 6455, section 4.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from hypercobalt.errors import TransientError
from hypercobalt.runtime import long_lived
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned, answered, request_lines
from hypercobalt.runtime.client.responses import Head
from hypercobalt.runtime.websocket import accepted, new_key
from hypercobalt.runtime.websocket_bytes import WebSocketBytes

SWITCHED: Final = 101


@asynccontextmanager
async def websocket(
    server: Pinned, target: str, credential: Credential, protocol: str, *, seconds: float
) -> AsyncGenerator[WebSocketBytes]:
    """Begin a websocket; leaving ends it.

    Args:
        server: where to.
        target: path and query, encoded.
        credential: a client certificate, or a token for this server alone.
        protocol: the subprotocol.
        seconds: until the server answers.

    Raises:
        HypercobaltError: as of `pinned.call`.
    """
    async with stream(server, target, credential, protocol, seconds=seconds) as (reader, writer):
        yield WebSocketBytes(reader, writer, is_server=False)


@asynccontextmanager
async def stream(
    server: Pinned,
    target: str,
    credential: Credential,
    protocol: str,
    *,
    seconds: float,
    headers: Sequence[str] = (),
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The connection of a websocket after its handshake, for whoever carries its frames on.

    Args:
        server: where to.
        target: path and query, encoded.
        credential: a client certificate, or a token for this server alone.
        protocol: the subprotocol.
        seconds: until the server answers.
        headers: lines of the request beyond those of a websocket.

    Raises:
        HypercobaltError: as of `pinned.call`.
    """
    key = new_key()
    begins = (*request_lines(server, "GET", target, credential), *headers)
    sent = handshake(begins, key, protocol)
    async with answered(server, credential, sent, SWITCHED, seconds) as (head, reader, writer):
        check_accepted(head, key, server.url)
        long_lived.keep(writer)
        yield reader, writer


def handshake(lines: Sequence[str], key: str, protocol: str) -> bytes:
    """The request that begins a websocket.

    Args:
        lines: of the request, with those that show who sends it.
        key: of the handshake.
        protocol: the subprotocol.
    """
    upgrade = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {protocol}",
        "\r\n",
    )
    return "\r\n".join((*lines, *upgrade)).encode("ascii")


def check_accepted(head: Head, key: str, url: str) -> None:
    """Check that an answer is that to this handshake.

    Raises:
        TransientError: it is another one's.
    """
    if head.get(b"sec-websocket-accept") != accepted(key):
        raise TransientError(f"{url}: the answer does not belong to this websocket")
