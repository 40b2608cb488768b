from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.openstack.client import joined
from hypercobalt.adapters.openstack.errors import NoAnswerError
from hypercobalt.adapters.openstack.request import Answer, refusal


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"badRequest": {"code": 400, "message": "No valid host"}}', "400: No valid host"),
        (b'{"errors": [{"status": 400, "detail": "No such trait"}]}', "400: No such trait"),
        (b'{"NeutronError": {"type": "X", "message": "no"}}', "400: no"),
        (b'{"error": {"message": "The request", "code": 401}}', "400: The request"),
        (b"<html>Bad\n  gateway</html>", "400: <html>Bad gateway</html>"),
        (b"", "400"),
        (b'{"errors": []}', "400"),
        (b"\xff\x00\x1b[31m", "400: � [31m"),
    ],
)
def test_a_refusal_is_reported_with_the_services_message(body: bytes, expected: str) -> None:
    assert refusal(400, body) == expected


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(msgspec.json.encode)
)
def test_any_body_is_reported_in_one_short_line(body: bytes) -> None:
    expected = refusal(500, body)
    assert expected.startswith("500")
    assert expected.isprintable()
    assert len(expected) < 500


class Shape(msgspec.Struct):
    name: str


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"name": 1}', b'{"name": "\xff"}'])
def test_an_answer_of_another_shape_is_no_answer(body: bytes) -> None:
    with pytest.raises(NoAnswerError, match="read host a") as caught:
        Answer("read host a", 200, body).read(Shape)
    assert not caught.value.down


@pytest.mark.parametrize(
    ("endpoint", "path", "address"),
    [
        ("http://nova/v2.1", "/servers", "http://nova/v2.1/servers"),
        ("http://glance", "/v2/images", "http://glance/v2/images"),
        ("http://glance/v2", "/v2/images", "http://glance/v2/images"),
        ("http://all/network/v2.0", "/v2.0/networks", "http://all/network/v2.0/networks"),
    ],
)
def test_the_version_is_in_an_address_once(endpoint: str, path: str, address: str) -> None:
    assert joined(endpoint, path) == address
