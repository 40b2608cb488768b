"""What the README and docs/ show to type can be typed, and what they link to is there.

What comes of the README's commands is seen by running them: `tests/lab/test_readme.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from cyclopts import CycloptsError, MissingArgumentError
from tests.pages import (
    ROOT,
    broken_links,
    first_cells,
    flag_rows,
    flags,
    mentioned,
    section,
    shown,
    typed,
)

from hypercobalt.cli import app
from hypercobalt.cli.apiserver import apiserver

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
README, SERVER = PAGES[0].read_text(), (ROOT / "docs/apiserver.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def fault(words: list[str], *, whole: bool = True) -> str:
    """The reason why a command cannot be typed like that; empty if it can.

    Args:
        words: the command.
        whole: it is complete; else what it must be given may be missing.
    """
    if words[0] == "make":
        unknown = [word for word in words[1:] if "=" not in word and word not in TARGETS]
        return f"no target {unknown}" if unknown else ""
    try:
        app.parse_args(words[1:], exit_on_error=False, print_error=False)
    except MissingArgumentError as error:
        return str(error) if whole else ""
    except CycloptsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "line",
    [
        "make lob",
        "cobalt evacuate kvm-1",
        "cobalt evict",
        "cobalt evict kvm-1 --look",
        "cobalt lab host boil kvm-1",
        "cobalt operator --compute xen",
        "cobalt apiserver --data d --port many",
    ],
)
def test_check_finds_commands_that_cannot_be_typed(line: str) -> None:
    assert fault(line.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_typed_as_they_are_shown(page: Path) -> None:
    text = page.read_text()
    whole = [words for words, _ in typed(text) if words[0] in {"cobalt", "make"}]
    faults = [fault(words) for words in whole]
    faults += [fault(words, whole=False) for words in mentioned(text)]
    assert [one for one in faults if one] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_pages_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_files_that_the_pages_name_exist() -> None:
    """Whole paths in backquotes, with a node of pytest behind them or not."""
    pattern = r"`((?:src|tests|charts|scripts|benchmarks)/[\w./-]+\.\w+)(?:::\w+)?`"
    named = {path for page in PAGES for path in re.findall(pattern, page.read_text())}
    assert len(named) > 100
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_tests_that_the_pages_name_exist() -> None:
    """A claim with the name of a test that is gone is a claim without a test."""
    modules = list((ROOT / "tests").rglob("test_*.py"))
    there = {module.stem for module in modules}
    for path in (ROOT / "tests").rglob("*.py"):
        there.update(re.findall(r"def (test_\w+)", path.read_text()))
    pattern = r"`(?:[\w./-]+/)?(?:test_\w+\.py::)?(test_\w+)(?:\.py)?`"
    named = {name for page in PAGES for name in re.findall(pattern, page.read_text())}
    assert len(named) > 500
    assert sorted(named - there) == []


def test_the_map_of_the_code_names_modules_that_exist() -> None:
    """`writing.py` and `decisions/decoding.py`, wherever they lie; and each room of the top."""
    page = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", page))
    source = ROOT / "src/hypercobalt"
    trees = (source, ROOT / "tests")
    there = {f"/{path.relative_to(ROOT)}" for tree in trees for path in tree.rglob("*.py")}
    assert len(named) > 80
    assert sorted(one for one in named if not any(it.endswith(f"/{one}") for it in there)) == []
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    shown_ = {cell.strip("/") for cell in first_cells_of_rooms(page)}
    assert rooms - shown_ == set()


def first_cells_of_rooms(page: str) -> list[str]:
    """The second column of the table of rooms."""
    return re.findall(r"^\| \d \| `([a-z_]+/)`", section(page, "## Rooms"), re.MULTILINE)


def test_readme_uses_only_commands_that_these_tests_check() -> None:
    assert {words[0] for words, _ in typed(README)} == {"make", "cobalt", "export", "kubectl"}


def test_the_readme_names_every_command() -> None:
    named = {
        cell.removeprefix("cobalt ").split()[0]
        for cell in first_cells(section(README, "## What is here"))
    }
    assert named == {name for name in app.resolved_commands() if not name.startswith("-")}


def test_the_readme_shows_every_step_of_a_lab_that_comes_up() -> None:
    (shown_,) = (output for words, output in typed(README) if words == ["make", "lab"])
    steps = re.findall(
        r'self\.step\(f?"([^"]+)"', (ROOT / "src/hypercobalt/lab/lab.py").read_text()
    )
    named = [step.format(host=SimpleNamespace(name="kvm-1")) for step in steps]
    assert len(named) > 8
    assert [step for step in named if not any(f"  {step}: done" in line for line in shown_)] == []


def test_flags_of_the_api_server_are_those_of_the_code_with_their_defaults() -> None:
    rows = flag_rows(section(SERVER, "## Running it"))
    documented_ = {cells[0].strip("`"): cells[1].strip("`") for cells in rows}
    assert documented_ == {name: shown(default) for name, (default, _) in flags(apiserver).items()}


def test_defaults_of_durations_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    app(["operator", "--help"], result_action="return_value")
    shown_ = re.findall(r"default:\s+([^\]]+?)\s*\]", capsys.readouterr().out)
    assert {"1m", "10m", "1h"} <= set(shown_)
    assert not [one for one in shown_ if re.fullmatch(r"\d+:\d\d:\d\d", one)]
