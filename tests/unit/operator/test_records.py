"""What is decided about a host's death follows from the operator's record, not from the status."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

import hypercobalt
from hypercobalt.api.fencing import RECORD, Fencing, FencingPhase, as_record, recorded
from hypercobalt.ha.host_failure.fencing_record import holds, unproven

ROOT = Path(hypercobalt.__file__).parent
SHOWS = {
    "operator/ha/decide.py",  # adopts it, without its proof
    "operator/ha/observe.py",  # compares it with the record
    "operator/ha/assembly.py",  # looks again when it has changed
}
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
PROVEN = Fencing(
    phase=FencingPhase.FENCED,
    bootID="b1",
    storageDevice="san",
    forcedDownAt=NOON,
    startedAt=NOON,
    evidence=("off",),
)


def test_no_other_module_reads_what_the_status_shows() -> None:
    reads = re.compile(r"\b(status|stored|known)\.fencing\b(?! of)")
    found = {
        str(path.relative_to(ROOT))
        for room in ("operator", "compute", "ha")
        for path in (ROOT / room).rglob("*.py")
        if reads.search(path.read_text().partition('"""\n')[2])
        and not path.read_text().count("(status.fencing of its Hypervisor)")
    }
    assert found == SHOWS


def test_record_is_read_as_it_was_written() -> None:
    assert recorded({RECORD: as_record(PROVEN)}) == PROVEN


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"phase": 1}', "\x00", "{" * 10_000])
def test_annotation_that_cannot_be_read_proves_nothing(text: str) -> None:
    assert recorded({RECORD: text}) is None


def test_record_that_no_operator_has_made_warns_and_proves_nothing() -> None:
    found = unproven(PROVEN, NOON)
    assert not holds(found)
    assert (found.storageDevice, found.forcedDownAt) == ("san", NOON)
    assert found.startedAt is None, "no report is an answer to it"
    only = unproven(replace(PROVEN, forcedDownAt=None), NOON)
    assert only.phase == FencingPhase.FAILED
    released = replace(PROVEN, phase=FencingPhase.RELEASED)
    assert unproven(released, NOON) == released
