"""The entry of one instance in the status, and what is counted of all of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, POLICY, assessed, entry, move, server

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, EvictionStatus
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Departed,
    Evacuating,
    Mode,
    Moving,
    Observed,
    Ready,
    Restarted,
    Restarting,
    State,
    Stranded,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.recording.status import entry_of, with_instances, with_progress

LIVE, COLD, RESTART = EvictionMode.LIVE, EvictionMode.COLD, EvictionMode.RESTART
AT = NOW.now + timedelta(milliseconds=300)


def written(
    state: State,
    known: EvictionInstance | None = None,
    *moves: Move,
    of: Server | None = None,
    attempts: int = 0,
    mode: EvictionMode | None = LIVE,
) -> EvictionInstance:
    seen = Observed(known or entry(), of, moves)
    return entry_of(Assessment(seen, state, attempts=attempts, mode=mode), AT)


@pytest.mark.parametrize(
    ("known", "moves", "target"),
    [
        pytest.param(entry(), (), None, id="not begun"),
        pytest.param(entry(target="named"), (), "named", id="named, without a record yet"),
        pytest.param(entry(), (move("running"),), "there", id="on its way"),
        pytest.param(entry(), (move("running", target=""),), None, id="where to is not known yet"),
        pytest.param(entry(target="named"), (move("completed"),), "there", id="moved"),
        pytest.param(entry(target="named"), (move("error"),), "named", id="the last one failed"),
    ],
)
def test_target_is_that_of_the_newest_move_unless_it_failed(
    known: EvictionInstance, moves: tuple[Move, ...], target: str | None
) -> None:
    assert written(Moving(), known, *moves).target == target


@pytest.mark.parametrize(
    ("state", "known", "attempts", "started"),
    [
        pytest.param(Ready(Mode.LIVE), entry(), 0, None, id="not begun"),
        pytest.param(Moving(), entry(), 1, NOW.now, id="begun"),
        pytest.param(Moving(), entry(), 0, NOW.now, id="another client has begun it"),
        pytest.param(Evacuating(), entry(), 0, NOW.now, id="evacuated by another client"),
        pytest.param(Restarting(), entry(), 0, NOW.now, id="restarting"),
        pytest.param(Waiting("refused"), entry(), 1, NOW.now, id="begun and refused at once"),
        pytest.param(Moving(), entry(startedAt=BEGAN), 2, BEGAN, id="begun again"),
    ],
)
def test_instance_started_when_it_was_first_begun(
    state: State, known: EvictionInstance, attempts: int, started: object
) -> None:
    assert written(state, known, attempts=attempts).startedAt == started


@pytest.mark.parametrize(
    ("state", "known", "finished"),
    [
        pytest.param(Moving(), entry(), None, id="under way"),
        pytest.param(Departed(), entry(phase="Migrating"), NOW.now, id="just moved"),
        pytest.param(Stranded(), entry(phase="Migrating"), NOW.now, id="just given up"),
        pytest.param(Unaffected(""), entry(), None, id="nothing is done with it"),
        pytest.param(
            Departed(), entry(phase="Succeeded", finishedAt=BEGAN), BEGAN, id="moved before"
        ),
        pytest.param(
            Stranded(),
            entry(phase="Succeeded", finishedAt=BEGAN),
            NOW.now,
            id="moved, and now lost",
        ),
        pytest.param(
            Waiting(), entry(phase="Succeeded", finishedAt=BEGAN), None, id="it has come back"
        ),
    ],
)
def test_instance_finished_when_it_came_to_its_end(
    state: State, known: EvictionInstance, finished: object
) -> None:
    assert written(state, known).finishedAt == finished


@pytest.mark.parametrize(
    ("known", "attempts", "tried", "mode"),
    [
        pytest.param(entry(), 0, LIVE, None, id="not begun"),
        pytest.param(entry(), 1, LIVE, "live", id="begun"),
        pytest.param(entry(mode="live"), 0, COLD, "cold", id="another mode is tried next"),
        pytest.param(entry(mode="restart"), 2, None, "restart", id="it is over"),
    ],
)
def test_mode_is_that_of_what_was_begun(
    known: EvictionInstance, attempts: int, tried: EvictionMode | None, mode: str | None
) -> None:
    found = written(Waiting(), known, attempts=attempts, mode=tried)
    assert (found.mode, found.attempts) == (mode, attempts or None)


@pytest.mark.parametrize(
    ("here", "known", "name"),
    [
        pytest.param(server(), entry(), "vm-a", id="listed"),
        pytest.param(server(), entry(name="old"), "vm-a", id="renamed"),
        pytest.param(None, entry(name="old"), "old", id="it has left"),
        pytest.param(None, entry(), None, id="never seen"),
    ],
)
def test_name_is_the_last_one_known(
    here: Server | None, known: EvictionInstance, name: str | None
) -> None:
    assert written(Moving(), known, of=here).name == name


@pytest.mark.parametrize(("text", "message"), [("why", "why"), ("", None)])
def test_message_is_that_of_the_state_alone(text: str, message: str | None) -> None:
    assert written(Waiting(text), entry(message="before")).message == message


def absent(id_: str, state: State) -> Assessment:
    return Assessment(Observed(entry(id_), None), state)


@pytest.mark.parametrize(
    ("one", "left", "memory"),
    [
        pytest.param(assessed(server()), True, 1024, id="waits for a place"),
        pytest.param(assessed(server(), Moving()), True, 1024, id="on its way"),
        pytest.param(assessed(server(), Stranded()), True, 1024, id="cannot be moved"),
        pytest.param(absent("a", Moving("arrives")), True, 0, id="about to arrive"),
        pytest.param(absent("a", Arrived(due=True, message="")), True, 0, id="to be confirmed"),
        pytest.param(
            absent("a", Crashed(server(host="b"))), True, 0, id="off where it has come to"
        ),
        pytest.param(absent("a", Departed()), False, 0, id="has left"),
        pytest.param(assessed(server(), Restarted()), False, 0, id="runs again here"),
        pytest.param(assessed(server(), Unaffected("", stays=True)), False, 0, id="stays"),
    ],
)
def test_outstanding_instances_are_still_to_leave_or_have_failed_to(
    one: Assessment, *, left: bool, memory: int
) -> None:
    found = with_instances(EvictionStatus(), (one,), POLICY.order, NOW.now)
    assert found.outstandingInstances == (("a",) if left else ())
    assert found.outstandingRamMb == memory


@pytest.mark.parametrize(
    ("phases", "seconds", "counted", "expected"),
    [
        pytest.param((), 30.0, (0, 0, 0, 100), None, id="nothing there"),
        pytest.param(("Skipped",), 30.0, (0, 0, 0, 100), None, id="nothing to move"),
        pytest.param(("Pending", "Pending"), None, (2, 0, 0, 0), None, id="none has moved"),
        pytest.param(
            ("Succeeded", "Failed", "Migrating"), 30.0, (3, 1, 1, 33), 30, id="one on its way"
        ),
        pytest.param(("Succeeded", "Skipped"), 30.0, (1, 1, 0, 100), None, id="all have left"),
        pytest.param(("Succeeded", "Failed"), 30.0, (2, 1, 1, 50), None, id="the rest has failed"),
    ],
)
def test_progress_counts_instances_that_are_to_leave(
    phases: tuple[str, ...],
    seconds: float | None,
    counted: tuple[int, int, int, int],
    expected: int | None,
) -> None:
    given = EvictionStatus(instances=tuple(entry(str(n), each) for n, each in enumerate(phases)))
    found = with_progress(given, seconds, NOW).progress
    assert found is not None
    assert (found.total, found.done, found.failed, found.percent) == counted
    wanted = None if expected is None else NOW.now + timedelta(seconds=expected)
    assert found.estimatedCompletion == wanted


@pytest.mark.parametrize(
    ("before", "of", "ran"),
    [
        pytest.param(None, server(), True, id="runs"),
        pytest.param(None, server(status="SHUTOFF", running=False), None, id="is off"),
        pytest.param(None, server(status="SHUTOFF", running=False, died=True), None, id="was off"),
        pytest.param(
            True, server(status="SHUTOFF", running=False, died=True), True, id="has died since"
        ),
        pytest.param(True, server(status="SHUTOFF", running=False), None, id="was ended since"),
        pytest.param(True, None, True, id="has left"),
        pytest.param(
            True,
            server(status="REBUILD", running=False, task_state="rebuilding"),
            True,
            id="leaves",
        ),
    ],
)
def test_entry_notes_whether_it_ran_when_it_was_last_seen(
    before: bool | None, of: Server | None, ran: bool | None
) -> None:
    assert written(Waiting(), entry(ran=before), of=of).ran is ran


def test_what_has_died_on_a_dead_host_counts_as_having_run() -> None:
    """The instance is started elsewhere, and has to be seen to run there."""
    died = server(status="SHUTOFF", running=False, died=True)
    found = written(Waiting(), of=died, attempts=1, mode=EvictionMode.EVACUATE)
    assert found.ran is True


@pytest.mark.parametrize("ran", [True, None])
@pytest.mark.parametrize("running", [True, False])
def test_what_an_evacuation_does_to_an_instance_does_not_count_as_having_run(
    ran: bool | None, running: bool
) -> None:
    """Nova starts a stopped one for a moment, which its old host still lists."""
    begun = entry(ran=ran, phase="Migrating", mode=EvictionMode.EVACUATE, startedAt=NOW.now)
    of = server(status="ACTIVE", running=running, task_state="powering-off")
    found = written(Evacuating(), begun, of=of, attempts=1, mode=EvictionMode.EVACUATE)
    assert found.ran is ran
