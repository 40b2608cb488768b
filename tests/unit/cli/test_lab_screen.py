from __future__ import annotations

import pytest

from hypercobalt.cli.lab_screen import columns, fitting

WIDTHS = {"NODE": 5, "VERSION": 30, "HARDWARE": 10, "KERNEL": 10, "AGE": 3}


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (66, set[str]()),
        (65, {"HARDWARE"}),
        (53, {"HARDWARE", "KERNEL"}),
        (41, {"HARDWARE", "KERNEL", "VERSION"}),
        (1, {"HARDWARE", "KERNEL", "VERSION"}),
    ],
)
def test_a_narrow_terminal_shows_what_matters_most(width: int, left_out: set[str]) -> None:
    assert set(WIDTHS) - set(fitting(WIDTHS, width)) == left_out


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns([("A", "B"), ("long", "x")]) == "A      B\nlong   x"
