"""A capture that is cut off is still a whole pcap file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.capture.pcap import HEADER, CaptureError, Records


def header(order: str = "<", link: int = 1) -> bytes:
    return struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, link)


def packet(data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}IIII", 1, 2, len(data), len(data)) + data


@given(
    st.sampled_from("<>"),
    st.lists(st.binary(max_size=96), max_size=12),
    st.integers(1, 40),
    st.integers(HEADER, 900),
)
def test_whole_packets_come_through_up_to_the_bound(
    order: str, packets: list[bytes], step: int, most: int
) -> None:
    stream = header(order) + b"".join(packet(one, order) for one in packets)
    records = Records(longest=96, most=most)
    out = b"".join(records.feed(stream[at : at + step]) for at in range(0, len(stream), step))
    whole = [header(order)]
    for one in packets:
        if len(b"".join(whole)) + len(packet(one)) > most:
            break
        whole.append(packet(one, order))
    assert out == b"".join(whole)
    assert records.packets == len(whole) - 1
    assert records.full == (len(whole) - 1 < len(packets))


def test_half_a_packet_waits() -> None:
    records = Records(longest=96, most=1000)
    assert records.feed(header() + packet(b"abcd")[:-1]) == header()
    assert records.feed(b"d") == packet(b"abcd")


@pytest.mark.parametrize(
    ("stream", "named"),
    [
        (b"tcpdump: something else.", "not pcap"),
        (header(link=113), "link type 113"),  # of the device `any`
        (header() + packet(bytes(97)), "97 bytes"),
    ],
)
def test_another_stream_is_an_error(stream: bytes, named: str) -> None:
    with pytest.raises(CaptureError, match=named):
        Records(longest=96, most=1000).feed(stream)
