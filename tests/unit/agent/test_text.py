from __future__ import annotations

import pytest

from hypercobalt.agent.text import clean, condition_type
from hypercobalt.api.conditions import set_condition
from hypercobalt.runtime import FakeClock


@pytest.mark.parametrize(
    ("raw", "text"), [(b"plain \xe2\x9c\x93", "plain ✓"), (b"\xff\xfe", "??"), (b"a\x00", "a\x00")]
)
def test_bytes_that_were_no_text_become_question_marks(raw: bytes, text: str) -> None:
    assert clean(raw.decode("utf-8", "surrogateescape")) == text


@pytest.mark.parametrize(
    ("unit", "type_"),
    [
        ("libvirtd.service", "libvirtd.service"),
        ("wg-quick@wg0.service", "wg-quick.wg0.service"),
        ("a:b.service", "a.b.service"),
        (r"dev-disk-by\x2did.device", "dev-disk-by.x2did.device"),
        ("-.mount", "mount"),
    ],
)
def test_a_type_is_made_of_every_unit_name(unit: str, type_: str) -> None:
    assert condition_type(unit) == type_
    set_condition((), condition_type(unit), "True", "Running", "", now=FakeClock().now())
