"""When a host that was fenced wrongly, and is empty, is rebooted."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.host_failure.made import DEAD, NOW, but

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure import fencing_record
from hypercobalt.ha.host_failure.facts import Means
from hypercobalt.ha.host_failure.fencing import AttemptPace, Record, WaitUntil
from hypercobalt.ha.host_failure.rebooting import Reboot, RebootStep, answered, last, next_step

S = timedelta(seconds=1)
PACE = AttemptPace()
POWER = Means("bmc 192.0.2.1", 100 * S)
LIVES = Fencing(
    phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.AGENT, forcedDownAt=NOW
)
DEADLINE = NOW + 201 * S
ORDERED = replace(LIVES, rebootDeadline=DEADLINE)
AGAIN = WaitUntil(DEADLINE + PACE.longest)


@pytest.mark.parametrize(
    ("stored", "mine", "later", "step"),
    [
        pytest.param(LIVES, None, 0, Record(ORDERED), id="recorded before the call"),
        pytest.param(ORDERED, DEADLINE, 0, Reboot(ORDERED), id="called by whom it is recorded"),
        pytest.param(ORDERED, None, 0, AGAIN, id="another process has recorded it"),
        pytest.param(ORDERED, DEADLINE, 201, AGAIN, id="not after the deadline"),
        pytest.param(ORDERED, None, 500, AGAIN, id="the host has time to boot"),
        pytest.param(
            ORDERED,
            None,
            501,
            Record(replace(LIVES, rebootDeadline=DEADLINE + 501 * S)),
            id="then once more",
        ),
    ],
)
def test_reboot_is_recorded_and_called_once(
    stored: Fencing, mine: datetime | None, later: int, step: RebootStep
) -> None:
    facts = but(DEAD, power=POWER, mine=mine, later=later * S)
    assert next_step(stored, facts, PACE) == step


def test_answer_is_kept_and_what_may_act_late_holds_up_the_return() -> None:
    failed = answered(ORDERED, "bmc: 409 Conflict", "bmc", NOW)
    assert (last(failed), failed.rebootDeadline) == ("bmc: 409 Conflict", DEADLINE)
    assert fencing_record.may_act_late(failed, NOW)
    assert fencing_record.late_until(failed) == DEADLINE
    assert not fencing_record.may_act_late(failed, DEADLINE)
    unheard = answered(ORDERED, "bmc: it reads off", "bmc", NOW, ordered=False)
    assert last(unheard) == "bmc: it reads off"
    assert not fencing_record.may_act_late(unheard, NOW)
    done = answered(ORDERED, "", "bmc", NOW)
    assert done.rebootDeadline == NOW - S
    assert last(done) == "bmc has switched the host off and on again"
    assert not fencing_record.may_act_late(done, NOW)
    assert last(LIVES) == ""


def test_clock_that_was_set_back_prolongs_an_order_by_no_more_than_a_call() -> None:
    ahead = replace(LIVES, rebootDeadline=NOW + timedelta(days=1))
    moved = fencing_record.by_this_clock(ahead, POWER.lasts, NOW).rebootDeadline
    assert moved is not None
    assert moved <= NOW + timedelta(minutes=15)
