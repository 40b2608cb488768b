"""Whether a libvirtd answers at an address, without a session: one call that needs no rights.

A kernel accepts connections for a process that is frozen; so only bytes count that a program has
sent. Over TLS these are any reply to a ClientHello, an alert included: whose certificates are right
does not matter here.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.framing import Message, MessageKind, Status

_FIRST_WORD: Final = 4
_CALL: Final = Message(
    protocol.REMOTE,
    protocol.VERSION,
    protocol.AUTH_LIST.number,
    MessageKind.CALL,
    1,
    Status.OK,
    b"",
).pack()


async def greet(host: str, port: int, *, tls: bool) -> None:
    """Have a libvirtd answer; it has no deadline of its own.

    Raises:
        OSError: there is no connection, or it breaks.
        EOFError: it is closed without an answer.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_client_hello() if tls else _CALL)
        await reader.readexactly(_FIRST_WORD)
    finally:
        writer.close()


def _client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    return hello.read()
