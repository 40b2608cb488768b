"""Frames of a websocket that carries bytes, and the handshake before them. Pure.

What a peer sends is handed on as it arrives, in pieces: neither a long frame nor a message of many
frames is kept, so a peer decides about no memory here. Text counts as bytes.

Source: RFC 6455, sections 4.2 (handshake), 5 (frames), 7.4 (codes of a close).
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hypercobalt.errors import InvalidRequestError
from hypercobalt.runtime.routes import Answer, Request, text

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
_MOST_CONTROL: Final = 125  # bytes
_SHORT, _LONG = 126, 127  # lengths that say how the length is written
_FIN, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_MOST_LENGTH: Final = 2**63


class Opcode(IntEnum):
    """Kinds of frames."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """Why a websocket ends."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002


class WebSocketError(InvalidRequestError):
    """A peer does not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What arrived: a control frame as a whole, of a frame of data a piece."""

    opcode: Opcode
    payload: bytes = b""


class Decoder:
    """Reads the frames of one peer.

    Args:
        masked: the peer is a client, which has to mask its frames; a server must not.
    """

    def __init__(self, *, masked: bool) -> None:
        self._masked, self._head = masked, bytearray()
        self._left, self._mask, self._opcode = 0, b"", Opcode.BINARY
        self._continues = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield what is complete with these bytes.

        Raises:
            WebSocketError: they are no frames; nothing more can be read.
        """
        view = memoryview(data)
        while view:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
                self._left -= len(piece)
                yield Frame(Opcode.BINARY, self._unmasked(bytes(piece)))
                continue
            needed = self._needed()
            self._head += view[:needed]
            view = view[needed:]
            if self._needed() == 0:
                found = self._opened()
                if found is not None:
                    yield found

    def _needed(self) -> int:
        """Bytes that the head still lacks, with the payload of a control frame."""
        head = self._head
        if len(head) < 2:  # noqa: PLR2004 - what every frame begins with
            return 2 - len(head)
        self._check(head[0], head[1])
        short = head[1] & _LENGTH
        whole = 2 + {_SHORT: 2, _LONG: 8}.get(short, 0) + (4 if self._masked else 0)
        if head[0] & _OPCODE >= Opcode.CLOSE:
            whole += short
        return whole - len(head)

    def _check(self, first: int, second: int) -> None:
        """Refuse a head as soon as it is wrong."""
        opcode = first & _OPCODE
        if first & _RESERVED or opcode not in Opcode.__members__.values():
            raise WebSocketError(f"websocket frame begins with 0x{first:02x}: no such frame")
        if bool(second & _MASKED) is not self._masked:
            raise WebSocketError(f"websocket frame {'without' if self._masked else 'with'} a mask")
        if opcode >= Opcode.CLOSE:
            if not first & _FIN or second & _LENGTH > _MOST_CONTROL:
                raise WebSocketError("websocket control frame is over 125 bytes, or in parts")
        elif (opcode == Opcode.CONTINUATION) is not self._continues:
            raise WebSocketError("websocket message begins within another, or continues none")

    def _opened(self) -> Frame | None:
        """Take in a whole head; a control frame comes with its payload."""
        head, self._head = bytes(self._head), bytearray()
        opcode, short = Opcode(head[0] & _OPCODE), head[1] & _LENGTH
        at = 2 + {_SHORT: 2, _LONG: 8}.get(short, 0)
        length = int.from_bytes(head[2:at], "big") if short >= _SHORT else short
        if length >= _MOST_LENGTH:
            raise WebSocketError(f"websocket frame of {length} bytes")
        self._mask = head[at : at + 4] if self._masked else b""
        if opcode >= Opcode.CLOSE:
            return Frame(opcode, self._unmasked(head[at + len(self._mask) :]))
        self._continues = not head[0] & _FIN
        self._left = length
        return None

    def _unmasked(self, piece: bytes) -> bytes:
        if not self._mask or not piece:
            return piece
        found = masked(piece, self._mask)
        turn = len(piece) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        return found


def masked(payload: bytes, mask: bytes) -> bytes:
    """The payload with a mask of four bytes put on, or taken off."""
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return mixed.to_bytes(len(payload), "big")


def encode(opcode: Opcode, payload: bytes = b"", *, mask: bytes = b"") -> bytes:
    """A whole frame; with a mask of four bytes as clients send it."""
    length, flag = len(payload), _MASKED if mask else 0
    if length < _SHORT:
        head = bytes((_FIN | opcode, flag | length))
    elif length < 2**16:
        head = bytes((_FIN | opcode, flag | _SHORT)) + length.to_bytes(2, "big")
    else:
        head = bytes((_FIN | opcode, flag | _LONG)) + length.to_bytes(8, "big")
    return head + mask + (masked(payload, mask) if mask else payload)


def close_payload(code: CloseCode, reason: str = "") -> bytes:
    """What a close frame carries; the reason is cut to what fits."""
    return code.to_bytes(2, "big") + reason.encode()[: _MOST_CONTROL - 2]


def close_reason(payload: bytes) -> str:
    """The reason in a close frame, for people; "" without one."""
    return payload[2:].decode(errors="replace")


def new_key() -> str:
    """The key of a client's handshake."""
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


def accepted(key: str) -> str:
    """What a server answers to a key, so that no server accepts by chance."""
    digest = hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def upgraded(request: Request, protocol: str) -> bytes | Answer:
    """The head that begins a websocket in one subprotocol, or the refusal of the request.

    Args:
        request: of the client.
        protocol: the one that is spoken; a client that offers others only is refused.
    """
    headers = request.headers
    key = headers.get("sec-websocket-key", "")
    offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    if headers.get("upgrade", "").lower() != "websocket" or not _is_key(key):
        return text(400, "this is a websocket: send Upgrade: websocket and Sec-WebSocket-Key")
    if headers.get("sec-websocket-version") != "13":
        return text(400, "Sec-WebSocket-Version must be 13")
    if protocol not in offered:
        return text(400, f"Sec-WebSocket-Protocol must offer {protocol}")
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accepted(key)}",
        f"Sec-WebSocket-Protocol: {protocol}",
        "\r\n",
    )
    return "\r\n".join(lines).encode()


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        return False
