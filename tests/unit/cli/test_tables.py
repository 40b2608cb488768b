"""Tables on the terminal."""

from __future__ import annotations

from hypercobalt.cli.tables import number, table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(table(("A", "B"), [("long", "x")])) == ["A      B", "long   x"]


def test_a_number_that_is_not_known_is_no_zero() -> None:
    assert (number(0), number(None)) == ("0", "?")
