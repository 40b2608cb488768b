"""What docs/security.md claims is held by tests that exist."""

from __future__ import annotations

import re

import pytest
from tests.pages import ROOT, named_tests, proven, unknown_tests

PAGES = {name: (ROOT / name).read_text() for name in ("docs/security.md", "SECURITY.md")}
PAGE = PAGES["docs/security.md"]
MODULES = {
    path.name: path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")
}


def variants(text: str) -> str:
    """The text with each `test_{one,other}_rest` written out."""
    return re.sub(
        r"`(\w*)\{([^}`]*)\}(\w*)`",
        lambda found: " ".join(f"`{found[1]}{one}{found[3]}`" for one in found[2].split(",")),
        text,
    )


@pytest.mark.parametrize("name", PAGES)
def test_every_test_that_is_named_exists(name: str) -> None:
    text = variants(PAGES[name])
    assert unknown_tests(text) == []
    files = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert [path for path in sorted(files) if not (ROOT / path).exists()] == []
    modules = set(re.findall(r"`(test_\w+\.py)`", text))
    assert [module for module in sorted(modules) if module not in MODULES] == []


def test_a_test_that_does_not_exist_is_found() -> None:
    text = variants(
        "`test_that_is_not_there_{one,other}` and `test_every_test_that_is_named_exists`"
    )
    assert unknown_tests(text) == ["test_that_is_not_there_one", "test_that_is_not_there_other"]


def test_every_claim_names_its_test_or_where_it_is_open() -> None:
    open_ = re.compile(r"tests/|test_|\]\(#|^$")
    for rows in proven(PAGE):
        for row in rows:
            assert open_.search(row[-1]), row
    assert len(named_tests(PAGE)) > 60
