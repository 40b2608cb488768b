"""Messages of libvirt's RPC in a stream of bytes: seven words, then the payload.

Source: libvirt's src/rpc/virnetprotocol.x.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from hypercobalt.adapters.libvirt.rpc.errors import ProtocolError

_LENGTH: Final = struct.Struct(">I")
_HEADER: Final = struct.Struct(">IIiIII")
_SHORTEST: Final = _LENGTH.size + _HEADER.size
_LONGEST: Final = 33_554_432 + _LENGTH.size  # VIR_NET_MESSAGE_MAX, without the length itself


class MessageKind(IntEnum):
    """virNetMessageType."""

    CALL = 0
    REPLY = 1
    EVENT = 2  # VIR_NET_MESSAGE: unrequested, and without an answer


class Status(IntEnum):
    """virNetMessageStatus."""

    OK = 0
    ERROR = 1


class Message(NamedTuple):
    """One message; `kind` and `status` as they came."""

    program: int
    version: int
    procedure: int
    kind: int
    serial: int
    status: int
    payload: bytes

    def pack(self) -> bytes:
        """The message's bytes.

        Raises:
            ProtocolError: it is longer than a daemon takes.
        """
        length = _SHORTEST + len(self.payload)
        if length > _LONGEST:
            raise ProtocolError(f"a message of {length} bytes is longer than libvirt's {_LONGEST}")
        return _LENGTH.pack(length) + _HEADER.pack(*self[:-1]) + self.payload


class Frames:
    """Finds the messages in what arrives, however it is cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes, and yield the messages that are whole now.

        Raises:
            ProtocolError: a length that no message has.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if not _SHORTEST <= length <= _LONGEST:
                raise ProtocolError(
                    f"libvirt sent a message of {length} bytes, not {_SHORTEST} to {_LONGEST}"
                )
            if len(self._buffer) < length:
                return
            header = _HEADER.unpack_from(self._buffer, _LENGTH.size)
            payload = bytes(self._buffer[_SHORTEST:length])
            del self._buffer[:length]
            yield Message._make((*header, payload))
