"""The changes that `make mutants` makes to a module of rules."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tests.mutants.__main__ import modules
from tests.mutants.in_place import in_place
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
        "class A(Struct, frozen=True):\n    x: int = 3\n    y: bool = False",
        "def f() -> int | None:\n    log.info('done', count=3)",
        "def f(a):\n    assert_never(a)",
        "from a import b",
    ],
)
def test_code_that_decides_nothing_is_not_changed(source: str) -> None:
    assert list(mutants(source)) == []


def test_a_call_whose_result_is_unused_is_left_out() -> None:
    (made,) = mutants("class A:\n    def f(self):\n        self.put()")

    assert (made.place, made.change, made.line) == ("A.f", "self.put() -> pass", 3)
    assert ast.unparse(made.tree).endswith("pass")


def test_each_listed_module_has_something_to_change_and_its_tests_are_there() -> None:
    for one in modules():
        assert any(mutants(one.source.read_text()))
        assert all((ROOT / "tests/unit" / path).exists() for path in one.tests)


ROOMS = ("ha", "operator/eviction", "operator/ha")
PURE = re.compile(r"\bPure\b")


def are_held_pure() -> set[str]:
    """Modules and rooms that the import contracts of these rules hold pure."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    chosen = [one for one in linter["contracts"] if one["id"] in {"ha", "eviction-rules"}]
    return {name for one in chosen for name in one["source_modules"]}


def is_pure(name: str, source: str) -> bool:
    """Whether a module lies in such a package, or is declared pure by its docstring."""
    dotted = "hypercobalt." + name.removesuffix(".py").replace("/", ".")
    if any(f"{dotted}.".startswith(f"{room}.") for room in are_held_pure()):
        return True
    return PURE.search(ast.get_docstring(ast.parse(source)) or "") is not None


def test_each_pure_module_of_the_rooms_that_recover_and_move_instances_is_listed() -> None:
    below = ROOT / "src/hypercobalt"
    paths = (path for room in ROOMS for path in (below / room).rglob("*.py"))
    sources = {path.relative_to(below).as_posix(): path.read_text() for path in paths}
    pure = {name for name, source in sources.items() if is_pure(name, source)}
    assert len(pure) > 40
    missing = pure - {one.path for one in modules()}
    assert [name for name in missing if any(mutants(sources[name]))] == []


MODULE = """
LIMIT = 5


class Gate:
    hold = 2

    def is_open(self, age):
        return age < LIMIT

    @property
    def most(self):
        return max(LIMIT, self.hold)


def allowed(size, least=1):
    return max(least, size)
"""


def imported(path: Path) -> ModuleType:
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("judged", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("place", "expression", "before", "after"),
    [
        ("Gate.is_open", "Gate().is_open(6)", False, True),
        ("Gate.most", "Gate().most", 5, 2),
        ("allowed", "allowed(7)", 7, 1),
    ],
)
def test_changed_function_replaces_the_one_that_modules_have_imported(
    tmp_path: Path, place: str, expression: str, before: object, after: object
) -> None:
    module = imported(tmp_path / "judged.py")
    names = dict(vars(module))  # as another module has them
    *_, change = (one for one in mutants(MODULE) if one.place == place)
    assert eval(expression, names) == before  # noqa: S307
    assert in_place(module, tmp_path / "judged.py", change.tree)
    assert eval(expression, names) == after  # noqa: S307


@pytest.mark.parametrize("change", ["2 -> 3", "1 -> 2"], ids=["field", "default"])
def test_change_outside_of_functions_needs_the_module_again(tmp_path: Path, change: str) -> None:
    module = imported(tmp_path / "judged.py")
    tree = next(one for one in mutants(MODULE) if one.change == change).tree
    assert not in_place(module, tmp_path / "judged.py", tree)
    assert (module.Gate.hold, module.allowed(0)) == (2, 1)
