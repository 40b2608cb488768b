"""One name for one type: a class that is searched for by its name is found once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src/hypercobalt"

ONCE = ("Fault", "Observer", "Probe", "Record", "Reports", "Sighting")
"""Names that several types had, each of them three times or more."""

AT_MOST = 105
"""Names that are left to more than one public class; a change may only lower it."""


@pytest.fixture(scope="module")
def names() -> Counter[str]:
    trees = (ast.parse(path.read_text()) for path in SRC.rglob("*.py"))
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return Counter(one.name for one in classes if not one.name.startswith("_"))


@pytest.mark.parametrize("name", ONCE)
def test_name_that_was_shared_belongs_to_one_class(names: Counter[str], name: str) -> None:
    assert names[name] == 1


def test_no_further_class_takes_a_name_that_another_has(names: Counter[str]) -> None:
    doubled = sorted(name for name, count in names.items() if count > 1)
    assert len(doubled) <= AT_MOST, doubled
