"""Connections of clients that cost as much as they can and never send a request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

_THREADS = 64
_HELLO_SECONDS = 2.0

Attack = Callable[[socket.socket], socket.socket]
"""Function that does its worst with a connection, and returns the socket that keeps it open."""


@cache
def client_context() -> ssl.SSLContext:
    """A context that checks nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello() -> bytes:
    """The first record of a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    tls = client_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def silent(connection: socket.socket) -> socket.socket:
    """Send nothing."""
    return connection


def sends(data: bytes, connection: socket.socket) -> socket.socket:
    """Send so much, and no more."""
    with contextlib.suppress(OSError):
        connection.sendall(data)
    return connection


def half_closed(connection: socket.socket) -> socket.socket:
    """End the own direction without a byte."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    return connection


def after_handshake(data: bytes, connection: socket.socket) -> socket.socket:
    """Finish the handshake, then send so much, and no more."""
    connection.settimeout(_HELLO_SECONDS)
    tls = client_context().wrap_socket(connection, do_handshake_on_connect=False)
    with contextlib.suppress(OSError):  # others are before it
        tls.do_handshake()
        tls.sendall(data)
    return tls


BEFORE_TLS: dict[str, Attack] = {
    "silent": silent,
    "half-closed": half_closed,
    "first-bytes": partial(sends, b"\x16\x03\x01"),
    "huge-record": partial(sends, struct.pack(">BHH", 22, 0x301, 2**14) + b"\x01" * 8000),
    "no-record": partial(sends, b"GET / HTTP/1.1\r\n\r\n" * 400),
}
DURING_TLS: dict[str, Attack] = {
    "stalled-handshake": partial(sends, client_hello()),
    "silent-after-handshake": partial(after_handshake, b""),
    "half-a-head": partial(after_handshake, b"GET /healthz HTTP/1.1\r\n" + b"X: " + b"x" * 8000),
}
ATTACKS = BEFORE_TLS | DURING_TLS


@contextlib.asynccontextmanager
async def flood(port: int, attack: Attack, count: int, source: str) -> AsyncIterator[None]:
    """Hold so many connections from one address."""
    opened: list[socket.socket] = []

    def connect(_: int) -> None:
        connection = socket.create_connection(("127.0.0.1", port), 10, (source, 0))
        opened.append(attack(connection))

    with ThreadPoolExecutor(_THREADS) as threads:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.gather(*(loop.run_in_executor(threads, connect, n) for n in range(count)))
            yield
        finally:
            for connection in opened:
                connection.close()


async def status_of(
    port: int, request: bytes, source: str, tls: ssl.SSLContext | None = None
) -> bytes:
    """The status line that a client with this address gets."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, local_addr=(source, 0)
    )
    try:
        writer.write(request)
        return await reader.readline()
    finally:
        writer.transport.abort()


def resident_mib(pid: int) -> float:
    """Memory that a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
