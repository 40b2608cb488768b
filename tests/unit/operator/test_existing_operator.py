"""The page of the existing operator's weaknesses names tests that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROWS = [
    line
    for line in (ROOT / "docs/existing-operator.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \d+ \|", line)
]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_each_weakness_has_tests_and_all_of_them_exist() -> None:
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row) for row in ROWS]
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 30))
    assert all(named)
    missing = [f"{p}::{name}" for row in named for p, name in row if name not in functions(p)]
    assert missing == []
