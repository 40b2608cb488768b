"""What the README and docs/ show to type, and what they show to come of it, is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

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

from hypercobalt.api import crd
from hypercobalt.cli import app
from hypercobalt.cli.apiserver import apiserver
from hypercobalt.cli.lab_screen import _COLUMNS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README, SERVER = PAGES[0].read_text(), (ROOT / "docs/apiserver.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
KINDS = {
    name: kind for kind in crd.KINDS for name in (kind.resource.plural, kind.resource.kind.lower())
}


def fault(words: list[str], *, whole: bool = True) -> str:
    """Why a command could not be typed like that; empty if it could.

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
def test_what_cannot_be_typed_is_noticed(line: str) -> None:
    assert fault(line.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_typed_as_they_are_shown(page: Path) -> None:
    text = page.read_text()
    whole = [words for words, _ in typed(text) if words[0] in {"cobalt", "make"}]
    faults = [fault(words) for words in whole]
    faults += [fault(words, whole=False) for words in mentioned(text)]
    assert [one for one in faults if one] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_files_that_the_pages_name_exist() -> None:
    """Whole paths in backquotes, with a node of pytest behind them or not."""
    pattern = r"`((?:src|tests|charts|scripts|benchmarks)/[\w./-]+\.\w+)(?:::\w+)?`"
    named = {path for page in PAGES for path in re.findall(pattern, page.read_text())}
    assert len(named) > 100
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_readme_uses_nothing_that_these_tests_do_not_know() -> None:
    assert {words[0] for words, _ in typed(README)} == {"make", "cobalt", "export", "kubectl"}


def test_the_readme_names_every_command() -> None:
    named = {
        cell.removeprefix("cobalt ").split()[0]
        for cell in first_cells(section(README, "## What is here"))
    }
    assert named == {name for name in app.resolved_commands() if not name.startswith("-")}


def tables() -> list[tuple[str, list[list[str]]]]:
    """Each table of the README that kubectl prints: what was asked for, and the cells."""
    return [
        (words[2], [re.split(r" {2,}", line.strip()) for line in output])
        for words, output in typed(README)
        if words[:2] == ["kubectl", "get"]
    ]


def test_there_are_tables() -> None:
    assert [name for name, _ in tables()] == ["hypervisors", "migrations"]


@pytest.mark.parametrize(("asked", "lines"), tables())
def test_tables_have_the_columns_of_the_definitions(asked: str, lines: list[list[str]]) -> None:
    columns = KINDS[asked].definition.columns
    expected = ["NAME", *(column.name.upper() for column in columns if not column.priority)]
    assert lines[0] == expected
    assert [len(cells) for cells in lines] == [len(expected)] * len(lines)


def picture(name: str) -> list[str]:
    """The texts of a picture of a terminal."""
    svg = (ROOT / "docs/images" / name).read_text()
    texts: list[str] = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return [text.replace("&#160;", " ").strip() for text in texts]


@pytest.mark.parametrize("name", re.findall(r"docs/images/([^)]+)", README))
def test_pictures_are_of_commands_that_there_are(name: str) -> None:
    assert fault(picture(name)[0].split()) == ""


def test_the_picture_of_the_hosts_has_the_columns_of_the_screen() -> None:
    header = list(takewhile(bool, picture("lab.svg")[1:]))
    assert header == [column for column in _COLUMNS if column in header]
    assert {"NODE", "STATE", "INSTANCES"} <= set(header)


def printed(folder: Path) -> Iterator[re.Pattern[str]]:
    """A pattern of each text in the code that has some letters of its own."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            fixed = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
            if sum(letter.isalpha() for letter in "".join(fixed)) >= 4:
                yield re.compile(
                    "".join(
                        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
                        for part in parts
                    )
                )


def unprinted(lines: list[str]) -> list[str]:
    """Those lines that no text in the code of the command or the lab makes."""
    folders = (ROOT / "src/hypercobalt/cli", ROOT / "src/hypercobalt/lab")
    patterns = [pattern for folder in folders for pattern in printed(folder)]
    return [line for line in lines if not any(one.fullmatch(line) for one in patterns)]


def test_lines_that_nothing_prints_are_noticed() -> None:
    wrong = ["everything has gone", "kvm-1 goes to service", "the guest image"]
    assert unprinted([*wrong, "everything is gone", "guest image"]) == wrong


def test_the_readme_shows_lines_that_the_code_prints() -> None:
    ours = [output for words, output in typed(README) if words[0] in {"make", "cobalt"}]
    lines = [re.sub(r"^ +[0-9.]+ s  (.*): done$", r"\1", line) for part in ours for line in part]
    assert len(lines) > 20
    assert unprinted(lines) == []


def test_flags_of_the_api_server_are_those_of_the_code_with_their_defaults() -> None:
    rows = flag_rows(section(SERVER, "## Running it"))
    said = {cells[0].strip("`"): cells[1].strip("`") for cells in rows}
    assert said == {name: shown(default) for name, (default, _) in flags(apiserver).items()}
