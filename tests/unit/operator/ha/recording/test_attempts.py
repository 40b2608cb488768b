"""Which recorded attempts are a process's own."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.samples import NOW

from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.operator.ha.recording.attempts import new_deadline

LATER = NOW + timedelta(minutes=5)


def fencing(phase: FencingPhase, deadline: datetime | None = NOW, attempts: int = 1) -> Fencing:
    return Fencing(phase=phase, deadline=deadline, attempts=attempts)


ATTEMPT = fencing(FencingPhase.ATTEMPTING)
GIVING = with_fields(fencing(FencingPhase.FENCED), unfenceDeadline=LATER)

REBOOTING = with_fields(fencing(FencingPhase.FENCED), rebootDeadline=LATER)


@pytest.mark.parametrize(
    ("stored", "record", "expected"),
    [
        pytest.param(None, ATTEMPT, NOW, id="the first"),
        pytest.param(ATTEMPT, ATTEMPT, None, id="recorded, by whomever"),
        pytest.param(
            fencing(FencingPhase.RELEASED), fencing(FencingPhase.ATTEMPTING, LATER), LATER,
            id="of the next failure",
        ),
        pytest.param(
            fencing(FencingPhase.FAILED), fencing(FencingPhase.ATTEMPTING, LATER, 2), LATER,
            id="after one that failed",
        ),
        pytest.param(ATTEMPT, with_fields(ATTEMPT, method="Storage"), None, id="of that deadline"),
        pytest.param(
            fencing(FencingPhase.FENCED), GIVING, LATER, id="to give a host its storage back"
        ),
        pytest.param(GIVING, GIVING, None, id="which is recorded"),
        pytest.param(
            GIVING, with_fields(GIVING, unfenceDeadline=None), None, id="and is over"
        ),
        pytest.param(
            GIVING, with_fields(ATTEMPT, unfenceDeadline=LATER), NOW, id="of the boot after that"
        ),
        pytest.param(None, fencing(FencingPhase.FENCED), None, id="proven without an attempt"),
        pytest.param(fencing(FencingPhase.FENCED), REBOOTING, LATER, id="to reboot a host"),
        pytest.param(REBOOTING, REBOOTING, None, id="which is recorded as well"),
        pytest.param(None, None, None, id="nothing to record"),
    ],
)  # fmt: skip
def test_an_attempt_is_a_process_s_own_once_it_is_about_to_record_it(
    stored: Fencing | None, record: Fencing | None, expected: datetime | None
) -> None:
    assert new_deadline(stored, record) == expected
