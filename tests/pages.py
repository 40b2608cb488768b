"""Contents of the project's pages, for tests that compare them with the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

from cyclopts import Parameter

ROOT = Path(__file__).resolve().parents[1]


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of any level."""
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading!r}"
    return found[1]


def first_cells(text: str) -> Iterator[str]:
    """What stands in backquotes in the first cells of a table."""
    for row in re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", row)


def flag_rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of a table whose first cell is a flag."""
    for line in re.findall(r"^\| `--.*$", text, re.MULTILINE):
        yield [cell.strip() for cell in line.strip("|").split("|")]


def flags(command: Callable[..., int]) -> dict[str, tuple[object, str]]:
    """Default and environment variable of every flag of a command."""
    hints = get_type_hints(command, include_extras=True)
    found: dict[str, tuple[object, str]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = parameter.default
        if dataclasses.is_dataclass(group) and not isinstance(group, type):
            inner = get_type_hints(type(group), include_extras=True)
            for one in dataclasses.fields(group):
                found[_flag(one.name)] = getattr(group, one.name), _variable(inner[one.name])
        else:
            found[_flag(name)] = group, _variable(hints[name])
    return found


def shown(default: object) -> str:
    """A default as the pages write it; nothing for a flag that must be given."""
    if default is inspect.Parameter.empty:
        return ""
    if isinstance(default, timedelta):
        minutes, seconds = divmod(int(default.total_seconds()), 60)
        if seconds:
            return f"{minutes * 60 + seconds}s"
        return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default not in (None, "") else "none"


def tables(page: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The last heading and the rows, in cells, of every table of a page."""
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            for line in block.splitlines()
        )
        yield header[-1], rows


def proven(page: str) -> list[list[list[str]]]:
    """The rows of each table whose last column is for tests."""
    return [rows for heading, rows in tables(page) if heading.startswith("Test")]


def named_tests(text: str) -> set[str]:
    """Tests in backquotes, with a file before them or not."""
    return set(re.findall(r"`(?:[\w/.]+::)?(test_\w+)`", text))


def unknown_tests(page: str) -> list[str]:
    """The tests that a page names and that no module of tests defines."""
    return sorted(named_tests(page) - _defined_tests())


@cache
def _defined_tests() -> frozenset[str]:
    found: set[str] = set()
    for module in (ROOT / "tests").rglob("*.py"):
        found.update(re.findall(r"^ *(?:async )?def (test_\w+)\(", module.read_text(), re.M))
    return frozenset(found)


def typed(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each command of the page's console blocks, in words, with the lines that follow it.

    Of a pipe the first: whose input the others read.
    """
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
            line, *output = part.rstrip("\n").split("\n")
            words = shlex.split(line, comments=True)
            yield list(takewhile(lambda word: word != "|", words)), output


def mentioned(page: str) -> Iterator[list[str]]:
    """Each `cobalt …` in the running text of a page, in words."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    for line in re.findall(r"`(cobalt [^`]+)`", text):
        yield shlex.split(line)


def broken_links(page: Path) -> list[str]:
    """The links of a page to files that are not there, or to headings that they do not have."""
    named: list[tuple[str, str]] = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text())
    return [
        f"{name}#{anchor}"
        for name, anchor in named
        if not (page.parent / name).exists()
        or (anchor and anchor not in _anchors(page.parent / name if name else page))
    ]


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(hint: object) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    made = [one.env_var for one in get_args(hint) if isinstance(one, Parameter)]
    return next((str(*names) for names in made if names), "")
