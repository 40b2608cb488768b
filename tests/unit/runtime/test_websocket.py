"""Frames of websockets: any bytes, in any pieces, cost no more than they are."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.runtime.routes import Answer, Request
from hypercobalt.runtime.websocket import (
    CloseCode,
    Decoder,
    Frame,
    Opcode,
    WebSocketError,
    accepted,
    close_payload,
    close_reason,
    encode,
    new_key,
    upgraded,
)

MASK = b"\x01\x80\xff\x00"
PROTOCOL = "plain.kubevirt.io"


def decoded(data: bytes, *, masked: bool = True, pieces: int = 1 << 20) -> list[Frame]:
    decoder = Decoder(masked=masked)
    parts = [data[at : at + pieces] for at in range(0, len(data), pieces)]
    return [frame for part in parts for frame in decoder.feed(part)]


def joined(frames: list[Frame]) -> bytes:
    return b"".join(frame.payload for frame in frames)


@pytest.mark.parametrize("masked", [True, False])
@given(sent=st.lists(st.binary(max_size=300), max_size=4), pieces=st.integers(1, 50))
def test_bytes_arrive_as_they_were_sent_however_they_are_cut(
    masked: bool, sent: list[bytes], pieces: int
) -> None:
    mask = MASK if masked else b""
    wire = b"".join(encode(Opcode.BINARY, one, mask=mask) for one in sent)
    assert joined(decoded(wire, masked=masked, pieces=pieces)) == b"".join(sent)


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_every_length_arrives(length: int) -> None:
    payload = b"ab\xff\x00" * (length // 4 + 1)
    wire = encode(Opcode.BINARY, payload[:length], mask=MASK)
    assert joined(decoded(wire, pieces=7777)) == payload[:length]


def test_length_that_is_announced_costs_nothing() -> None:
    head = bytes((0x82, 0x80 | 127)) + struct.pack(">Q", 2**62) + MASK
    decoder = Decoder(masked=True)
    assert list(decoder.feed(head)) == []
    assert [len(frame.payload) for frame in decoder.feed(b"x" * 1000)] == [1000]


@given(pieces=st.integers(1, 9))
def test_control_frames_come_whole_between_the_parts_of_a_message(pieces: int) -> None:
    first, rest = (
        bytearray(encode(Opcode.TEXT, b"one", mask=MASK)),
        encode(Opcode.CONTINUATION, b"two", mask=MASK),
    )
    first[0] &= 0x7F  # more follows
    ping = encode(Opcode.PING, b"there?", mask=MASK)
    found = decoded(bytes(first) + ping + rest, pieces=pieces)
    assert Frame(Opcode.PING, b"there?") in found
    assert joined([one for one in found if one.opcode is Opcode.BINARY]) == b"onetwo"


@pytest.mark.parametrize(
    "wire",
    [
        bytes((0xC2, 0x80)),  # a reserved bit
        bytes((0x83, 0x80)),  # no such kind
        bytes((0x82, 0x00)),  # no mask
        bytes((0x80, 0x80)),  # continues nothing
        bytes((0x09, 0x80)),  # a ping in parts
        bytes((0x89, 0x80 | 126)),  # a long ping
        bytes((0x82, 0x80 | 127)) + b"\xff" * 8 + MASK,  # of a negative length
        bytes((0x02, 0x80)) + MASK + bytes((0x82, 0x80)),  # a message within a message
    ],
)
def test_what_is_no_frame_is_refused(wire: bytes) -> None:
    with pytest.raises(WebSocketError, match="websocket"):
        decoded(wire)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_frames_or_are_refused(wire: bytes, masked: bool) -> None:
    try:
        found = decoded(wire, masked=masked)
    except WebSocketError:
        return
    assert len(joined(found)) <= len(wire)


def test_frame_of_a_server_with_a_mask_is_refused() -> None:
    with pytest.raises(WebSocketError, match="with a mask"):
        decoded(encode(Opcode.BINARY, b"x", mask=MASK), masked=False)


def test_reason_of_a_close_fits_into_its_frame() -> None:
    payload = close_payload(CloseCode.GOING_AWAY, "ä" * 100)
    assert len(payload) <= 125
    assert close_reason(payload).startswith("ää")
    assert close_reason(b"") == ""


def request(**headers: str) -> Request:
    sent = {
        "upgrade": "websocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
        "sec-websocket-protocol": f"other, {PROTOCOL}",
    }
    found = sent | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("GET", "/", "", found)


def test_handshake_is_that_of_the_specification() -> None:
    assert accepted("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    head = upgraded(request(), PROTOCOL)
    assert isinstance(head, bytes)
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
    assert f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n".encode() in head
    assert head.endswith(b"\r\n\r\n")
    assert isinstance(upgraded(request(sec_websocket_key=new_key()), PROTOCOL), bytes)


@pytest.mark.parametrize(
    "headers",
    [
        {"upgrade": "h2c"},
        {"sec_websocket_key": ""},
        {"sec_websocket_key": "short"},
        {"sec_websocket_key": "ä"},
        {"sec_websocket_version": "8"},
        {"sec_websocket_protocol": "other"},
    ],
)
def test_request_that_begins_no_such_websocket_is_a_400(headers: dict[str, str]) -> None:
    answer = upgraded(request(**headers), PROTOCOL)
    assert isinstance(answer, Answer)
    assert answer.status == 400
