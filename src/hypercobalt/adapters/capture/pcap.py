"""Whole packets out of a stream in pcap's format, up to a number of bytes. Pure.

A reader of the stream sees a valid file whenever it ends.

Source: draft-ietf-opsawg-pcap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from hypercobalt.errors import TransientError

HEADER: Final = 24
"""Bytes before the first packet."""

ETHERNET: Final = 1
RECORD: Final = 16
"""Bytes before each packet's own."""
_MAGIC: Final = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}


class CaptureError(TransientError):
    """Packets cannot be captured, or no longer; the message has the reason."""


class Records:
    """Cuts a stream into its header and whole packets.

    Args:
        longest: bytes of one packet that are accepted.
        most: bytes of the whole stream; what would go beyond ends it.

    Attributes:
        packets: how many came through.
        full: whether the stream has reached its most bytes.
    """

    def __init__(self, *, longest: int, most: int) -> None:
        self.packets, self.full = 0, False
        self._longest, self._left = longest, most
        self._rest = b""
        self._begun = False  # whether the header is through
        self._length: struct.Struct | None = None

    def feed(self, data: bytes) -> bytes:
        """What is whole by now: the header, then packets.

        Raises:
            CaptureError: the stream is not pcap of Ethernet.
        """
        self._rest += data
        return b"".join(self._cut())

    def _cut(self) -> Iterator[bytes]:
        while not self.full and (size := self._next()):
            if size > self._left:
                self.full = True
                return
            self._left -= size
            self.packets += self._begun
            self._begun = True
            yield self._rest[:size]
            self._rest = self._rest[size:]

    def _next(self) -> int:
        """Size of what is next; 0 until it is whole."""
        if self._length is None:
            return self._header()
        if len(self._rest) < RECORD:
            return 0
        length: int = self._length.unpack_from(self._rest, 8)[0]
        if length > self._longest:
            raise CaptureError(f"tcpdump printed a packet of {length} bytes; most {self._longest}")
        if len(self._rest) < RECORD + length:
            return 0
        return RECORD + length

    def _header(self) -> int:
        if len(self._rest) < HEADER:
            return 0
        order = _MAGIC.get(self._rest[:4])
        if order is None:
            raise CaptureError("tcpdump printed something that is not pcap")
        (link,) = struct.unpack_from(f"{order}I", self._rest, 20)
        if link != ETHERNET:
            raise CaptureError(f"the device has link type {link}, not Ethernet")
        self._length = struct.Struct(f"{order}I")
        return HEADER
