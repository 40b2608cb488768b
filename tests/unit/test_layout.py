"""What tests share lies in modules of its own: no test imports from a module of tests."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imported(source: str) -> set[str]:
    """The last part of the name of each module that a source imports from."""
    tree = ast.walk(ast.parse(source))
    modules = (one.module for one in tree if isinstance(one, ast.ImportFrom) and one.module)
    return {module.rpartition(".")[2] for module in modules}


def test_an_import_is_seen_wherever_it_stands() -> None:
    source = (
        "from tests.lab.test_a import x\nfrom .test_b import y\ndef f():\n from test_c import z"
    )
    assert imported(source) == {"test_a", "test_b", "test_c"}


def test_no_test_imports_from_a_module_of_tests() -> None:
    modules = sorted(TESTS.rglob("*.py"))
    assert len(modules) > 300
    faults = {
        str(path.relative_to(TESTS)): named
        for path in modules
        if (named := {one for one in imported(path.read_text()) if one.startswith("test_")})
    }
    assert faults == {}
