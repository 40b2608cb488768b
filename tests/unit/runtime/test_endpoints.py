"""Where pages are served."""

from __future__ import annotations

import pytest

from hypercobalt.api.address import Address, parse_address
from hypercobalt.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", None),
        (":8081", Address("", 8081)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9177", Address("::1", 9177)),
    ],
)
def test_address_of_a_flag_is_parsed(text: str, expected: Address | None) -> None:
    assert parse_address("--flag", text) == expected


@pytest.mark.parametrize("text", ["", "8081", "host:", ":port", ":70000", ":-1", ":\uff18"])
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--flag"):
        parse_address("--flag", text)
