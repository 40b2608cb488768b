"""Docstrings begin with what a thing is or does, and hold no phrase that makes a reader stumble."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("src", "tests", "benchmarks")
_BEGINNING = r"(?:Of|By|For|It)\b"
_INSIDE = r";\s+gives\b|\b(?:is|are|was|were)\s+(?:not\s+)?to\s+be\b|\b(?:[Aa]new|[Ll]ikewise)\b"
PHRASE = re.compile(rf"\A\s*{_BEGINNING}|{_INSIDE}")
MAY_HOLD = re.compile(rf"[\"']\s*{_BEGINNING}|{_INSIDE}")
"""Matches any source with such a docstring, and few others: only these need to be parsed."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is a statement: docstrings, also those of attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def phrases(source: str) -> list[tuple[int, str]]:
    """Line and words of each phrase in the docstrings of a source."""
    if MAY_HOLD.search(source) is None:
        return []
    return [
        (line + text.count("\n", 0, found.start()), " ".join(found[0].split()))
        for line, text in sorted(docstrings(source))
        for found in PHRASE.finditer(text)
    ]


@pytest.mark.parametrize(
    ("docstring", "phrase"),
    [
        ("Of the host, in MiB.", "Of"),
        ("By name.", "By"),
        ("For the operator alone.", "For"),
        ("It runs again on its host.", "It"),
        ("Start it; gives whether it runs.", "; gives"),
        ("A host that is to be fenced.", "is to be"),
        ("Hosts that are not to be fenced.", "are not to be"),
        ("What was to be done.", "was to be"),
        ("Hosts that were\n    to be fenced.", "were to be"),
        ("Make it anew.", "anew"),
        ("Likewise for a guest.", "Likewise"),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("class Host:\n    ", ""),
        ("def boot():\n    ", "    return 1\n"),
        ("class Host:\n    async def boot(self):\n        ", ""),
        ("LIMIT = 5\n", ""),
        ("if True:\n    LIMIT: int = 5\n    ", "else:\n    LIMIT = 6\n"),
        ("class Host:\n    name: str\n    ", "    other: str\n"),
    ],
    ids=["module", "class", "function", "method", "constant", "nested constant", "attribute"],
)
def test_each_phrase_is_found(docstring: str, phrase: str, before: str, after: str) -> None:
    source = f'{before}"""{docstring}"""\n{after}'
    assert phrases(source) == [(1 + before.count("\n"), phrase)]


def test_every_phrase_of_a_docstring_is_found_with_its_line() -> None:
    source = '"""By name.\n\nMade anew, and\nanew.\n"""\n'
    assert phrases(source) == [(1, "By"), (3, "anew"), (4, "anew")]


@pytest.mark.parametrize(
    "source",
    [
        '"""Offers a host.\n\nFor each host: what it gives; given to bearers, renewed."""\n',
        'def made_anew(): ...\n\n\nTEXT = "By name; gives what is to be made anew, likewise"\n',
        '"""Name of the host."""\n# By name; gives what is to be made anew, likewise.\n',
    ],
    ids=["other words", "code", "comment"],
)
def test_other_words_and_what_is_no_docstring_may_stand(source: str) -> None:
    assert phrases(source) == []


def test_no_docstring_holds_such_a_phrase() -> None:
    modules = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    assert len(modules) > 1500
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in modules
        for line, phrase in phrases(path.read_text())
    ]
    assert faults == []
