"""Go durations, both ways."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.duration import (
    DurationError,
    format_duration,
    format_nanoseconds,
    human_duration,
    parse_duration,
    parse_nanoseconds,
    short_duration,
)

SECOND = 10**9
BOTH_WAYS = [
    ("0s", 0),
    ("1ns", 1),
    ("1.1µs", 1100),
    ("2.2ms", 2_200_000),
    ("16ms", 16_000_000),
    ("999.999999ms", 999_999_999),
    ("1s", SECOND),
    ("2.755s", 2_755_000_000),
    ("35.078s", 35_078_000_000),
    ("1m0s", 60 * SECOND),
    ("1m2s", 62 * SECOND),
    ("1h0m0s", 3600 * SECOND),
    ("1128h0m0s", 1128 * 3600 * SECOND),
    ("4m0.000000001s", 240 * SECOND + 1),
    ("-1.5s", -1_500_000_000),
    ("2562047h47m16.854775807s", 2**63 - 1),
    ("-2562047h47m16.854775808s", -(2**63)),
]


@pytest.mark.parametrize(("text", "nanoseconds"), BOTH_WAYS)
def test_text_and_nanoseconds_convert_both_ways(text: str, nanoseconds: int) -> None:
    assert parse_nanoseconds(text) == nanoseconds
    assert format_nanoseconds(nanoseconds) == text


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5 * SECOND),
        ("1.s", SECOND),
        (".5s", SECOND // 2),
        ("10us", 10_000),
        ("10μs", 10_000),
        ("1s1h", 3601 * SECOND),
        ("0.9ns", 0),
        ("0.333333333333333333333h", 1_200_000_000_000 - 1),
    ],
)
def test_text_that_go_would_not_write_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "-", "1", "s", ".s", "1d", "1 s", "1s ", "--1s", "1.2.3s", "1e3s", "2562047h47m17s", "∞",
     "-s", "1s\n", "9" * 300 + "s"],
)  # fmt: skip
def test_text_that_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(DurationError, match=r"^duration "):
        parse_nanoseconds(text)


@pytest.mark.parametrize("nanoseconds", [2**63, -(2**63) - 1])
def test_more_than_go_can_hold_is_refused(nanoseconds: int) -> None:
    with pytest.raises(DurationError, match="292 years"):
        format_nanoseconds(nanoseconds)


def test_timedelta_drops_what_is_finer_than_a_microsecond() -> None:
    assert parse_duration("1.0000019s") == timedelta(seconds=1, microseconds=1)
    assert parse_duration("-1.0000019s") == -timedelta(seconds=1, microseconds=1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"),
        (599, "9m59s"), (600, "10m"), (10799, "179m"), (10800, "3h"), (11000, "3h3m"),
        (28799, "7h59m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (190000, "2d4h"),
        (691199, "7d23h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"),
        (71000000, "2y91d"), (252288000, "8y"), (3153600000, "100y"),
    ],
)  # fmt: skip
def test_age_is_written_as_kubectl_writes_it(seconds: int, text: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (50, "50s"), (90, "1m30s"), (600, "10m"), (3600, "1h"), (3630, "1h0m30s")],
)
def test_short_form_is_what_a_person_types(seconds: int, text: str) -> None:
    assert short_duration(timedelta(seconds=seconds)) == text
    assert parse_duration(text) == timedelta(seconds=seconds)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_go_duration_survives_the_round_trip(nanoseconds: int) -> None:
    assert parse_nanoseconds(format_nanoseconds(nanoseconds)) == nanoseconds


@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_every_timedelta_survives_the_round_trip(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.text(alphabet="0123456789.+-hmnsuµ ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(DurationError):
        parse_nanoseconds(text)
