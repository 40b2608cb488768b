"""The pages of the existing systems' weaknesses name tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from tests.pages import ROOT


def rows(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^\| \d+ \|.*$", text, re.MULTILINE)


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
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row) for row in found]
    assert [int(row.split("|")[1]) for row in found] == list(numbers)
    assert all(named)
    missing = [f"{p}::{name}" for row in named for p, name in row if name not in functions(p)]
    assert missing == []
