"""Values of a cluster reach a terminal as text, in tables and in JSON."""

from __future__ import annotations

import json

import pytest

from hypercobalt.cli.tables import number, print_json, print_table, table

HOSTILE = "a\x1b[2J\x9b31m\u202egnp\U000e0041é"


def test_json_is_printable_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": HOSTILE, "list": [1, None]})
    shown = capsys.readouterr().out
    assert all(one.isprintable() for one in shown.splitlines())
    assert json.loads(shown) == {"name": HOSTILE, "list": [1, None]}
    assert '"list": [\n' in shown
    assert "é" in shown


def test_table_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME",), [(HOSTILE,)])
    assert all(one.isprintable() for one in capsys.readouterr().out.splitlines())


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(table(("A", "B"), [("long", "x")])) == ["A      B", "long   x"]


def test_a_number_that_is_not_known_is_no_zero() -> None:
    assert (number(0), number(None)) == ("0", "?")
