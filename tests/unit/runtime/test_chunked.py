"""Bodies in chunks, in whatever pieces their bytes arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.runtime.client.chunked import Chunked


def encoded(*chunks: bytes, trailers: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks)
    return body + b"0\r\n" + trailers + b"\r\n"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.sampled_from([b"", b"A: b\r\nC: d\r\n"]),
    st.data(),
)
def test_body_is_the_same_in_whatever_pieces_it_comes(
    chunks: list[bytes], trailers: bytes, data: st.DataObject
) -> None:
    sent = encoded(*chunks, trailers=trailers)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)))) | {0, len(sent)})
    body = Chunked()
    found = b""
    for begin, end in pairwise(cuts):
        assert not body.ended
        found += body.feed(sent[begin:end])
    assert found == b"".join(chunks)
    assert body.ended


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"zz\r\n", id="no number"),
        pytest.param(b"-1\r\n", id="below zero"),
        pytest.param(b"0x5\r\nhello\r\n", id="a prefix"),
        pytest.param(b"1_0\r\n", id="a separator"),
        pytest.param(b"\r\n", id="no size"),
        pytest.param(b"2\r\nhello\r\n", id="longer than its size"),
        pytest.param(b"0\r\n\r\nHTTP/1.1 200 OK\r\n", id="another response at once"),
        pytest.param(b"5" * 70_000, id="an endless line"),
    ],
)
def test_what_is_no_body_in_chunks_is_refused(sent: bytes) -> None:
    body = Chunked()
    with pytest.raises(ValueError, match=r"chunk|bytes|body"):
        body.feed(sent)


def test_size_may_have_extensions_and_capital_letters() -> None:
    assert Chunked().feed(b"A;name=value\r\n0123456789\r\n") == b"0123456789"
