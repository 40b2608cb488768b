"""Which qcow2 files are refused by their header alone."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.disks.qcow2 import HEADER_BYTES, MAGIC, is_qcow2, problem

MIB = 1024**2
LENGTH = 4 * 65536
FIELDS = {
    "version": (4, ">I", 3),
    "backing_offset": (8, ">Q", 0),
    "backing_length": (16, ">I", 0),
    "cluster_bits": (20, ">I", 16),
    "size": (24, ">Q", 64 * MIB),
    "encryption": (32, ">I", 0),
    "l1_entries": (36, ">I", 1),
    "l1_offset": (40, ">Q", 3 * 65536),
    "refcount_offset": (48, ">Q", 65536),
    "refcount_clusters": (56, ">I", 1),
    "features": (72, ">Q", 0),
}


def header(**changed: int) -> bytes:
    """A sound header of version 3, but for the changed fields."""
    made = bytearray(HEADER_BYTES)
    made[:4] = MAGIC
    for name, (offset, layout, value) in FIELDS.items():
        struct.pack_into(layout, made, offset, changed.get(name, value))
    return bytes(made)


def test_sound_image_has_no_problem() -> None:
    for version in (2, 3):
        assert problem(header(version=version), LENGTH) is None
    assert problem(header(features=1 << 3 | 1 << 4 | 1), LENGTH) is None
    for size in (1, 512 * MIB):
        assert problem(header(size=size), LENGTH) is None
    assert problem(header(l1_offset=LENGTH - 8), LENGTH) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"backing_offset": 512, "backing_length": 11}, "backing file"),
        ({"backing_length": 1}, "backing file"),
        ({"backing_offset": 1}, "backing file"),
        ({"features": 1 << 2}, "external data file"),
        ({"features": 1 << 1}, "corrupt"),
        ({"features": 1 << 40}, "unknown features 0x10000000000"),
        ({"encryption": 2}, "encrypted"),
        ({"size": 1 << 50}, "virtual size is 1125899906842624 bytes"),
        ({"size": 0}, "virtual size is 0 bytes"),
        ({"version": 4}, "version 4"),
        ({"version": 1}, "version 1"),
        ({"cluster_bits": 8}, "2^8"),
        ({"cluster_bits": 22}, "2^22"),
        ({"l1_offset": 0}, "truncated"),
        ({"l1_offset": LENGTH - 7}, "truncated"),
        ({"l1_entries": 1 << 31}, "truncated"),
        ({"refcount_clusters": 4}, "truncated"),
        ({"l1_entries": 0}, "do not cover"),
        ({"size": 512 * MIB + 1}, "do not cover"),
    ],
)
def test_image_is_refused_by_what_is_wrong(changed: dict[str, int], words: str) -> None:
    found = problem(header(**changed), LENGTH)
    assert found is not None
    assert words in found


def test_file_that_ends_within_its_header_is_truncated() -> None:
    for length in (4, 71, HEADER_BYTES - 1):
        assert "truncated" in (problem(header()[:length], length) or "")
    assert problem(header(version=2)[:72], LENGTH) is None


@given(st.binary(max_size=2 * HEADER_BYTES), st.integers(0, 1 << 60))
def test_any_bytes_have_a_problem_or_none(data: bytes, length: int) -> None:
    assert not is_qcow2(data) or len(data) >= 4
    assert problem(data, length) != ""


@given(st.sampled_from(sorted(FIELDS)), st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 62))
def test_accepted_header_names_no_file_and_no_table_beyond_the_end(
    field: str, value: int, length: int
) -> None:
    width = struct.calcsize(FIELDS[field][1])
    changed = {field: value % (1 << 8 * width)}
    if problem(header(**changed), length) is None:
        values = {name: changed.get(name, default) for name, (_, _, default) in FIELDS.items()}
        assert not values["backing_offset"]
        assert values["version"] == 2 or not values["features"] & 1 << 2
        assert values["l1_offset"] + 8 * values["l1_entries"] <= length
