"""Locks of disks that speak against the word of one fence device."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.doubts import Latest, doubts, held
from hypercobalt.ha.host_failure.fencing_record import Answer, answered, overtaken, proven

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
S = timedelta(seconds=1)
ATTEMPT = Fencing(
    phase=FencingPhase.ATTEMPTING, bootID="b1", method=FencingMethod.BMC, device="bmc", attempts=1
)
PROVEN = replace(ATTEMPT, phase=FencingPhase.FENCED, fencedAt=NOW, forcedDownAt=NOW)
WHY = 'Failed to get "write" lock'


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param((), 0, id="none was refused"),
        pytest.param((119,), 0, id="a dead client's lock may be left over"),
        pytest.param((120,), 1, id="but not for ever"),
        pytest.param((20, 300, 400), 1, id="the first of several suffices"),
    ],
)
def test_locks_count_once_they_are_held_too_long(seconds: tuple[int, ...], expected: int) -> None:
    found = held([(f"vm-{s}", NOW + s * S, WHY) for s in seconds], NOW)
    assert len(found) == expected
    assert all(WHY in text and "of instance vm-" in text for text in found)


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        pytest.param(
            "server a (vm-1): internal error: QEMU unexpectedly closed the monitor: "
            + "-blockdev driver=qcow2,... " * 20
            + f"{WHY}\nIs another process using the image [/srv/a.qcow2]?",
            WHY,
            id="of QEMU",
        ),
        pytest.param("x" * 300 + "lease is held", "x" * 107 + "lease is held", id="of another"),
    ],
)
def test_refusal_of_a_lock_is_shown_in_a_line(why: str, shown: str) -> None:
    """The line stands in RecoveryBlocked and in `cobalt explain`, before what to do."""
    (text,) = held([("vm-1", NOW + 130 * S, why)], NOW)
    assert text == f"130 s later a disk of instance vm-1 is in use: {shown}"


def test_locks_that_are_held_too_long_void_the_word_of_one_device() -> None:
    (text,) = held([("vm-1", NOW + 130 * S, WHY)], NOW)
    assert doubts(PROVEN, Latest("b1", in_use=(text,))) == (text,)
    record = overtaken(PROVEN, (text,), NOW, contradicted=text)
    assert (record.livesSince, record.contradictedBy) == (NOW, text)
    assert overtaken(record, ("Ready",), NOW).contradictedBy == text


@pytest.mark.parametrize(
    ("answer", "believed"),
    [
        pytest.param(Answer(True, "off already", already=True), False, id="off already"),
        pytest.param(Answer(True, "switched off"), True, id="seen switching"),
        pytest.param(
            Answer(True, "off already", "pdu is off, too", already=True), True, id="two ways"
        ),
    ],
)
def test_device_that_was_contradicted_has_to_be_seen_switching(
    answer: Answer, *, believed: bool
) -> None:
    doubted = replace(ATTEMPT, contradictedBy="a disk is in use")
    record = answered(doubted, answer, NOW)
    assert (record.phase == FencingPhase.FENCED) is believed
    assert (record.contradictedBy is None) is believed
    assert believed or "not believed, since a disk is in use" in record.evidence[-1]
    assert answered(ATTEMPT, answer, NOW).phase == FencingPhase.FENCED


def test_assertion_of_a_person_ends_the_contradiction() -> None:
    doubted = replace(ATTEMPT, contradictedBy="a disk is in use")
    assert proven(doubted, FencingMethod.EXTERNAL, "a person", NOW).contradictedBy is None
