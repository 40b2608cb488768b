"""Amounts of memory and sets of numbers, as libvirt writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.documents.scaled import members, memory_bytes


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("0", "KiB", 0),
        ("1", None, 1024),
        ("1", "", 1024),
        ("7", "b", 7),
        ("7", "byte", 7),
        ("7", "bytes", 7),
        ("3", "KB", 3000),
        ("3", "k", 3 * 1024),
        ("3", "KiB", 3 * 1024),
        ("3", "MB", 3 * 1000**2),
        ("3", "M", 3 * 1024**2),
        ("3", "MiB", 3 * 1024**2),
        ("3", "GB", 3 * 1000**3),
        ("3", "G", 3 * 1024**3),
        ("3", "GiB", 3 * 1024**3),
        ("3", "TB", 3 * 1000**4),
        ("3", "T", 3 * 1024**4),
        ("3", "TiB", 3 * 1024**4),
        ("3", "PB", 3 * 1000**5),
        ("3", "PiB", 3 * 1024**5),
        ("3", "EB", 3 * 1000**6),
        ("3", "EiB", 3 * 1024**6),
        (" 3\n", "gib", 3 * 1024**3),
    ],
)
def test_every_unit_of_libvirt_is_read(text: str, unit: str | None, expected: int) -> None:
    assert memory_bytes(text, unit) == expected


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1", "parsec"),
        ("1", "KiBi"),
        ("1", "Kb b"),
        ("1", "iB"),
        ("-1", "KiB"),
        ("1.5", "KiB"),
        ("", "KiB"),
        ("٣", "KiB"),
        ("1_000", "KiB"),
        ("9" * 100, "b"),
        ("8", "EiB"),
    ],
)
def test_text_that_is_no_amount_is_refused(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"unit|number|bytes|above"):
        memory_bytes(text, unit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,^1", {0, 2, 3}),
        ("4, 2 , 7-8", {2, 4, 7, 8}),
        ("^1,0-2", {0, 1, 2}),
        ("5-5", {5}),
        ("16383", {16383}),
    ],
)
def test_sets_are_read_in_order(text: str, expected: set[int]) -> None:
    assert members(text) == expected


@pytest.mark.parametrize(
    "text", ["", "a", "3-1", "0-99999999999", "-1", "1-", "1,,2", "^", "16384", "0-2,^x"]
)
def test_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|descending|above"):
        members(text)


@given(st.frozensets(st.integers(0, 2000), min_size=1))
def test_a_set_survives_writing(numbers: frozenset[int]) -> None:
    assert members(",".join(map(str, numbers))) == numbers


@given(st.text())
def test_any_text_is_a_set_or_a_value_error(text: str) -> None:
    try:
        found = members(text)
    except ValueError:
        return
    assert all(0 <= member < 16384 for member in found)
