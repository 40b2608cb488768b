"""The memory that a pass leaves to the next one."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import POLICY, entry, eviction, move, server

from hypercobalt.api.eviction import EvictionStatus
from hypercobalt.compute.model import Move
from hypercobalt.operator.eviction.memory import Listing, Memories, Memory
from hypercobalt.operator.eviction.model.decision import Going, Load
from hypercobalt.operator.eviction.model.tracks import Begun, Recorded, Track
from hypercobalt.operator.eviction.planning.target_limits import EndedMove


def test_patience_starts_again_each_time_instances_linger() -> None:
    memory = Memory("uid")
    assert not memory.counted(1, lingering=False)
    assert not memory.lingered

    assert memory.counted(2, lingering=True)
    assert not memory.counted(3, lingering=True)
    assert memory.counted_since == 2

    assert not memory.counted(4, lingering=False)
    assert memory.counted(100, lingering=True)
    assert memory.counted_since == 100
    assert memory.lingered


OVER = move("completed", "z", id="0")
LISTED = Listing((server("a"), server("b")), (move("running", "a", id="1"), OVER))


@pytest.mark.parametrize(
    ("now", "begun", "same"),
    [
        pytest.param((move("running", "a", id="1"), OVER), (), True, id="it goes on"),
        pytest.param((move("completed", "a", id="1"), OVER), (), False, id="it has ended"),
        pytest.param((OVER,), (), False, id="its record is gone"),
        pytest.param(
            (move("running", "a", id="1"), move("accepted", "b", id="2")),
            ("b",),
            True,
            id="what was begun has a record",
        ),
        pytest.param((move("running", "a", id="1"),), ("b",), False, id="it has none yet"),
        pytest.param(
            (move("running", "a", id="1"), move("error", "b", id="2")),
            ("b",),
            False,
            id="it has failed at once",
        ),
    ],
)
def test_servers_are_known_while_every_move_that_was_begun_goes_on(
    now: tuple[Move, ...], begun: tuple[str, ...], *, same: bool
) -> None:
    assert LISTED.goes_on_as(now, begun) is same


@pytest.mark.parametrize(
    ("moves", "left", "explained"),
    [
        pytest.param((move("completed", "a", id="1"),), "b", True, id="its move has ended"),
        pytest.param((move("running", "a", id="1"),), "b", True, id="it arrives"),
        pytest.param((move("completed", "b", id="2"),), "a", True, id="a move that is new"),
        pytest.param((), "ab", True, id="none is missing"),
        pytest.param((move("running", "a", id="1"),), "a", False, id="no record of the missing"),
        pytest.param((move("completed", "b", id="0"),), "a", False, id="an old record of it"),
    ],
)
def test_records_read_before_the_servers_explain_the_missing_ones_or_are_read_again(
    moves: tuple[Move, ...], left: str, *, explained: bool
) -> None:
    assert LISTED.explains(moves, [server(one) for one in left]) is explained


def test_server_is_begun_until_its_record_is_seen() -> None:
    memory = Memory("uid", tracks={"a": Track(Begun("")), "b": Track(Recorded("1", "running"))})
    assert memory.begun == {"a"}


def test_target_that_one_eviction_has_tried_is_known_to_the_others() -> None:
    memories = Memories(POLICY)
    assert memories.limits(0) == {}
    ended = [EndedMove("x", "live-migration", 1024, 2.0, 0.0) for _ in range(2)]
    memories.ended(ended, 2.0)
    assert memories.limits(2.0) == {"x": 4}


@pytest.mark.parametrize(
    ("phase", "spec", "load"),
    [
        ("Migrating", {}, Load("here", {"a": Going("x")}, most=10)),
        ("Migrating", {"parallelism": 30}, Load("here", {"a": Going("x")}, most=30)),
        ("Evacuating", {}, Load("here", {"a": Going("x", evacuates=True)}, most=20)),
    ],
)
def test_eviction_that_was_not_looked_at_yet_counts_by_its_status(
    phase: str, spec: dict[str, object], load: Load
) -> None:
    status = EvictionStatus(instances=(entry("a", phase, target="x"), entry("b")))
    assert Memories(POLICY).others([eviction(status, **spec)], "another") == (load,)
