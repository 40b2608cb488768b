from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.framing import Objects
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

LIMIT = 1000
texts = st.text() | st.sampled_from(['"', "\\", '\\"', "{", "}", '{"', "\\\\"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)


@settings(max_examples=60)
@given(
    st.lists(objects, max_size=4),
    st.sampled_from(["", " ", "\r\n\t"]),
    st.lists(st.integers(1, 50)),
    st.booleans(),
)
def test_objects_are_found_however_the_stream_is_cut(
    sent: list[dict[str, object]], between: str, cuts: list[int], escaped: bool
) -> None:
    stream = between.join(json.dumps(one, ensure_ascii=escaped) for one in sent).encode()
    found: list[object] = []
    given_objects = Objects("peer", 10**6)
    for cut in [*cuts, len(stream)]:
        part, stream = stream[:cut], stream[cut:]
        found += (json.loads(text) for text in given_objects.feed(part))
    assert found == sent


@settings(max_examples=40)
@given(objects)
def test_an_object_is_found_byte_by_byte(sent: dict[str, object]) -> None:
    stream = json.dumps(sent).encode()
    given_objects = Objects("peer", 10**6)
    found = [list(given_objects.feed(bytes([byte]))) for byte in stream]
    assert [json.loads(text) for text in found[-1]] == [sent]
    assert not any(found[:-1])


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400", b"[]", b"\x00", b"1", b"}{", b'"{}"'])
def test_text_that_begins_no_object_is_refused(garbage: bytes) -> None:
    with pytest.raises(SwitchError, match="does not begin a JSON object") as refused:
        list(Objects("unix:/db.sock", LIMIT).feed(garbage))
    assert refused.value.fault is ProducerFault.MALFORMED


@given(st.binary())
def test_any_bytes_are_framed_or_refused(data: bytes) -> None:
    try:
        found = list(Objects("peer", LIMIT).feed(data))
    except SwitchError:
        return
    assert all(text.startswith(b"{") and text.endswith(b"}") for text in found)


def test_an_object_over_the_limit_is_refused_before_it_is_whole() -> None:
    given_objects = Objects("unix:/db.sock", LIMIT)
    assert list(given_objects.feed(b'{"a":"' + b"x" * 900)) == []
    with pytest.raises(SwitchError, match="more than 1000 bytes") as refused:
        list(given_objects.feed(b"x" * 100))
    assert refused.value.fault is ProducerFault.MALFORMED


def test_a_whole_object_over_the_limit_is_refused() -> None:
    with pytest.raises(SwitchError, match="more than 1000 bytes"):
        list(Objects("peer", LIMIT).feed(b'{"a":"' + b"x" * 1000 + b'"}'))


def test_objects_up_to_the_limit_follow_one_another() -> None:
    one = b'{"a":"' + b"x" * (LIMIT - 8) + b'"}'
    assert list(Objects("peer", LIMIT).feed(one * 3)) == [one] * 3


def test_a_long_string_in_small_pieces_takes_time_in_proportion() -> None:
    """2 MiB in pieces of 64 bytes: a scan from the start for each piece takes minutes."""
    given_objects = Objects("peer", 16 * 1024**2)
    list(given_objects.feed(b'{"a":"'))
    for _ in range(2 * 1024**2 // 64):
        list(given_objects.feed(b'}{x\\"}{x' * 8))
    assert len(list(given_objects.feed(b'"}'))) == 1
