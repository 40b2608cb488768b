"""Before which calls the proof that the host is dead is read again."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import move, server

from hypercobalt.operator.eviction.model.actions import (
    Abort,
    Action,
    Confirm,
    Force,
    Recover,
    Restart,
    Start,
    is_evacuation,
)
from hypercobalt.operator.eviction.model.states import Mode


@pytest.mark.parametrize(
    ("action", "evacuates"),
    [
        (Start(server(), Mode.EVACUATE), True),
        (Start(server(), Mode.LIVE), False),
        (Start(server(), Mode.COLD), False),
        (Restart(server()), False),
        (Recover(server()), False),
        (Confirm(), False),
        (Force(move()), False),
        (Abort(move()), False),
    ],
    ids=lambda one: type(one).__name__,
)
def test_only_an_evacuation_starts_an_instance_while_its_host_is_taken_for_dead(
    action: Action, *, evacuates: bool
) -> None:
    assert is_evacuation(action) is evacuates
