"""DHCP: the one client gets its address, and whatever else comes is not answered."""

from __future__ import annotations

import struct
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.virt.launcher.dhcp_packets import (
    LEASE_SECONDS,
    DhcpLease,
    DhcpRequest,
    answer,
    read_request,
)

MAC, OTHER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
SERVER, ADDRESS = IPv4Address("10.0.2.1"), IPv4Address("10.0.2.2")
LEASE = DhcpLease(
    mac=MAC,
    address=IPv4Interface("10.0.2.2/24"),
    server=SERVER,
    gateway=SERVER,
    dns=(IPv4Address("192.0.2.53"), IPv4Address("192.0.2.54")),
    host_name="guest",
    domain="lab.svc",
    mtu=1450,
)


def message(
    kind: int, *options: tuple[int, bytes], mac: bytes = MAC, op: int = 1, own: bytes = bytes(4)
) -> bytes:
    """A client's message."""
    head = struct.pack(">BBBBIHH4s12s16s", op, 1, 6, 0, 77, 3, 0x8000, own, bytes(12), mac)
    listed = ((53, bytes((kind,))), *options)
    packed = b"".join(bytes((code, len(value))) + value for code, value in listed)
    return head + bytes(192) + bytes((99, 130, 83, 99)) + b"\0" + packed + b"\xff"


def options(reply: bytes) -> dict[int, bytes]:
    """Options of a reply."""
    found, at = {}, 240
    while reply[at] != 255:
        found[reply[at]] = reply[at + 2 : at + 2 + reply[at + 1]]
        at += 2 + reply[at + 1]
    return found


def reply_to(data: bytes, lease: DhcpLease = LEASE) -> bytes | None:
    request = read_request(data)
    return answer(request, lease) if request else None


def test_address_is_offered_and_confirmed_with_all_that_goes_with_it() -> None:
    for asked, told in ((1, 2), (3, 5)):
        reply = reply_to(message(asked, (50, ADDRESS.packed), (54, SERVER.packed)))
        assert reply is not None
        assert len(reply) >= 300
        assert reply[:4] == bytes((2, 1, 6, 0))
        assert struct.unpack_from(">IHH", reply, 4) == (77, 0, 0x8000)
        assert reply[16:24] == ADDRESS.packed + SERVER.packed
        assert reply[28:34] == MAC
        assert options(reply) == {
            53: bytes((told,)),
            54: SERVER.packed,
            51: struct.pack(">I", LEASE_SECONDS),
            1: bytes((255, 255, 255, 0)),
            3: SERVER.packed,
            6: LEASE.dns[0].packed + LEASE.dns[1].packed,
            12: b"guest",
            15: b"lab.svc",
            26: struct.pack(">H", 1450),
        }


def test_fields_that_a_lease_lacks_are_not_sent() -> None:
    bare = DhcpLease(mac=MAC, address=LEASE.address, server=SERVER)
    reply = reply_to(message(1), bare)
    assert reply is not None
    assert options(reply).keys() == {53, 54, 51, 1}


def test_routes_come_with_the_gateway_that_they_hide() -> None:
    route = (IPv4Network("198.51.100.0/22"), IPv4Address("10.0.2.9"))
    reply = reply_to(message(1), replace(LEASE, routes=(route,)))
    assert reply is not None
    assert options(reply)[121] == bytes((22, 198, 51, 100, 10, 0, 2, 9, 0, 10, 0, 2, 1))
    half = (IPv4Network("198.51.100.128/25"), IPv4Address("10.0.2.9"))
    reply = reply_to(message(1), replace(LEASE, routes=(half,), gateway=None))
    assert reply is not None
    assert options(reply)[121] == bytes((25, 198, 51, 100, 128, 10, 0, 2, 9))


def test_another_address_is_refused() -> None:
    for data in (
        message(3, (50, IPv4Address("10.0.2.3").packed)),
        message(3, own=IPv4Address("10.0.2.3").packed),
    ):
        reply = reply_to(data)
        assert reply is not None
        assert (options(reply)[53], reply[16:20]) == (bytes((6,)), bytes(4))
        assert options(reply).keys() == {53, 54}


def test_renewal_and_question_without_an_address_are_answered() -> None:
    for data in (message(3, own=ADDRESS.packed), message(3)):
        assert options(reply_to(data) or b"")[53] == bytes((5,))
    told = reply_to(message(8, own=ADDRESS.packed))
    assert told is not None
    assert 51 not in options(told)
    assert told[16:20] == bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        message(1, mac=OTHER),
        message(3, (54, IPv4Address("10.0.2.9").packed)),
        message(1, op=2),
        message(4),
        message(7),
        message(99),
        message(1)[:239],
        message(1)[:236] + bytes(4) + message(1)[240:],
        b"",
    ],
    ids=["another client", "another server", "a reply", "decline", "release", "unknown type",
         "cut", "no cookie", "nothing"],
)  # fmt: skip
def test_what_is_not_for_this_server_is_not_answered(data: bytes) -> None:
    assert reply_to(data) is None


def test_options_end_at_their_end_mark_or_where_they_are_cut() -> None:
    head, other = message(1)[:240], bytes((50, 4, 10, 0, 2, 3))
    for tail in (
        bytes((53, 1, 3, 255, 0)) + other,
        bytes((53, 1, 3)) + other[:-1],
        bytes((53, 1, 3, 50)),
        bytes((53, 1, 3)),
        bytes((0, 0, 53, 1, 3, 0)),
    ):
        assert read_request(head + tail) == DhcpRequest(3, 77, 0x8000, MAC)
    empty = read_request(head + bytes((53, 1, 3, 54, 0)))
    assert empty is not None
    assert empty.server == b""
    for tail in (b"", bytes((53,)), bytes((53, 1)), bytes((53, 0)), bytes((53, 2, 1, 1))):
        assert read_request(head + tail) is None


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_datagram_is_answered_or_not(garbage: bytes, at: int) -> None:
    sound = message(3, (50, ADDRESS.packed))
    for data in (garbage, sound[:at] + garbage, sound[:240] + garbage):
        reply = reply_to(data)
        assert reply is None or len(reply) >= 300


def test_option_that_is_too_long_is_left_out() -> None:
    reply = answer(DhcpRequest(1, 1, 0, MAC), replace(LEASE, host_name="x" * 256))
    assert reply is not None
    assert 12 not in options(reply)
