"""The changes that `make mutants` makes to a module of rules."""

from __future__ import annotations

import ast

import pytest
from tests.mutants.__main__ import modules
from tests.mutants.mutate import mutants
from tests.pages import ROOT


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a is b", {"a is not b"}),
        ("a and b", {"a or b", "a", "b"}),
        ("not a", {"a"}),
        ("a - b", {"a + b"}),
        ("max(a, b)", {"min(a, b)"}),
        ("a if b else f()", {"a", "f()"}),
        ("3", {"4"}),
        ("True", {"False"}),
        ("f'{a} is {b + 1}'", set()),
        ("'text'", set()),
    ],
)
def test_a_rule_changes_in_one_place(rule: str, changed: set[str]) -> None:
    made = [ast.unparse(one.tree.body[0]) for one in mutants(f"def f(a, b):\n    return {rule}")]

    assert {one.splitlines()[1].strip().removeprefix("return ") for one in made} == changed


@pytest.mark.parametrize(
    "source",
    [
        "LIMIT = 10",
        '"""Text."""',
        "@dataclass(frozen=True)\nclass A:\n    x: int | None",
        "def f() -> int | None:\n    log.info('done', count=3)",
        "from a import b",
    ],
)
def test_what_decides_nothing_stays(source: str) -> None:
    assert list(mutants(source)) == []


def test_a_call_whose_result_is_unused_is_left_out() -> None:
    (made,) = mutants("class A:\n    def f(self):\n        self.put()")

    assert (made.place, made.change, made.line) == ("A.f", "self.put() -> pass", 3)
    assert ast.unparse(made.tree).endswith("pass")


def test_each_listed_module_and_its_tests_are_there() -> None:
    for one in modules():
        assert one.source.exists()
        assert all((ROOT / "tests/unit" / path).exists() for path in one.tests)
