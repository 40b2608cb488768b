"""A websocket as an end of a relay: bytes in, bytes out, until one side closes.

Pings are answered here. A peer that does not keep to the protocol, or sends a close, is at its end.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from typing import Final

from hypercobalt.runtime.websocket import (
    CloseCode,
    Decoder,
    Opcode,
    WebSocketError,
    close_payload,
    close_reason,
    encode,
)

_READ: Final = 16 * 1024  # bytes
_BUFFERED: Final = 64 * 1024  # bytes that wait for the peer
_CLOSE_SECONDS: Final = 2.0


class WebSocketBytes:
    """The bytes of one websocket.

    Args:
        reader: of the connection, after the handshake.
        writer: of the connection; the caller closes it.
        is_server: this side accepted the handshake.

    Attributes:
        reason: why the peer closed, in its words; "" if it gave none.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_server: bool
    ) -> None:
        self._reader, self._writer, self._is_server = reader, writer, is_server
        self._decoder, self._ready = Decoder(masked=is_server), deque[bytes]()
        self._ended, self._closed = False, False
        self.reason = ""
        writer.transport.set_write_buffer_limits(high=_BUFFERED)

    async def read(self) -> bytes:
        """Some bytes of the peer; b"" when it has closed, or sends what is no websocket.

        Raises:
            OSError: the connection broke.
        """
        while not self._ready and not self._ended:
            data = await self._reader.read(_READ)
            if not data:
                self._ended = True
                break
            try:
                self._take(data)
            except WebSocketError as error:
                self._end(CloseCode.PROTOCOL_ERROR, str(error))
        return self._ready.popleft() if self._ready else b""

    async def write(self, data: bytes) -> None:
        """Send bytes as one message; return when few enough wait for the peer.

        Raises:
            OSError: the connection broke, or is closed.
        """
        if self._closed:
            raise BrokenPipeError("the websocket is closed")
        self._send(Opcode.BINARY, data)
        await self._writer.drain()

    async def close(self, code: CloseCode = CloseCode.NORMAL, reason: str = "") -> None:
        """Say why it ends; a peer that takes nothing is waited for 2 s."""
        self._end(code, reason)
        with suppress(OSError):  # a time-out is one
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.drain()

    def _take(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if frame.opcode is Opcode.BINARY:
                self._ready.append(frame.payload)
            elif frame.opcode is Opcode.PING:
                self._pong(frame.payload)
            elif frame.opcode is Opcode.CLOSE:
                self.reason = close_reason(frame.payload)
                self._end(CloseCode.NORMAL, "")
                return

    def _pong(self, payload: bytes) -> None:
        if self._writer.transport.get_write_buffer_size() < 2 * _BUFFERED and not self._closed:
            self._send(Opcode.PONG, payload)

    def _end(self, code: CloseCode, reason: str) -> None:
        self._ended = True
        if not self._closed:
            self._send(Opcode.CLOSE, close_payload(code, reason))
            self._closed = True

    def _send(self, opcode: Opcode, payload: bytes) -> None:
        mask = b"" if self._is_server else os.urandom(4)
        self._writer.write(encode(opcode, payload, mask=mask))
