"""RFC 3339 times."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.times import (
    MicroTime,
    TimeError,
    format_micro_time,
    format_time,
    micro_time,
    parse_micro_time,
    parse_time,
)

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2026-01-01t00:00:00z", NEW_YEAR),
        ("2026-01-01 00:00:00Z", NEW_YEAR),
        ("2026-01-01T02:00:00+02:00", NEW_YEAR),
        ("2025-12-31T18:30:00-05:30", NEW_YEAR),
        ("2026-01-01T00:00:00.5Z", NEW_YEAR.replace(microsecond=500_000)),
        ("2026-01-01T00:00:00.000001Z", NEW_YEAR.replace(microsecond=1)),
        ("2026-01-01T00:00:00.123456789Z", NEW_YEAR.replace(microsecond=123_456)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_are_read_with_any_fraction_and_offset(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z",
     "2026-01-01T00:00Z", "now", "2026-01-01T00:00:00.Z", "0001-01-01T00:00:00+02:00",
     "2026-01-01T00:00:00Z\n", "2026-01-01T00:00:00+99:00"],
)  # fmt: skip
def test_text_that_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(TimeError, match=r"^time "):
        parse_time(text)


def test_time_has_no_fraction_and_micro_time_six_digits() -> None:
    moment = NEW_YEAR.replace(microsecond=1200)
    assert format_time(moment) == "2026-01-01T00:00:00Z"
    assert format_micro_time(moment) == "2026-01-01T00:00:00.001200Z"
    assert format_micro_time(NEW_YEAR) == "2026-01-01T00:00:00.000000Z"


def test_output_is_in_utc() -> None:
    moment = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2026-01-01T00:00:00Z"
    assert micro_time(moment).tzinfo is UTC


@pytest.mark.parametrize("write", [format_time, format_micro_time, micro_time])
def test_time_without_zone_is_refused(write: object) -> None:
    assert callable(write)
    with pytest.raises(TimeError, match="no time zone"):
        write(datetime(2026, 1, 1))  # noqa: DTZ001 - what is tested


def test_micro_time_still_calculates() -> None:
    later = micro_time(NEW_YEAR) + timedelta(seconds=1)
    assert isinstance(later, MicroTime)
    assert later > NEW_YEAR


moments = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - the zones strategy adds it
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(
        lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
    ),
)


@given(moments)
def test_every_time_survives_the_round_trip(moment: datetime) -> None:
    assert parse_micro_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", format_micro_time(moment))


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(TimeError):
        parse_time(text)
