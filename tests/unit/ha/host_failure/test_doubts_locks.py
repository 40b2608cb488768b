"""Locks of disks that speak against the word of one fence device."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.doubts import LatestReports, LockRefusal, doubts, held, unconfirmed
from hypercobalt.ha.host_failure.fencing_record import DeviceAnswer, answered, overtaken, proven

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
S = timedelta(seconds=1)
ATTEMPT = Fencing(
    phase=FencingPhase.ATTEMPTING, bootID="b1", method=FencingMethod.BMC, device="bmc", attempts=1
)
PROVEN = replace(ATTEMPT, phase=FencingPhase.FENCED, fencedAt=NOW, forcedDownAt=NOW)
WHY = 'Failed to get "write" lock'


def refused(seconds: int, *, by: str = "kvm-b", why: str = WHY) -> LockRefusal:
    return LockRefusal(f"vm-{seconds}", by, seconds * S, why)


def by_two(seconds: int, why: str = WHY) -> tuple[LockRefusal, LockRefusal]:
    return refused(seconds, why=why), refused(seconds, by="kvm-c", why=why)


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
    found = held([one for s in seconds for one in by_two(s)])
    assert len(found) == expected
    assert all(WHY in text and "of instance vm-" in text for text in found)


@pytest.mark.parametrize(
    ("late", "early", "counts"),
    [
        pytest.param(("kvm-b",), (), False, id="one target"),
        pytest.param(("kvm-b", "kvm-b"), (), False, id="of any number of instances"),
        pytest.param(("kvm-b",), ("kvm-c",), False, id="the other one by a lock left over"),
        pytest.param(("kvm-b", "kvm-c"), (), True, id="two targets"),
    ],
)
def test_word_of_one_target_voids_no_proof(
    late: tuple[str, ...], early: tuple[str, ...], *, counts: bool
) -> None:
    """A captured host is a target, too, and refuses with whatever text it likes."""
    refusals = [
        *(refused(20, by=by) for by in early),
        *(refused(130 + number, by=by) for number, by in enumerate(late)),
    ]
    assert bool(held(refusals)) is counts
    assert unconfirmed(refusals) == (None if counts else refused(130))


def test_early_refusals_are_nothing_to_report() -> None:
    assert unconfirmed([refused(20)]) is None
    assert unconfirmed([]) is None


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
    (text,) = held(by_two(130, why))
    assert (
        text
        == f"130 s later a disk of instance vm-130 is in use, as kvm-b and kvm-c report: {shown}"
    )


def test_locks_that_are_held_too_long_void_the_word_of_one_device() -> None:
    (text,) = held(by_two(130))
    assert doubts(PROVEN, LatestReports("b1", in_use=(text,))) == (text,)
    record = overtaken(PROVEN, (text,), NOW, contradicted=text)
    assert (record.livesSince, record.contradictedBy) == (NOW, text)
    assert overtaken(record, ("Ready",), NOW).contradictedBy == text


@pytest.mark.parametrize(
    ("answer", "believed"),
    [
        pytest.param(DeviceAnswer(True, "off already", already=True), False, id="off already"),
        pytest.param(DeviceAnswer(True, "switched off"), True, id="seen switching"),
        pytest.param(
            DeviceAnswer(True, "off already", "pdu is off, too", already=True), True, id="two ways"
        ),
    ],
)
def test_device_that_was_contradicted_has_to_be_seen_switching(
    answer: DeviceAnswer, *, believed: bool
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
