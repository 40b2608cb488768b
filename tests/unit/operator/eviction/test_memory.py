"""What is remembered of an Eviction between passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, move, server, standing

from hypercobalt.api.eviction import InstancePhase
from hypercobalt.compute.model import Move
from hypercobalt.operator.eviction.follow import Moment
from hypercobalt.operator.eviction.memory import Memory

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
def test_move_lasted_as_long_as_its_record_says(record: Move | None, seconds: float) -> None:
    memory, given = Memory("uid"), standing(server())
    memory.time([replace(given, occupies=True)], NOW)
    seen = replace(given.seen, moves=(record,) if record else ())
    memory.time([replace(given, seen=seen, phase=InstancePhase.SUCCEEDED)], LATER)
    assert [one.seconds for one in memory.ended] == [seconds]
