"""Finds JSON objects in a stream in which nothing separates them.

A stopped daemon accepts a connection and never answers, a wrong one may answer anything: so the
size of an object is bounded, and what does not begin with a brace is refused at once. Each byte is
looked at once, however the stream is cut.

Source: RFC 7047, section 4; JSON-RPC 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_SPACE: Final = b" \t\r\n"
_OUTSIDE: Final = re.compile(rb'[{}]|"(?:[^"\\]*")?')
"""A brace, a whole string without escapes, or the begin of another string."""
_INSIDE: Final = re.compile(rb'["\\]')


class Objects:
    """The objects of one stream.

    Args:
        peer: for messages.
        limit: bytes of the largest object that is accepted.
    """

    def __init__(self, peer: str, limit: int) -> None:
        self._peer, self._limit = peer, limit
        self._buffer = bytearray()
        self._position = 0  # up to where the buffer has been looked at
        self._depth = 0
        self._in_string = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes, and yield the objects that are whole now, undecoded.

        Raises:
            SwitchError: MALFORMED, for an object over the limit and for what is no object.
        """
        self._buffer += data
        while (end := self._scan()) is not None:
            self._check(end)
            found = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._position = 0
            yield found
        self._check(len(self._buffer))

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise SwitchError(
                ProducerFault.MALFORMED,
                f"{self._peer}: a message of more than {self._limit} bytes is not accepted",
            )

    def _scan(self) -> int | None:
        """The end of the first object, None while it goes on."""
        if not self._depth and not self._begin():
            return None
        while True:
            match = (_INSIDE if self._in_string else _OUTSIDE).search(self._buffer, self._position)
            if match is None:
                self._position = len(self._buffer)
                return None
            token = match.group()
            if token == b"\\":
                if match.end() == len(self._buffer):
                    self._position = match.start()  # what it escapes has not come yet
                    return None
                self._position = match.end() + 1
                continue
            self._position = match.end()
            if token == b'"':
                self._in_string = not self._in_string
            elif token == b"{":
                self._depth += 1
            elif token == b"}":
                self._depth -= 1
                if not self._depth:
                    return self._position

    def _begin(self) -> bool:
        """Drop space before an object, and return whether one begins."""
        stripped = self._buffer.lstrip(_SPACE)
        if len(stripped) != len(self._buffer):
            self._buffer = stripped
        if not self._buffer:
            return False
        if not self._buffer.startswith(b"{"):
            raise SwitchError(
                ProducerFault.MALFORMED,
                f"{self._peer}: {bytes(self._buffer[:40])!r} does not begin a JSON object",
            )
        return True
