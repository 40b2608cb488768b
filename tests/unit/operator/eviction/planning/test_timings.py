"""How long moves have taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, assessed, move, server

from hypercobalt.compute.model import Move
from hypercobalt.operator.eviction.model.states import Departed, Moment, Moving
from hypercobalt.operator.eviction.planning.estimate import Timings

LATER = Moment(NOW.now + timedelta(seconds=5), NOW.at + 5)


def recorded(seconds: float) -> Move:
    return move("completed", created=BEGAN, updated=BEGAN + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        pytest.param(recorded(2), 2, id="seen-late"),
        pytest.param(recorded(0), 5, id="record-in-whole-seconds"),
        pytest.param(recorded(60), 5, id="queued-before-it-was-seen"),
        pytest.param(None, 5, id="no-record"),
    ],
)
def test_move_lasted_as_long_as_in_its_record(record: Move | None, seconds: float) -> None:
    timings, given = Timings(), assessed(server(), Moving())
    timings.observe([given], NOW)
    seen = replace(given.observed, moves=(record,) if record else ())
    timings.observe([replace(given, observed=seen, state=Departed(""))], LATER)
    assert [one.seconds for one in timings.ended] == [seconds]
