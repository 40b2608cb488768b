"""The pages of the existing systems name tests that exist, and differences that are argued."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache

import pytest
from tests.pages import ROOT, section


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def rows(page: str) -> list[str]:
    return re.findall(r"^\| \d+ \|.*$", read(page), re.MULTILINE)


def documented() -> list[list[str]]:
    """The cells of each row of documented behaviour."""
    found: list[str] = re.findall(
        r"^\| (\w+ \d+[a-z]? \|.*) \|$",
        section(read("existing-operator.md"), "## What it documents"),
        re.MULTILINE,
    )
    return [row.split(" | ") for row in found]


def named(text: str) -> list[tuple[str, str]]:
    """Files and names of the tests that a row names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def absent(tests: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{path}::{name}" for path, name in tests if name not in functions(path)]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


@pytest.mark.parametrize(
    ("page", "numbers"),
    [("existing-operator.md", range(1, 30)), ("existing-node-agent.md", range(30, 46))],
    ids=["operator", "node agent"],
)
def test_each_weakness_has_tests_and_all_of_them_exist(page: str, numbers: range) -> None:
    found = rows(page)
    assert [int(row.split("|")[1]) for row in found] == list(numbers)
    tests = [named(row) for row in found]
    assert all(tests)
    assert absent(one for row in tests for one in row) == []


def test_each_documented_behaviour_is_held_by_tests_that_exist() -> None:
    found = documented()
    assert len(found) > 100
    assert [row[0] for row in found if len(row) != 4 or not named(row[3])] == []
    assert len({row[0] for row in found}) == len(found)
    assert absent(one for row in found for one in named(row[3])) == []


def test_each_difference_from_documented_behaviour_has_a_reason() -> None:
    here = {row[0]: row[2] for row in documented()}
    assert [number for number, text in here.items() if not re.match("same|differs: ", text)] == []
    argued = section(read("compatibility.md"), "## What differs, on purpose")
    rows_named = {row for text in here.values() for row in re.findall(r"\*([^*]+)\*", text)}
    assert rows_named
    assert [row for row in sorted(rows_named) if f"\n| {row} |" not in argued] == []
    assert [n for n, text in here.items() if text.startswith("differs") and "*" not in text] == []
