"""Marks are read as they were written, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.virt.launcher.marks import DomainMarks, element_of, marks_of

times = st.none() | st.datetimes(timezones=st.just(UTC))


@given(times, times)
def test_marks_are_read_as_written(shutdown: datetime | None, signalled: datetime | None) -> None:
    marks = DomainMarks(shutdown, signalled)
    assert marks_of(element_of(marks)) == marks
    assert marks_of(element_of(marks).replace('"', "'")) == marks


@pytest.mark.parametrize(
    "element",
    [None, "", "<ending/>", '<ending shutdown="now"/>', '<ending shutdown="2026-01-01"/>'],
)
def test_what_cannot_be_read_counts_as_not_written(element: str | None) -> None:
    assert marks_of(element) == DomainMarks()
