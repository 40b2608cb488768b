"""Sizes in IEC units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.iec import SizeError, format_iec, format_iec_rate, parse_iec


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4096, "4.0 KiB"),
        (1536, "1.5 KiB"),
        (10_905_190, "10.4 MiB"),
        (4 * 2**30, "4.0 GiB"),
        (32 * 2**30, "32.0 GiB"),
        (2**20 - 1, "1.0 MiB"),
        (2**40 - 1, "1.0 TiB"),
        (2**64 - 1, "16.0 EiB"),
        (2**75, "32768.0 EiB"),
    ],
)
def test_size_is_an_integer_below_1024_and_has_one_decimal_above(
    size_bytes: int, text: str
) -> None:
    assert format_iec(size_bytes) == text
    assert format_iec_rate(size_bytes) == f"{text}/s"


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0 B", 0),
        ("10.4 MiB", 10_905_190),
        ("10.4MiB", 10_905_190),
        ("4.0 GiB/s", 4 * 2**30),
        ("1 KiB", 1024),
        ("1.25 KiB", 1280),
    ],
)
def test_text_is_read_to_the_nearest_byte(text: str, size_bytes: int) -> None:
    assert parse_iec(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "B", "1", "-1 B", "1 MB", "1 mib", "1  KiB", "1. KiB", "1 KiB ", "1 B/m", "1e3 B"]
)
def test_text_that_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(SizeError, match=r"^size "):
        parse_iec(text)


def test_negative_size_is_refused() -> None:
    with pytest.raises(SizeError, match="negative"):
        format_iec(-1)


@given(st.integers(0, 2**64 - 1))
def test_reading_back_is_within_half_a_tenth_of_the_unit(size_bytes: int) -> None:
    text = format_iec(size_bytes)
    unit = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(text.split()[1])
    assert abs(parse_iec(text) - size_bytes) <= (unit / 20 + 1 if unit > 1 else 0)
    assert format_iec(parse_iec(text)) == text


@given(st.integers(0, 2**70), st.integers(0, 2**70))
def test_reading_back_keeps_the_order(left: int, right: int) -> None:
    low, high = sorted((left, right))
    assert parse_iec(format_iec(low)) <= parse_iec(format_iec(high))
