"""Values to bytes and back, and what is refused of bytes that come from elsewhere."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.errors import XdrError
from hypercobalt.adapters.libvirt.rpc.xdr import (
    Hyper,
    Int,
    TypedParameter,
    UHyper,
    UInt,
    Uuid,
    codec,
)


class Inner(NamedTuple):
    name: str
    uuid: Uuid


class Everything(NamedTuple):
    small: Int
    unsigned: UInt
    large: Hyper
    larger: UHyper
    text: str
    maybe: str | None
    data: bytes
    inner: Inner
    absent: Inner | None
    many: tuple[Inner, ...]
    parameters: tuple[TypedParameter, ...]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INNER = st.builds(Inner, TEXT, st.binary(min_size=16, max_size=16))
VALUES = (
    st.integers(-(2**63), 2**64 - 1) | st.booleans() | TEXT | st.floats(allow_nan=False, width=64)
)
EVERYTHING = st.builds(
    Everything,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    TEXT,
    st.none() | TEXT,
    st.binary(),
    INNER,
    st.none() | INNER,
    st.lists(INNER, max_size=3).map(tuple),
    st.lists(st.builds(TypedParameter, TEXT, VALUES), max_size=3).map(tuple),
)


EVERY = codec(Everything)


@given(EVERYTHING)
def test_encoded_value_is_decoded_again(value: Everything) -> None:
    data = EVERY.encode(value)

    assert EVERY.decode(data) == value
    assert len(data) % 4 == 0


@given(EVERYTHING, st.data())
def test_cut_bytes_are_refused(value: Everything, data: st.DataObject) -> None:
    whole = EVERY.encode(value)
    kept = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(XdrError):
        EVERY.decode(whole[:kept])


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for of in (protocol.StatsRecords, protocol.Error, protocol.Job, event_types.IoErrorEvent):
        try:
            codec(of).decode(data)
        except XdrError:
            continue


@pytest.mark.parametrize(
    ("of", "data", "refusal"),
    [
        (protocol.Text, struct.pack(">I", 2**32 - 1), "Text.text: 4294967295 bytes of text"),
        (protocol.Text, struct.pack(">I", 8) + b"1234", "Text.text: 8 bytes announced, 4 left"),
        (protocol.Domains, struct.pack(">I", 2**31), "Domains.domains: 2147483648 elements"),
        (protocol.Number, struct.pack(">ii", 1, 2), "4 bytes too many"),
        (
            protocol.Job,
            struct.pack(">iiI4si", 1, 1, 4, b"memo", 99),
            "Job.parameters: TypedParameter.value: a typed parameter of the unknown type 99",
        ),
    ],
)
def test_hostile_bytes_are_refused_by_the_field(
    of: type[protocol.Void], data: bytes, refusal: str
) -> None:
    with pytest.raises(XdrError, match=refusal):
        codec(of).decode(data)


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        (protocol.Number(2**31), "does not fit"),
        (protocol.ByUuid(b"short"), "5 bytes instead of 16"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    value: protocol.Number | protocol.ByUuid, refusal: str
) -> None:
    with pytest.raises(XdrError, match=refusal):
        codec(type(value)).encode(value)


def test_text_that_is_not_utf_8_goes_through_as_it_is() -> None:
    sent = struct.pack(">I4s", 3, b"\xff\xfea")

    assert codec(protocol.Text).encode(codec(protocol.Text).decode(sent)) == sent


def test_a_name_that_is_not_utf_8_reads_as_the_uuid() -> None:
    ref = protocol.DomainRef("a\udcff", bytes(16))

    assert ref.readable_name == "00000000-0000-0000-0000-000000000000"


def test_a_type_that_xdr_does_not_have_is_a_mistake() -> None:
    class Odd(NamedTuple):
        number: float

    with pytest.raises(TypeError, match="float"):
        codec(Odd)
