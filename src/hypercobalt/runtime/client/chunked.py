"""Bodies in chunks: from the bytes of a connection to those of the body, whatever their pieces.

A watch sends each event as a chunk of its own. Taking all that has arrived at once costs a busy
watch a fraction of reading chunk by chunk.

Source: RFC 9112, section 7.1.
"""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 65536  # bytes of a line: a size with its extensions, or a trailer
_TRAILERS: Final = 16  # that are kept
_HEX: Final = b"0123456789abcdefABCDEF"


class Chunked:
    """One body.

    Attributes:
        ended: its last chunk and the trailers have come.
        trailers: the fields after the last chunk, by names in small letters.
    """

    def __init__(self) -> None:
        self.ended = False
        self.trailers: dict[str, str] = {}
        self._pending = b""
        self._left = 0  # bytes of the present chunk that have not come yet
        self._closes = False  # the line end after a chunk comes next
        self._trailers = False

    def feed(self, data: bytes) -> bytes:
        """Take in bytes of the connection, and return the bytes of the body among them.

        Raises:
            ValueError: the bytes are no body in chunks.
        """
        data, self._pending = self._pending + data, b""
        found, at = list[bytes](), 0
        while at < len(data):
            if self.ended:
                raise ValueError("bytes after the end of a body")
            if self._left:
                piece = data[at : at + self._left]
                found.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._closes = not self._left
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep(data[at:])
                break
            self._line(data[at:end])
            at = end + 2
            closing = at + self._left
            if self._left and data[closing : closing + 2] == b"\r\n":  # all of it is there
                found.append(data[at:closing])
                at, self._left = closing + 2, 0
        return b"".join(found)

    def _keep(self, rest: bytes) -> None:
        if len(rest) > _LONGEST:
            raise ValueError(f"a line of over {_LONGEST} bytes in a body")
        self._pending = rest

    def _line(self, line: bytes) -> None:
        if self._closes:
            if line:
                raise ValueError("a chunk that is longer than its size")
            self._closes = False
        elif self._trailers:
            self._trailer(line)
        else:
            size = line.partition(b";")[0].strip()
            if not size or size.translate(None, _HEX):
                raise ValueError(f"{size[:16]!r} is no size of a chunk")
            self._left = int(size, 16)
            self._trailers = not self._left

    def _trailer(self, line: bytes) -> None:
        self.ended = not line
        if line and len(self.trailers) < _TRAILERS:
            name, _, value = line.decode("latin-1").partition(":")
            self.trailers[name.strip().lower()] = value.strip()
