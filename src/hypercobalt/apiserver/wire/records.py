"""The protobuf wire format: a message's fields as spans of its bytes.

What is malformed raises a 400, and reading takes time and memory in proportion to the length.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypercobalt.apiserver.errors import StatusError, bad_request

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types; 3 and 4 are groups
_WIDTHS = {FIXED64: 8, FIXED32: 4}
_VARINT_LENGTH = 10  # bytes, at most
_64_BITS = 2**64 - 1


class WireField(NamedTuple):
    """One field: where its bytes are, without tag and length."""

    number: int
    wire_type: int
    start: int
    end: int


def malformed(why: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type protobuf): {why}")


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at `at`, as 64 bits, and the offset behind it."""
    value = shift = 0
    for byte in data[at : min(end, at + _VARINT_LENGTH)]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte == byte & 0x7F:
            return value & _64_BITS, at
        shift += 7
    raise malformed("unexpected EOF" if at == end else "integer overflow")


def records(data: bytes, at: int, end: int) -> Iterator[WireField]:
    """Yield the fields of the message in that span."""
    while at < end:
        tag, at = varint(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise malformed("illegal field number 0")
        start = at
        if wire_type == VARINT:
            _, at = varint(data, at, end)
        elif wire_type == BYTES:
            length, start = varint(data, at, end)
            at = start + length
        elif wire_type in _WIDTHS:
            at += _WIDTHS[wire_type]
        else:
            raise malformed(f"illegal wire type {wire_type}")
        if at > end:
            raise malformed("unexpected EOF")
        yield WireField(number, wire_type, start, at)
