"""What a deleted Eviction still does."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import NOW, entry, eviction, move, server, standing

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import EvictionInstance, InstancePhase
from hypercobalt.compute.model import Move
from hypercobalt.operator.eviction.cancel import LONGEST, Left, cancelled, decide, late
from hypercobalt.operator.eviction.follow import Seen, Standing, Step
from hypercobalt.operator.eviction.progress import Track


def moving(*records: Move, attempts: int = 1) -> Standing:
    seen = Seen(entry("a", "Migrating"), server(), records)
    return Standing(seen, InstancePhase.MIGRATING, Track(), attempts=attempts, occupies=True)


@pytest.mark.parametrize(
    ("of", "steps", "left"),
    [
        pytest.param(moving(move()), [Step.ABORT], 1, id="a live move is aborted"),
        pytest.param(moving(move("queued")), [Step.ABORT], 1, id="one in a queue too"),
        pytest.param(moving(move(kind="migration")), [], 1, id="a cold one comes to its end"),
        pytest.param(moving(), [], 1, id="one that was just begun shows itself first"),
        pytest.param(moving(move(), attempts=0), [], 0, id="somebody else's is left alone"),
        pytest.param(
            replace(moving(), phase=InstancePhase.CONFIRMING, step=Step.CONFIRM),
            [Step.CONFIRM],
            1,
            id="a cold one at its end is confirmed",
        ),
        pytest.param(
            standing(server(status="ERROR"), Step.RECOVER),
            [Step.RECOVER],
            1,
            id="one in ERROR by its move is taken out of it",
        ),
        pytest.param(standing(server()), [], 0, id="nothing is begun"),
    ],
)
def test_what_is_stopped(of: Standing, steps: list[Step], left: int) -> None:
    found = decide([of])
    assert [one.step for one in found.steps] == steps
    assert len(found.left) == left


def test_it_is_visible() -> None:
    found = cancelled(eviction(), [standing(server("b")), moving(move())], [moving()], NOW.now)
    evicting = get_condition(found.conditions, "Evicting")
    assert evicting is not None
    assert (evicting.status, evicting.reason) == ("False", "Cancelled")
    assert "1 move under way" in evicting.message
    assert {one.id: one.phase for one in found.instances} == {"a": "Migrating", "b": "Skipped"}


@pytest.mark.parametrize(
    ("entries", "limit", "words", "confirm"),
    [
        pytest.param((entry("a", name="vm"),), LONGEST, "1 move .* of vm .a.$", False, id="live"),
        pytest.param((entry("a"), entry("b")), LONGEST * 9, "2 moves .* of a, b;", True, id="cold"),
        pytest.param((), LONGEST, "cannot be read", False, id="not known"),
        pytest.param([entry(str(n)) for n in range(25)], LONGEST, "18, 19, …$", False, id="many"),
    ],
)
def test_what_is_let_go_is_named(
    entries: tuple[EvictionInstance, ...], limit: timedelta, words: str, *, confirm: bool
) -> None:
    said = late(Left(tuple(entries), limit))
    assert re.search(words, said), said
    assert ("resize confirm" in said) is confirm
