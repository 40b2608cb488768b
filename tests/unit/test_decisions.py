"""Decision records have a state and a date, are listed, and tell of amendments on both sides."""

from __future__ import annotations

import re

import pytest
from tests.pages import ROOT

FOLDER = ROOT / "docs" / "decisions"
RECORDS = {int(path.name[:4]): path for path in sorted(FOLDER.glob("0*.md"))}


def named(path_text: str, verb: str) -> set[int]:
    """Numbers of the records that the line of the state names after a verb."""
    state = path_text.split("\n", 3)[2]
    sentence = re.search(rf"{verb} ([^.]*(?:\.md\)[^.]*)*)", state)
    return {int(number) for number in re.findall(r"\[(\d+)\]", sentence[1])} if sentence else set()


@pytest.mark.parametrize("number", RECORDS)
def test_record_has_its_number_its_state_and_a_line_in_the_list(number: int) -> None:
    path = RECORDS[number]
    title, empty, state = path.read_text().split("\n", 3)[:3]
    assert (title.startswith(f"# {number}. "), empty) == (True, "")
    assert re.match(r"Accepted \d{4}-\d\d-\d\d\.", state)
    assert f"| [{number}]({path.name}) |" in (FOLDER / "README.md").read_text()


def test_amendments_are_named_on_both_sides() -> None:
    texts = {number: path.read_text() for number, path in RECORDS.items()}
    amends = {(n, of) for n, text in texts.items() for of in named(text, "Amends")}
    amended = {(by, n) for n, text in texts.items() for by in named(text, "Amended by")}
    assert amends
    assert amends == amended
