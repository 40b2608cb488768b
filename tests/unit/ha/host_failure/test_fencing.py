"""The next step of fencing, by the record."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.ha.host_failure.made import DEAD, NOW, but

from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.ha.host_failure.facts import HostFacts, Means
from hypercobalt.ha.host_failure.fencing import (
    AttemptPace,
    Fence,
    FencingStep,
    Nothing,
    Record,
    WaitUntil,
    next_step,
)
from hypercobalt.ha.host_failure.fencing_record import (
    DeviceAnswer,
    answered,
    by_this_clock,
    holds,
    is_under_way,
    may_act_late,
    overtaken,
    released,
    void,
)

PACE = AttemptPace()
S = timedelta(seconds=1)
LASTS = timedelta(minutes=2)
DEADLINE = NOW + timedelta(seconds=121)
ATTEMPT = Fencing(
    phase="Attempting", bootID="b1", method="BMC", device="192.0.2.9", attempts=1,
    startedAt=NOW, deadline=DEADLINE, evidence=("silent",),
)  # fmt: skip
FAILED = with_fields(ATTEMPT, phase=FencingPhase.FAILED)
TWICE = with_fields(FAILED, attempts=2)
OFTEN = with_fields(FAILED, attempts=100)
NO_DEVICE = with_fields(FAILED, attempts=0, deadline=None)
LATE = but(DEAD, power=Means())
PROVEN = answered(ATTEMPT, DeviceAnswer(True, "power is off"), NOW)
MINE = but(DEAD, mine=DEADLINE)


def step(stored: Fencing | None, facts: HostFacts = DEAD, later: int = 0) -> FencingStep:
    return next_step(stored, but(facts, later=timedelta(seconds=later)), PACE)


def test_attempt_is_recorded_before_the_device_is_called() -> None:
    first = step(None)
    assert isinstance(first, Record)
    assert first.fencing == ATTEMPT
    then = step(first.fencing, but(DEAD, mine=first.fencing.deadline))
    assert then == Fence(ATTEMPT)


@pytest.mark.parametrize(
    ("stored", "facts", "later", "kind"),
    [
        pytest.param(ATTEMPT, DEAD, 0, WaitUntil, id="another process has recorded it"),
        pytest.param(ATTEMPT, DEAD, 120, WaitUntil, id="nor just before the deadline"),
        pytest.param(ATTEMPT, DEAD, 121, Record, id="then a new attempt"),
        pytest.param(ATTEMPT, MINE, 0, Fence, id="this process calls its own"),
        pytest.param(ATTEMPT, but(MINE, dead=False), 0, WaitUntil, id="not once the host lives"),
        pytest.param(FAILED, MINE, 0, WaitUntil, id="nor one that was called already"),
        pytest.param(FAILED, DEAD, 135, WaitUntil, id="after a failed one first a pause"),
        pytest.param(FAILED, DEAD, 136, Record, id="then it is tried again"),
        pytest.param(PROVEN, MINE, 0, Nothing, id="what is proven dead is never fenced again"),
        pytest.param(PROVEN, DEAD, 9999, Nothing, id="nor later"),
        pytest.param(None, but(DEAD, dead=False), 0, Nothing, id="nothing is due"),
        pytest.param(
            with_fields(ATTEMPT, bootID="b0"), MINE, 0, WaitUntil, id="an attempt on another boot"
        ),
        pytest.param(
            with_fields(PROVEN, bootID="b0"), DEAD, 0, Record, id="a proof of another boot"
        ),
        pytest.param(void(PROVEN, ("it lives",), NOW), DEAD, 0, WaitUntil, id="a proof was wrong"),
        pytest.param(TWICE, DEAD, 150, WaitUntil, id="after two failed ones twice the pause"),
        pytest.param(TWICE, DEAD, 151, Record, id="and no longer"),
        pytest.param(OFTEN, DEAD, 420, WaitUntil, id="after many at most five minutes"),
        pytest.param(OFTEN, DEAD, 421, Record, id="which is the longest pause"),
        pytest.param(
            NO_DEVICE, DEAD, 0, Record, id="a device that was set up since is called at once"
        ),
        pytest.param(None, but(DEAD, node_boot=""), 0, Record, id="the kubelet reports no boot"),
        pytest.param(ATTEMPT, LATE, 121, Record, id="a host that lost its device meanwhile"),
    ],
)
def test_next_step_follows_from_the_record(
    stored: Fencing | None, facts: HostFacts, later: int, kind: type[FencingStep]
) -> None:
    assert type(step(stored, facts, later)) is kind


@pytest.mark.parametrize("dead", [True, False])
def test_another_boot_of_a_silent_host_proves_nothing(dead: bool) -> None:
    """The host may run instances, whichever of the two boots is the newer one."""
    found = step(None, but(DEAD, node_boot="b2", dead=dead))
    attempt = with_fields(ATTEMPT, nodeBootID="b2")  # which the attempt is about as well
    assert found == (Record(attempt) if dead else Nothing())


def test_proof_of_a_host_that_shows_life_since_is_not_gone_on_with() -> None:
    down = with_fields(PROVEN, forcedDownAt=NOW)
    lives = overtaken(down, ("Ready", "Lease"), NOW + timedelta(seconds=9, milliseconds=500))
    assert (lives.phase, lives.livesSince) == ("Fenced", NOW + timedelta(seconds=9))
    assert lives.evidence[-1] == "the host shows life after the proof: Lease"
    assert (holds(down), holds(lives), holds(FAILED)) == (True, False, False)
    assert step(down) == Nothing()
    again = step(lives, later=200)
    assert isinstance(again, Record)
    assert (again.fencing.phase, again.fencing.livesSince) == ("Attempting", lives.livesSince)
    proven = answered(again.fencing, DeviceAnswer(True, "off"), NOW)
    assert (proven.livesSince, proven.forcedDownAt) == (None, NOW)
    early = overtaken(PROVEN, ("Ready",), NOW)
    assert (early.phase, early.livesSince) == ("Failed", None), "nothing was begun by it"


@pytest.mark.parametrize("dead", [True, False])
def test_boot_that_the_kubelet_does_not_report_proves_nothing(dead: bool) -> None:
    found = step(None, but(DEAD, node_boot="", dead=dead))
    assert (found.fencing.phase if isinstance(found, Record) else "") == (
        FencingPhase.ATTEMPTING if dead else ""
    )


@pytest.mark.parametrize(("silent", "phase"), [(True, "Fenced"), (False, "")])
def test_assertion_counts_while_no_component_of_the_host_answers(silent: bool, phase: str) -> None:
    found = step(None, but(DEAD, asserted="asserted by ops", silent=silent, dead=False))
    assert (found.fencing.phase if isinstance(found, Record) else "") == phase


def test_agent_that_has_ended_every_instance_takes_the_place_of_any_other_proof() -> None:
    ended = but(DEAD, stopped="every instance was ended", silent=False)
    for stored in (FAILED, PROVEN):
        found = step(stored, ended)
        assert isinstance(found, Record)
        assert (found.fencing.method, found.fencing.proof) == ("Agent", "every instance was ended")
        assert step(found.fencing, ended) == Nothing()


def test_closed_record_is_not_gone_on_with() -> None:
    later = step(released(PROVEN, "b1"), later=60)
    assert isinstance(later, Record)
    assert later.fencing.startedAt == NOW + timedelta(seconds=60)


def test_host_without_a_device_is_reported_once() -> None:
    without = but(DEAD, power=Means())
    found = step(None, without)
    assert isinstance(found, Record)
    assert found.fencing.phase == FencingPhase.FAILED
    assert found.fencing.evidence[-1] == "no fence device is set up for the host"
    assert step(found.fencing, without) == Nothing()


def test_attempts_of_one_boot_are_one_record() -> None:
    again = step(with_fields(FAILED, evidence=("silent", "attempt 1: 409")), later=136)
    assert isinstance(again, Record)
    assert again.fencing == with_fields(
        ATTEMPT,
        attempts=2,
        startedAt=NOW,
        deadline=NOW + timedelta(seconds=257),
        evidence=("silent", "attempt 1: 409"),
    )


def test_proof_that_comes_during_an_attempt_keeps_what_was_tried() -> None:
    found = step(ATTEMPT, but(DEAD, asserted="asserted by ops"), later=60)
    assert isinstance(found, Record)
    assert (found.fencing.attempts, found.fencing.startedAt) == (1, NOW)
    assert found.fencing.evidence == ("silent", found.fencing.proof)


def test_host_that_lost_its_device_keeps_what_was_tried() -> None:
    found = step(ATTEMPT, LATE, later=121)
    assert isinstance(found, Record)
    assert (found.fencing.phase, found.fencing.attempts) == ("Failed", 1)


def test_wait_ends_with_the_attempt_even_if_that_has_failed() -> None:
    assert step(ATTEMPT) == step(FAILED) == WaitUntil(DEADLINE)


@pytest.mark.parametrize("stored", [ATTEMPT, FAILED])
def test_clock_that_was_set_back_prolongs_an_attempt_by_no_more_than_a_call(
    stored: Fencing,
) -> None:
    back = NOW - timedelta(hours=5)
    found = by_this_clock(stored, LASTS, back)
    assert (found.phase, found.deadline) == ("Failed", back + LASTS + timedelta(seconds=640))
    assert by_this_clock(found, LASTS, back) == found
    after = LASTS + timedelta(seconds=640) + PACE.pause
    assert isinstance(next_step(found, but(MINE, later=back - NOW), PACE), WaitUntil)
    assert isinstance(next_step(found, but(MINE, later=back + after - NOW), PACE), Record)


def test_storage_is_given_back_in_time_after_the_clock_was_set_back() -> None:
    back = NOW - timedelta(hours=5)
    latest = back + LASTS + timedelta(seconds=640)
    cut = with_fields(PROVEN, storageDevice="san", deadline=DEADLINE, unfenceDeadline=DEADLINE)
    found = by_this_clock(cut, LASTS, back)
    assert (found.phase, found.deadline, found.unfenceDeadline) == ("Fenced", latest, latest)
    kept = with_fields(PROVEN, deadline=DEADLINE)
    assert by_this_clock(kept, LASTS, back) == kept, "nothing waits for that"


@pytest.mark.parametrize("stored", [ATTEMPT, FAILED, NO_DEVICE, PROVEN, released(ATTEMPT, "b2")])
@pytest.mark.parametrize("later", [-30, 0, 9999])
def test_record_of_a_clock_that_goes_on_stays(stored: Fencing, later: int) -> None:
    now = NOW + timedelta(seconds=later)
    assert by_this_clock(stored, LASTS, now) == stored


def test_host_that_was_switched_on_has_its_grace_by_the_clock_that_was_set_back() -> None:
    powered = overtaken(
        with_fields(PROVEN, forcedDownAt=NOW), ("its power is on",), NOW, powered=True
    )
    back = NOW - timedelta(hours=5)
    assert by_this_clock(powered, LASTS, back).poweredSince == back
    assert by_this_clock(powered, LASTS, NOW) == powered


def test_wrong_proof_is_void_to_the_second() -> None:
    found = void(PROVEN, ("it lives",), NOW + timedelta(seconds=9, milliseconds=500))
    assert (found.startedAt, found.proof, found.fencedAt) == (
        NOW + timedelta(seconds=9),
        None,
        None,
    )


def test_device_that_refuses_leaves_no_proof_and_its_deadline_counts() -> None:
    after = answered(ATTEMPT, DeviceAnswer(False, "409 Conflict"), NOW)
    assert (after.phase, after.proof, after.evidence[-1]) == (
        "Failed",
        None,
        "attempt 1: 409 Conflict",
    )
    assert is_under_way(after, NOW + timedelta(seconds=120))
    assert not is_under_way(after, DEADLINE)


def test_attempt_that_has_ordered_nothing_is_over_with_its_answer() -> None:
    after = answered(
        ATTEMPT, DeviceAnswer(False, "bmc: no answer within 20 s", acts_late=False), NOW
    )
    assert not is_under_way(after, NOW)
    assert step(after) == WaitUntil(NOW + PACE.pause)


REFUSED = answered(
    ATTEMPT,
    DeviceAnswer(False, "bmc: 401", acts_late=False, refused="bmc: 401", setup="v1"),
    NOW,
)


@pytest.mark.parametrize("setup", ["v1", ""])
def test_refused_attempt_is_repeated_slowly_while_nothing_is_corrected(setup: str) -> None:
    facts = but(DEAD, setup=setup)
    assert next_step(REFUSED, facts, PACE) == WaitUntil(NOW + PACE.longest)
    assert isinstance(next_step(REFUSED, but(facts, later=PACE.longest), PACE), Record)


def test_refused_attempt_is_repeated_at_once_with_another_document_or_secret() -> None:
    again = step(REFUSED, but(DEAD, setup="v2"))
    assert isinstance(again, Record)
    assert (again.fencing.phase, again.fencing.refused) == ("Attempting", None)


def test_refused_attempt_that_may_act_late_is_not_repeated_before_its_deadline() -> None:
    late = answered(ATTEMPT, DeviceAnswer(False, "b: 401", refused="b: 401", setup="v1"), NOW)
    assert next_step(late, but(DEAD, setup="v2"), PACE) == WaitUntil(DEADLINE)


@pytest.mark.parametrize(
    ("phase", "method", "late"),
    [
        pytest.param("Attempting", "BMC", True, id="it is under way"),
        pytest.param("Failed", "BMC", True, id="it has failed, as far as was answered"),
        pytest.param("Fenced", "BMC", False, id="its answer is the proof"),
        pytest.param("Fenced", "External", True, id="a person asserts that the boot is dead"),
        pytest.param("Fenced", "Agent", True, id="the agent has ended all instances"),
        pytest.param("Fenced", "Storage", True, id="the storage is the proof"),
        pytest.param("Released", "External", False, id="the host was taken back since"),
    ],
)
def test_call_may_act_until_its_deadline_unless_its_answer_is_the_proof(
    phase: str, method: str, late: bool
) -> None:
    record = with_fields(ATTEMPT, phase=phase, method=method)
    assert may_act_late(record, DEADLINE - S) is late
    assert not may_act_late(record, DEADLINE)
    assert not may_act_late(with_fields(record, deadline=None), NOW)


@pytest.mark.parametrize("method", ["External", "BMC"])
def test_next_boot_is_warned_of_a_late_call_and_fenced_without_waiting_for_it(method: str) -> None:
    before = with_fields(PROVEN, bootID="b0", method=method)
    found = step(before, but(DEAD, asserted="asserted by ops"), 0)
    assert isinstance(found, Record)
    assert (found.fencing.bootID, found.fencing.phase) == ("b1", "Fenced")
    assert found.fencing.deadline == (DEADLINE if method == "External" else None)
    attempt = step(before, DEAD, 60)
    assert isinstance(attempt, Record)
    assert attempt.fencing.phase == "Attempting"


def test_proof_names_boot_and_what_was_read() -> None:
    assert (PROVEN.bootID, PROVEN.proof, PROVEN.fencedAt) == ("b1", "power is off", NOW)
    assert released(PROVEN, "b2").phase == FencingPhase.RELEASED


def test_evidence_stays_short_and_keeps_its_beginning() -> None:
    record = ATTEMPT
    for number in range(40):
        record = answered(record, DeviceAnswer(False, f"no {number}"), NOW)
    assert len(record.evidence) == 12
    assert (record.evidence[0], record.evidence[-1]) == ("silent", "attempt 1: no 39")
    assert record.evidence[1] == "attempt 1: no 29"


@pytest.mark.parametrize("count", [1, 11])
def test_evidence_that_is_short_is_kept_whole(count: int) -> None:
    record = ATTEMPT
    for number in range(count):
        record = answered(record, DeviceAnswer(False, f"no {number}"), NOW)
    assert record.evidence == ("silent", *(f"attempt 1: no {number}" for number in range(count)))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(but(DEAD, boot=""), id="silent"),
        pytest.param(but(DEAD, boot="", node_boot="b2"), id="its kubelet reports a boot"),
        pytest.param(but(DEAD, boot="", stopped="all ended"), id="its agent ended everything"),
        pytest.param(but(DEAD, boot="", asserted="by a person"), id="a person asserts it"),
        pytest.param(but(MINE, boot=""), id="an attempt is recorded"),
    ],
)
@pytest.mark.parametrize("stored", [None, with_fields(ATTEMPT, bootID=""), ATTEMPT])
def test_host_whose_boot_is_unknown_is_not_proven_dead(
    stored: Fencing | None, facts: HostFacts
) -> None:
    found = step(stored, facts)
    assert not isinstance(found, Record | Fence)


# -- cut off from its storage ----------------------------------------------------------------------

SAN = Means("san", timedelta(minutes=1))
BOTH = but(DEAD, storage=SAN)
ALONE = but(BOTH, power=Means())
CUTTING = with_fields(
    ATTEMPT, method="Storage", device="san", storageDevice="san", attempts=2, deadline=DEADLINE
)
NOT_CUT = with_fields(CUTTING, phase=FencingPhase.FAILED)


@pytest.mark.parametrize(
    ("stored", "facts", "later", "expected"),
    [
        pytest.param(None, BOTH, 0, Record(ATTEMPT), id="the power comes first"),
        pytest.param(FAILED, BOTH, 0, Record(CUTTING), id="at once after it has failed"),
        pytest.param(
            FAILED, BOTH, 100, Record(with_fields(CUTTING, deadline=NOW + 161 * S)),
            id="an attempt that lasts longer than the one by the power may",
        ),
        pytest.param(FAILED, BOTH, 200, Record(with_fields(CUTTING, deadline=NOW + 261 * S)),
            id="and without its pause"),
        pytest.param(ATTEMPT, BOTH, 0, WaitUntil(DEADLINE), id="not while it may succeed"),
        pytest.param(FAILED, but(BOTH, dead=False), 0, WaitUntil(DEADLINE), id="it lives"),
        pytest.param(
            with_fields(FAILED, bootID="b0"), BOTH, 0, WaitUntil(DEADLINE), id="another boot"
        ),
        pytest.param(
            CUTTING, but(BOTH, mine=DEADLINE), 0, Fence(CUTTING), id="the own one is made"
        ),
        pytest.param(CUTTING, BOTH, 0, WaitUntil(DEADLINE), id="another process's is not"),
        pytest.param(NOT_CUT, BOTH, 0, WaitUntil(DEADLINE), id="it has failed as well"),
        pytest.param(
            NOT_CUT, BOTH, 150, WaitUntil(DEADLINE + 30 * S), id="then there is a pause"
        ),
        pytest.param(
            NOT_CUT, BOTH, 151, Record(with_fields(
                ATTEMPT, attempts=3, storageDevice="san", deadline=NOW + 272 * S)),
            id="and the power is tried again; it may be cut off all the same",
        ),
        pytest.param(
            ATTEMPT, BOTH, 121, Record(with_fields(
                ATTEMPT, attempts=2, deadline=NOW + 242 * S)),
            id="an attempt by the power that was given up is made again",
        ),
        pytest.param(
            None, ALONE, 0, Record(with_fields(CUTTING, attempts=1, deadline=NOW + 61 * S)),
            id="no device switches its power",
        ),
        pytest.param(
            with_fields(NOT_CUT, attempts=1), ALONE, 135, WaitUntil(DEADLINE + 15 * S),
            id="which has failed: a pause",
        ),
        pytest.param(
            with_fields(NOT_CUT, attempts=1), ALONE, 136, Record(
                with_fields(CUTTING, deadline=NOW + 197 * S)),
            id="and again",
        ),
    ],
)  # fmt: skip
def test_host_is_cut_off_from_its_storage_where_its_power_cannot_be_switched(
    stored: Fencing | None, facts: HostFacts, later: int, expected: FencingStep
) -> None:
    assert step(stored, facts, later) == expected


def test_proof_is_by_what_the_attempt_was_by() -> None:
    found = answered(CUTTING, DeviceAnswer(True, "the access is off"), NOW)
    assert (found.method, found.proof, found.storageDevice) == (
        "Storage",
        "the access is off",
        "san",
    )
    assert PROVEN.method == "BMC"
    older = answered(with_fields(ATTEMPT, method=None), DeviceAnswer(True, "off"), NOW)
    assert older.method == "BMC"


GIVEN = with_fields(PROVEN, bootID="b0", storageDevice="san", unfenceDeadline=NOW + 60 * S)


@pytest.mark.parametrize("facts", [BOTH, ALONE, DEAD])
def test_next_boot_is_still_cut_off_and_waits_for_an_attempt_to_give_its_storage_back(
    facts: HostFacts,
) -> None:
    assert step(GIVEN, facts, 59) == WaitUntil(NOW + 60 * S)
    found = step(GIVEN, facts, 60)
    assert isinstance(found, Record)
    assert (found.fencing.bootID, found.fencing.storageDevice) == ("b1", "san")
    assert found.fencing.unfenceDeadline == NOW + 60 * S
    claimed = step(GIVEN, but(facts, asserted="asserted by ops"), 0)
    assert isinstance(claimed, Record)
    assert claimed.fencing.storageDevice == "san", "whatever proves it"


def test_next_boot_waits_for_an_order_to_reboot_the_host() -> None:
    ordered = with_fields(PROVEN, bootID="b0", rebootDeadline=NOW + 60 * S)
    assert step(ordered, DEAD, 59) == WaitUntil(NOW + 60 * S)
    assert isinstance(step(ordered, DEAD, 60), Record)


def test_pause_and_attempt_to_give_back_are_both_waited_for() -> None:
    failed = with_fields(NOT_CUT, unfenceDeadline=DEADLINE + 60 * S)
    assert step(failed, BOTH, 160) == WaitUntil(DEADLINE + 60 * S)
    failed = with_fields(NOT_CUT, unfenceDeadline=DEADLINE)
    assert step(failed, BOTH, 125) == WaitUntil(DEADLINE + 30 * S)


def test_wrong_proof_leaves_the_host_recorded_as_cut_off() -> None:
    cut = answered(CUTTING, DeviceAnswer(True, "off"), NOW)
    assert void(cut, ("it lives",), NOW).storageDevice == "san"
    assert overtaken(cut, ("it lives",), NOW).storageDevice == "san"


@pytest.mark.parametrize(
    ("assertion", "silent", "replaced"),
    [("asserted by ops", True, True), ("", True, False), ("asserted by ops", False, False)],
)
def test_assertion_replaces_a_proof_that_its_device_no_longer_confirms(
    assertion: str, silent: bool, replaced: bool
) -> None:
    facts = but(DEAD, unconfirmed=PROVEN, asserted=assertion, silent=silent)
    found = step(PROVEN, facts)
    assert (found != Nothing()) is replaced
    if isinstance(found, Record):
        assert found.fencing.method == "External"


@pytest.mark.parametrize(
    ("stored", "facts", "confirmed"),
    [
        pytest.param(PROVEN, {}, True, id="one device"),
        pytest.param(PROVEN, {"asserted": ""}, False, id="nothing asserts it"),
        pytest.param(PROVEN, {"silent": False}, False, id="the host lives"),
        pytest.param(with_fields(PROVEN, confirmedBy="pdu"), {}, False, id="two ways already"),
        pytest.param(with_fields(PROVEN, method="External"), {}, False, id="a person alone"),
        pytest.param(with_fields(PROVEN, method="Storage"), {}, True, id="the storage alone"),
    ],
)
def test_assertion_confirms_a_proof_that_hangs_on_one_word(
    stored: Fencing, facts: dict[str, object], confirmed: bool
) -> None:
    known: dict[str, object] = {"asserted": "asserted by ops", **facts}
    found = step(stored, but(DEAD, **known), later=9)  # type: ignore[arg-type]
    assert isinstance(found, Record) is confirmed
    if isinstance(found, Record):
        record = found.fencing
        assert (record.method, record.proof) == (stored.method, stored.proof)
        assert (record.confirmedBy, record.fencedAt) == ("asserted by ops", NOW + 9 * S)


def test_second_way_goes_with_the_proof_that_it_has_confirmed() -> None:
    twice = answered(ATTEMPT, DeviceAnswer(True, "off", "pdu reports off, too"), NOW)
    assert twice.confirmedBy == "pdu reports off, too"
    again = answered(
        with_fields(twice, phase=FencingPhase.ATTEMPTING), DeviceAnswer(True, "off"), NOW
    )
    assert again.confirmedBy is None


def test_record_of_a_host_that_lives_begins_again() -> None:
    lives = overtaken(PROVEN, ("Ready",), NOW)
    assert lives.poweredSince is None
    assert lives.startedAt == NOW + timedelta(seconds=1), "no report is about it yet"
    first = overtaken(with_fields(PROVEN, startedAt=None), ("Ready",), NOW)
    assert first.startedAt == NOW
