"""The state of an instance that is restarted on its host."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    BEGAN,
    NOW,
    POLICY,
    entry,
    eviction,
    facts,
    hypervisor,
    move,
    seen,
    server,
    situation,
)

from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import LABEL, SINCE, Incident
from hypercobalt.api.times import format_time
from hypercobalt.compute.model import Host, RestartResult, Server, ServerAction
from hypercobalt.operator.eviction.assess import assess, assess_one
from hypercobalt.operator.eviction.assessing.case import About
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.owner import incident_of, planned, started
from hypercobalt.operator.eviction.model.actions import (
    Accepted,
    CallOutcome,
    NotYet,
    Outdated,
    Refused,
    Restart,
    Unanswered,
)
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Departed,
    Moment,
    Moving,
    Observed,
    Ready,
    Restarted,
    Restarting,
    Stranded,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Rebooted, Track
from hypercobalt.operator.eviction.observing.lookups import (
    requests_to_be_read,
    restarts_to_be_read,
    to_be_verified,
)
from hypercobalt.operator.eviction.planning.calls import once_accepted, remedy, with_outcomes
from hypercobalt.operator.eviction.recording.status import entry_of

OFF = server(status="SHUTOFF")
STARTING = server(status="SHUTOFF", task_state="powering-on")
COLD = {"kind": "migration"}
BEFORE = BEGAN - timedelta(days=1)


def about(course: Course = Course.RECOVER) -> About:
    return About(BEGAN, BEGAN, course, recovers=True, only_if_wanted=True)


def assessed(
    of: Observed, track: Track = FRESH, course: Course = Course.RECOVER, now: Moment = NOW
) -> Assessment:
    return assess_one(of, track, about(course), POLICY, now)


def request(name: str, seconds: float = 0, user: str = "owner") -> ServerAction:
    return ServerAction(name, BEGAN + timedelta(seconds=seconds), user)


@pytest.mark.parametrize(
    ("of", "state", "pattern"),
    [
        pytest.param(seen(OFF), Crashed, "", id="off"),
        pytest.param(seen(server()), Crashed, "", id="Nova does not show the crash yet"),
        pytest.param(seen(server(status="ERROR")), Crashed, "", id="in ERROR"),
        pytest.param(seen(server(status="PAUSED", paused=True)), Crashed, "", id="stopped"),
        pytest.param(
            seen(server(task_state="powering-off")), Waiting, "busy: powering-off", id="has a task"
        ),
        pytest.param(seen(server(status="REBOOT")), Waiting, "", id="is being rebooted"),
        pytest.param(seen(server(status="MIGRATING")), Waiting, "", id="leaves, no record yet"),
        pytest.param(seen(server(status="VERIFY_RESIZE")), Waiting, "", id="was resized"),
        pytest.param(seen(server(status="SUSPENDED")), Stranded, "SUSPENDED", id="suspended"),
        pytest.param(seen(server(status="MIGRATING"), move()), Moving, "", id="under way"),
        pytest.param(
            seen(None), Unaffected, "has it on another host", id="a stale copy on this host"
        ),
        pytest.param(seen(server(status="SHELVED_OFFLOADED")), Unaffected, "", id="on no host"),
        pytest.param(
            seen(server(recovers=False)), Unaffected, "turns recovery off", id="recovery is off"
        ),
        pytest.param(
            seen(OFF, requests=(request("stop", 1),)),
            Unaffected,
            "by its owner: stop",
            id="stopped",
        ),
        pytest.param(
            seen(OFF, requests=(request("stop", -119),)),
            Unaffected,
            "by its owner: stop",
            id="a deaf guest",
        ),
        pytest.param(
            seen(OFF, requests=(request("stop", -121),)), Crashed, "", id="an older request"
        ),
        pytest.param(
            seen(OFF, requests=(request("stop", 16, user=""),)), Crashed, "", id="Nova's power sync"
        ),
        pytest.param(
            seen(server(), requests=(request("start", 5),)), Unaffected, "runs again", id="started"
        ),
        pytest.param(
            seen(OFF, requests=(request("start", -5),)), Crashed, "", id="crashed after its start"
        ),
        pytest.param(
            seen(OFF, requests=(request("lock", 5),)), Crashed, "", id="no request about that"
        ),
        pytest.param(
            seen(OFF, requests=(request("start", 5),)),
            Crashed,
            "",
            id="started, and off all the same",
        ),
        pytest.param(
            seen(OFF, move("error", created=BEFORE)), Crashed, "", id="did not leave long ago"
        ),
        pytest.param(
            seen(OFF, move("error", created=BEFORE), requests=(request("stop", 1),)),
            Unaffected,
            "by its owner: stop",
            id="did not leave long ago, and was stopped now",
        ),
        pytest.param(
            seen(server(status="MIGRATING"), move(), requests=(request("live-migration", 1),)),
            Moving,
            "",
            id="its owner moves it",
        ),
        pytest.param(seen(None, move("completed")), Departed, "moved to", id="has been moved"),
        pytest.param(
            seen(OFF, known=entry(message="not yet")), Crashed, "not yet", id="waited before"
        ),
    ],
)
@pytest.mark.parametrize("course", [Course.RESTART, Course.RECOVER])
def test_state_before_the_first_restart_follows_from_the_server(
    of: Observed, state: type, pattern: str, course: Course
) -> None:
    found = assessed(of, course=course).state
    assert isinstance(found, state), found
    assert re.search(pattern, found.message), found.message
    assert (
        not isinstance(found, Unaffected) or found.stays is (of.server is not None) or not pattern
    )


ONCE = entry(mode="restart", attempts=1, phase="Restarting")
TWICE = entry(mode="restart", attempts=2, phase="Restarting")
CALLED = Track(Rebooted(), since=NOW.at - 10, not_before=NOW.at - 10)
EARLY = Track(Rebooted(), since=NOW.at - 120, not_before=NOW.at - 120)
JUST = Track(Rebooted(), since=NOW.at - 3, not_before=NOW.at - 3)
REPORTED = Track(Rebooted(), since=NOW.at - 12, not_before=NOW.at - 12)
DONE, OPEN = RestartResult(succeeded=True), RestartResult()
FAILED = RestartResult(failed="no Cinder")
LATE = Track(Rebooted(), since=NOW.at - 121, not_before=NOW.at - 121)


@pytest.mark.parametrize(
    ("of", "track", "state"),
    [
        pytest.param(server(), CALLED, Restarted, id="runs"),
        pytest.param(STARTING, CALLED, Restarting, id="is being started"),
        pytest.param(server(task_state="rebooting_hard"), CALLED, Restarting, id="is rebooted"),
        pytest.param(server(running=False), CALLED, Restarting, id="is active, does not run yet"),
        pytest.param(server(running=False), LATE, Waiting, id="does not run in time"),
        pytest.param(server(running=False), EARLY, Restarting, id="may still run in time"),
        pytest.param(STARTING, LATE, Waiting, id="a start that does not end"),
        pytest.param(OFF, JUST, Waiting, id="is off as soon as that counts"),
        pytest.param(
            server(status="SHUTOFF", task_state="powering-on"), JUST, Restarting, id="has a task"
        ),
        pytest.param(
            OFF, replace(CALLED, not_before=NOW.at + 1), Restarting, id="may be off by an old view"
        ),
        pytest.param(
            server(),
            replace(CALLED, not_before=NOW.at),
            Restarted,
            id="runs once that counts",
        ),
        pytest.param(OFF, CALLED, Waiting, id="is off again"),
        pytest.param(server(status="ERROR"), CALLED, Waiting, id="is in ERROR"),
        pytest.param(
            OFF, replace(CALLED, since=NOW.at - 2), Restarting, id="is still off, just after"
        ),
        pytest.param(server(), FRESH, Restarting, id="another process's: what shows may be old"),
        pytest.param(OFF, FRESH, Restarting, id="another process's: it may be under way"),
        pytest.param(
            server(), replace(CALLED, not_before=NOW.at + 1), Restarting, id="may be old still"
        ),
    ],
)
def test_state_after_a_restart_follows_from_the_server(
    of: Server, track: Track, state: type
) -> None:
    found = assessed(seen(of, known=ONCE, restart=DONE), track).state
    assert isinstance(found, state), found


@pytest.mark.parametrize(
    ("of", "more", "track", "state", "pattern"),
    [
        pytest.param(
            server(), {"restart": DONE}, JUST, Restarted, "^restarted, attempt 1$", id="is recorded"
        ),
        pytest.param(
            server(),
            {"restart": OPEN},
            JUST,
            Restarting,
            "waiting for the result",
            id="no end of it yet",
        ),
        pytest.param(server(), {}, JUST, Restarting, "waiting for the result", id="not read yet"),
        pytest.param(
            server(), {"restart": FAILED}, JUST, Waiting, "attempt 1 .*: no Cinder", id="has failed"
        ),
        pytest.param(
            server(),
            {"restart": FAILED, "revived": True},
            CALLED,
            Waiting,
            "no Cinder",
            id="its agent is late",
        ),
        pytest.param(
            server(),
            {"restart": FAILED},
            replace(JUST, not_before=NOW.at + 1),
            Restarting,
            "",
            id="of an earlier call",
        ),
        pytest.param(
            server(running=False),
            {"restart": FAILED},
            JUST,
            Waiting,
            "no Cinder",
            id="off, and failed",
        ),
        pytest.param(
            server(running=False), {"restart": DONE}, JUST, Restarting, "^$", id="recorded, and off"
        ),
        pytest.param(
            server(), {"restart": OPEN}, LATE, Waiting, "121 s .* no result", id="no end in time"
        ),
        pytest.param(
            server(),
            {"restart": OPEN, "revived": True},
            REPORTED,
            Restarted,
            "agent reports",
            id="its agent has reported",
        ),
        pytest.param(
            server(),
            {"restart": OPEN, "revived": True},
            CALLED,
            Restarting,
            "",
            id="its agent may be late",
        ),
    ],
)
def test_server_that_is_shown_as_running_counts_as_restarted_only_with_a_proof(
    of: Server, more: dict[str, object], track: Track, state: type, pattern: str
) -> None:
    """Nova shows what was before the crash when a reboot fails before anything is done."""
    found = assessed(seen(of, known=ONCE, **more), track).state
    assert isinstance(found, state), found
    assert re.search(pattern, found.message), found.message


def test_restart_that_failed_while_nova_shows_the_instance_running_is_made_again() -> None:
    failed = assessed(seen(server(), known=ONCE, restart=FAILED), JUST)
    assert failed.track.not_before == NOW.at + 10
    due = replace(NOW, at=NOW.at + 10)
    assert isinstance(assessed(seen(server(), known=ONCE), failed.track, now=due).state, Crashed)


def test_instance_whose_restarts_failed_is_moved_cold_though_nova_shows_it_running() -> None:
    found = assessed(seen(server(), known=TWICE, restart=FAILED), JUST)
    assert isinstance(found.state, Ready), found.state
    assert (found.state.mode, found.mode) == ("cold", "cold")
    again = assessed(seen(server(), known=entry_of(found, NOW.now)), found.track)
    assert isinstance(again.state, Ready), again.state
    assert again.state.mode == "cold"


def test_failed_restart_of_the_owner_is_no_proof_that_the_instance_runs() -> None:
    failed = replace(request("start", 5), failed=True)
    assert isinstance(assessed(seen(server(), requests=(failed,))).state, Crashed)
    earlier = request("start", 2)
    assert isinstance(assessed(seen(server(), requests=(failed, earlier))).state, Crashed)
    reboot = replace(request("reboot", 5), failed=True)
    assert isinstance(assessed(seen(server(), requests=(reboot,))).state, Crashed)
    stop = replace(request("stop", 5), failed=True)
    assert isinstance(assessed(seen(server(), requests=(stop,))).state, Unaffected)


def test_unanswered_restart_is_looked_for_before_it_counts_as_not_made() -> None:
    begun = once_accepted(assessed(seen(OFF)), Restart(OFF), POLICY, NOW)
    outcome = Unanswered("no answer")
    (found,) = with_outcomes((begun,), {"a": Restart(OFF)}, {"a": outcome}, POLICY, NOW)
    assert found.track.not_before == NOW.at + 10


@pytest.mark.parametrize(
    ("of", "known", "ids"),
    [
        pytest.param(server(), ONCE, ("a",), id="may be over"),
        pytest.param(server(running=False), ONCE, ("a",), id="may have failed"),
        pytest.param(STARTING, ONCE, (), id="is not over"),
        pytest.param(OFF, ONCE, (), id="is off"),
        pytest.param(server(status="ERROR"), ONCE, (), id="is in ERROR"),
        pytest.param(server(), entry(mode="restart", attempts=1), (), id="waits for the next one"),
        pytest.param(server(), entry(mode="live", phase="Migrating"), (), id="moves"),
        pytest.param(None, ONCE, (), id="is gone"),
    ],
)
def test_results_are_read_of_restarts_that_may_be_over(
    of: Server | None, known: EvictionInstance, ids: tuple[str, ...]
) -> None:
    status = EvictionStatus(instances=(known,))
    here = facts(eviction(status), servers=() if of is None else (of,))
    there = facts(eviction(status), elsewhere={} if of is None else {"a": of})
    assert restarts_to_be_read(here) == restarts_to_be_read(there) == ids


def test_action_of_the_owner_after_a_restart_does_not_make_it_needless() -> None:
    of = seen(server(), known=ONCE, requests=(request("start", 5),), restart=DONE)
    assert isinstance(assessed(of, CALLED).state, Restarted)


def test_restart_of_an_earlier_process_is_judged_when_nova_must_show_it() -> None:
    waiting = assessed(seen(OFF, known=ONCE))
    lag = POLICY.power_lag.total_seconds()
    assert waiting.track.not_before == NOW.at + lag
    later = replace(NOW, at=NOW.at + lag)
    assert isinstance(assessed(seen(OFF, known=ONCE), waiting.track, now=later).state, Waiting)
    done = assessed(seen(server(), known=ONCE, restart=DONE), waiting.track, now=later)
    assert isinstance(done.state, Restarted)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_each_attempt_waits_longer(attempts: int) -> None:
    known = entry(mode="restart", attempts=attempts)
    found = assessed(seen(OFF, known=known), CALLED, Course.RESTART)
    assert isinstance(found.state, Waiting)
    wait = (10, 30, 120)[attempts - 1]
    assert found.track.not_before == NOW.at + wait
    due = replace(NOW, at=NOW.at + wait)
    again = assessed(seen(OFF, known=known), found.track, Course.RESTART, due).state
    assert isinstance(again, Crashed)
    assert "SHUTOFF" in again.message


def test_instance_is_given_up_after_the_last_restart() -> None:
    known = entry(mode="restart", attempts=4)
    found = assessed(seen(OFF, known=known), CALLED, Course.RESTART).state
    assert isinstance(found, Stranded)
    assert "given up after 4 restarts" in found.message


@pytest.mark.parametrize(
    ("of", "mode"),
    [
        pytest.param(server(running=False), "cold", id="Nova shows it as active"),
        pytest.param(OFF, "cold", id="off"),
        pytest.param(server(status="PAUSED", paused=True), "live", id="paused"),
    ],
)
def test_instance_is_moved_after_two_failed_restarts(of: Server, mode: str) -> None:
    found = assessed(seen(of, known=TWICE), LATE)
    assert isinstance(found.state, Ready), found.state
    assert (found.state.mode, found.attempts) == (mode, 0)
    noted = entry_of(found, NOW.now)
    assert noted.mode in {"live", "cold"}, "else it would be restarted again"


@pytest.mark.parametrize(
    ("of", "mode"), [(server(task_state="powering-off"), "live"), (OFF, "cold")]
)
def test_move_after_failed_restarts_is_noted_as_what_it_will_be(of: Server, mode: str) -> None:
    assert assessed(seen(of, known=TWICE), LATE).mode == mode


@pytest.mark.parametrize(
    ("known", "mode"),
    [
        pytest.param(entry(mode="restart", target="there"), "restart", id="restarted where it is"),
        pytest.param(entry(mode="restart"), "live", id="restarted here, and now to leave"),
        pytest.param(entry(mode="live", target="there"), "live", id="moved"),
    ],
)
def test_mode_follows_from_the_entry_once_instances_are_to_leave(
    known: EvictionInstance, mode: str
) -> None:
    assert assessed(seen(server(), known=known), course=Course.LEAVE).mode == mode


DIED = server(status="SHUTOFF", running=False, died=True)


@pytest.mark.parametrize(
    ("of", "ran", "course", "state"),
    [
        pytest.param(DIED, True, Course.LEAVE, Crashed, id="ran, and died since"),
        pytest.param(DIED, None, Course.LEAVE, Ready, id="was off already"),
        pytest.param(OFF, True, Course.LEAVE, Ready, id="a client has ended it"),
        pytest.param(DIED, True, Course.COLD, Ready, id="is to leave as it is"),
        pytest.param(DIED, True, Course.LIVE, Unaffected, id="stays, and its agent starts it"),
        pytest.param(server(), True, Course.LEAVE, Ready, id="runs"),
    ],
)
def test_instance_that_crashes_on_a_drained_host_is_started_before_it_leaves(
    of: Server, ran: bool | None, course: Course, state: type
) -> None:
    only = About(BEGAN, BEGAN, course)
    found = assess_one(seen(of, known=entry(ran=ran)), FRESH, only, POLICY, NOW)
    assert isinstance(found.state, state), found.state


def test_crashed_instance_that_does_not_start_leaves_as_it_is() -> None:
    known = entry(mode="restart", attempts=2, ran=True)
    only = About(BEGAN, BEGAN, Course.LEAVE)
    found = assess_one(seen(DIED, known=known), LATE, only, POLICY, NOW)
    assert isinstance(found.state, Ready), found.state
    assert found.mode == "cold"


def test_crashed_instance_that_did_not_start_before_it_left_is_started_where_it_is() -> None:
    only, over = About(BEGAN, BEGAN, Course.LEAVE), move("confirmed", **COLD)
    there = server(status="SHUTOFF", host="there")
    known = entry(mode="cold", attempts=1, phase="Migrating", ran=True)
    found = assess_one(seen(None, over, known=known, elsewhere=there), FRESH, only, POLICY, NOW)
    assert remedy(found) == Restart(there)
    begun = once_accepted(found, Restart(there), POLICY, NOW)
    noted = entry_of(begun, NOW.now)
    assert (noted.mode, noted.target, noted.ran) == ("restart", "there", True)
    runs = seen(None, over, known=noted, elsewhere=server(host="there"), restart=DONE)
    assert isinstance(assess_one(runs, begun.track, only, POLICY, NOW).state, Restarted)
    failed = entry(mode="restart", attempts=2, target="there", ran=True)
    off = seen(None, over, known=failed, elsewhere=there)
    given_up = assess_one(off, CALLED, only, POLICY, NOW).state
    assert isinstance(given_up, Stranded)
    assert "does not run there after 2 restarts" in given_up.message


def test_instance_that_was_off_is_not_started_where_it_was_moved_to() -> None:
    only, over = About(BEGAN, BEGAN, Course.LEAVE), move("confirmed", **COLD)
    there = server(status="SHUTOFF", host="there")
    known = entry(mode="cold", attempts=1, phase="Migrating")
    of = seen(None, over, known=known, elsewhere=there)
    assert isinstance(assess_one(of, FRESH, only, POLICY, NOW).state, Departed)


def test_request_of_an_owner_delays_no_eviction_that_only_moves() -> None:
    of = seen(OFF, requests=(request("stop", 1),))
    assert isinstance(assess_one(of, FRESH, About(BEGAN, BEGAN), POLICY, NOW).state, Ready)


@pytest.mark.parametrize("course", [Course.COLD, Course.LIVE])
def test_instance_that_crashes_often_is_moved_unless_its_owner_has_stopped_it(
    course: Course,
) -> None:
    up = server(running=False)
    assert isinstance(assessed(seen(up), course=course).state, Ready)
    stopped = assessed(seen(up, requests=(request("stop", 1),)), course=course).state
    assert isinstance(stopped, Unaffected)
    assert stopped.stays


def test_instance_that_is_moved_is_not_restarted_here_again() -> None:
    known = entry(mode="cold", attempts=1)
    failed = move("error", **COLD)
    found = assessed(seen(OFF, failed, known=known))
    assert isinstance(found.state, Waiting)
    assert found.attempts == 1


def test_owner_may_still_stop_an_instance_between_two_attempts() -> None:
    failed = Track(Rebooted("is SHUTOFF"), since=NOW.at, not_before=NOW.at)
    of = seen(OFF, known=ONCE, requests=(request("stop", 30),))
    assert isinstance(assessed(of, failed).state, Unaffected)


@pytest.mark.parametrize("course", [Course.RECOVER, Course.COLD])
def test_crashed_instance_that_was_moved_cold_is_started_where_it_is(course: Course) -> None:
    known = entry(mode="cold", attempts=1, phase="Confirming")
    over, there = move("confirmed", **COLD), server(status="SHUTOFF", host="there")
    found = assessed(seen(None, over, known=known, elsewhere=there), course=course)
    assert isinstance(found.state, Crashed)
    assert remedy(found) == Restart(there)
    begun = once_accepted(found, Restart(there), POLICY, NOW)
    assert (begun.attempts, begun.mode, begun.observed.entry.target) == (1, "restart", "there")
    noted = entry_of(begun, NOW.now)
    runs = seen(None, over, known=noted, elsewhere=server(host="there"), restart=DONE)
    assert isinstance(assessed(runs, begun.track, course).state, Restarted)
    off = seen(None, over, known=entry(mode="restart", attempts=2, target="there"), elsewhere=there)
    given_up = assessed(off, CALLED).state
    assert isinstance(given_up, Stranded)
    assert "does not run there after 2 restarts" in given_up.message


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(server(host="there"), id="it runs"),
        pytest.param(None, id="it is gone"),
        pytest.param(server(status="SHUTOFF", host="there", task_state="deleting"), id="a task"),
        pytest.param(server(running=False, host="there"), id="it starts"),
    ],
)
def test_instance_that_was_moved_and_runs_is_done(there: Server | None) -> None:
    known = entry(mode="cold", attempts=1, phase="Confirming")
    found = assessed(seen(None, move("confirmed", **COLD), known=known, elsewhere=there))
    assert isinstance(found.state, Departed)


def test_moved_instance_that_its_owner_stops_stays_off() -> None:
    known = entry(mode="cold", attempts=1, phase="Confirming")
    there = server(status="SHUTOFF", host="there")
    over, stop = move("confirmed", **COLD), (request("stop", 60),)
    found = assessed(seen(None, over, known=known, elsewhere=there, requests=stop))
    assert isinstance(found.state, Departed)


def test_cold_move_of_a_crashed_instance_is_confirmed_first() -> None:
    known = entry(mode="cold", attempts=1, phase="Migrating")
    found = assessed(seen(None, move("finished", **COLD), known=known))
    assert isinstance(found.state, Arrived)


@pytest.mark.parametrize(
    ("outcome", "state", "attempts"),
    [
        pytest.param(Accepted(), Restarting, 1, id="accepted"),
        pytest.param(Unanswered("no answer"), Restarting, 1, id="not known"),
        pytest.param(Refused("no"), Waiting, 1, id="refused"),
        pytest.param(Outdated("busy"), Waiting, 1, id="outdated"),
    ],
)
def test_outcome_of_the_restart_call_decides_the_state(
    outcome: CallOutcome, state: type, attempts: int
) -> None:
    begun = once_accepted(assessed(seen(OFF)), Restart(OFF), POLICY, NOW)
    (found,) = with_outcomes((begun,), {"a": Restart(OFF)}, {"a": outcome}, POLICY, NOW)
    assert isinstance(found.state, state)
    assert (found.attempts, found.mode) == (attempts, "restart")
    if state is Waiting:
        assert found.track.follows == Rebooted(found.state.message)
        assert found.track.not_before == NOW.at + 10


@pytest.mark.parametrize("course", [Course.RESTART, Course.RECOVER])
@pytest.mark.parametrize(
    ("known", "track", "expected"),
    [
        pytest.param(entry(), FRESH, 50, id="never tried: every ten seconds"),
        pytest.param(ONCE, LATE, 17, id="tried once: ten seconds later, then every thirty"),
    ],
)
def test_instance_that_may_run_elsewhere_waits_until_that_is_known(
    known: EvictionInstance, track: Track, expected: int, course: Course
) -> None:
    """All hosts were off, and come back one by one: nothing is given up for one that is silent."""
    now, calls = NOW, 0
    for _ in range(100):
        found = assessed(seen(OFF, known=known), track, course, now)
        if isinstance(found.state, Crashed):
            begun = once_accepted(found, Restart(OFF), POLICY, now)
            outcome = NotYet("host b is silent")
            (found,) = with_outcomes((begun,), {"a": Restart(OFF)}, {"a": outcome}, POLICY, now)
            calls += 1
        assert isinstance(found.state, Waiting), found.state
        assert found.attempts == (known.attempts or 0)
        known, track = entry_of(found, now.now), found.track
        now = replace(now, at=now.at + 5, now=now.now + timedelta(seconds=5))
    assert calls == expected
    assert known.message == "host b is silent"


def test_each_accepted_restart_counts_as_an_attempt() -> None:
    again = once_accepted(
        replace(assessed(seen(OFF, known=ONCE), CALLED), attempts=1), Restart(OFF), POLICY, NOW
    )
    assert again.attempts == 2


@pytest.mark.parametrize(
    ("known", "state"),
    [
        pytest.param(entry(phase="Succeeded", mode="restart", attempts=1), Restarted, id="runs"),
        pytest.param(entry(phase="Skipped", message="planned"), Unaffected, id="skipped"),
    ],
)
def test_instance_that_is_done_is_not_restarted_again(known: EvictionInstance, state: type) -> None:
    status = EvictionStatus(instances=(known,))
    of = facts(
        eviction(status, trigger="InstanceCrash", instances=("a",)),
        hypervisor=hypervisor(),
        host=Host("here", "h", "s", enabled=True),
        servers=(OFF,),
    )
    (found,) = assess(situation(of), {})
    assert isinstance(found.state, state)
    assert found.attempts == (known.attempts or 0)
    assert not isinstance(found.state, Unaffected) or found.state.stays


FIRST = BEGAN - timedelta(seconds=30)


EARLIER = BEGAN - timedelta(hours=9)


@pytest.mark.parametrize(
    ("labels", "since", "of", "at"),
    [
        pytest.param({LABEL: "i1"}, None, "i1", FIRST, id="the incident's"),
        pytest.param({LABEL: "i1"}, None, "i2", BEGAN, id="another incident"),
        pytest.param({}, None, "i1", BEGAN, id="made by hand"),
        pytest.param({LABEL: "i1"}, "no time", "i1", FIRST, id="an annotation that is no time"),
    ],
)
def test_time_of_a_crash_is_that_of_its_incident(
    labels: dict[str, str], since: str | None, of: str, at: datetime
) -> None:
    incident = Incident(id=of, type="Crash", severity="Critical", firstSeen=FIRST)
    made = eviction()
    annotations = {SINCE: since} if since else {}
    labelled = Eviction(
        metadata=type(made.metadata)(
            name="x", labels=labels, annotations=annotations, creationTimestamp=BEGAN
        ),
        spec=made.spec,
    )
    host = Hypervisor(
        metadata=made.metadata,
        spec=hypervisor().spec,
        status=HypervisorStatus(incidents=(incident,)),
    )
    assert incident_of(labelled, host) == at
    assert incident_of(labelled, None) == BEGAN


@pytest.mark.parametrize("of", ["i1", "i2"], ids=["in the status", "not there any more"])
def test_time_of_a_crash_is_in_the_annotation_of_its_eviction(of: str) -> None:
    """The incident was held back for hours, for example, and the status is full of others."""
    incident = Incident(id=of, type="Crash", severity="Critical", firstSeen=FIRST)
    made = eviction()
    meta = type(made.metadata)(
        name="x",
        labels={LABEL: "i1"},
        annotations={SINCE: format_time(EARLIER)},
        creationTimestamp=BEGAN,
    )
    host = Hypervisor(
        metadata=made.metadata,
        spec=hypervisor().spec,
        status=HypervisorStatus(incidents=(incident,)),
    )
    assert incident_of(Eviction(metadata=meta, spec=made.spec), host) == EARLIER


@pytest.mark.parametrize("wanted", [True, None])
def test_instance_without_a_recovery_setting_is_recovered(wanted: bool | None) -> None:
    assert isinstance(assessed(seen(server(status="SHUTOFF", recovers=wanted))).state, Crashed)


def test_person_overrules_an_owner_s_recovery_setting() -> None:
    of = seen(server(status="SHUTOFF", recovers=False))
    by_hand = replace(about(Course.RESTART), only_if_wanted=False)
    assert isinstance(assess_one(of, FRESH, by_hand, POLICY, NOW).state, Crashed)


def test_restarted_instance_that_has_left_is_followed() -> None:
    gone = seen(None, move("completed"), known=ONCE)
    assert isinstance(assessed(gone, CALLED).state, Departed)
    moved = seen(None, known=ONCE, elsewhere=server(host="there"))
    assert isinstance(assessed(moved, CALLED).state, Departed)


def test_requests_of_owners_are_named_with_their_time() -> None:
    within = timedelta(minutes=2)
    assert planned([request("lock", 9), request("stop", 5)], BEGAN, within) == "stop at 00:00:05Z"
    assert planned([request("stop", -120)], BEGAN, within)
    assert not planned([request("start", 5)], BEGAN, within)
    assert started([request("start", 0)], BEGAN) == "start at 00:00:00Z"
    assert not started([request("start", -1), request("start", 1, user="")], BEGAN)


RECOVERS = {"trigger": "InstanceCrash", "instances": ("a",)}
COLDLY = {**RECOVERS, "mode": "cold"}


@pytest.mark.parametrize(
    ("spec", "known", "there", "ids"),
    [
        pytest.param(RECOVERS, (), (OFF,), ("a",), id="before the first restart"),
        pytest.param(RECOVERS, (ONCE,), (OFF,), ("a",), id="before the next one"),
        pytest.param({"mode": "restart"}, (), (OFF, server("b")), ("a", "b"), id="all of a host"),
        pytest.param(RECOVERS, (), (server("b"),), (), id="others are not named"),
        pytest.param(RECOVERS, (), (STARTING,), (), id="has a task"),
        pytest.param(RECOVERS, (entry(mode="cold"),), (OFF,), ("a",), id="before it is moved"),
        pytest.param(COLDLY, (), (OFF,), ("a",), id="moved after crashes"),
        pytest.param(RECOVERS, (entry(phase="Skipped"),), (OFF,), (), id="is over"),
        pytest.param(RECOVERS, (entry(mode="cold"),), (), ("a",), id="has been moved"),
        pytest.param({}, (), (OFF,), (), id="nothing is restarted"),
    ],
)
def test_requests_are_read_of_instances_that_may_be_restarted(
    spec: dict[str, object],
    known: tuple[EvictionInstance, ...],
    there: tuple[object, ...],
    ids: tuple[str, ...],
) -> None:
    of = facts(eviction(EvictionStatus(instances=known), **spec), servers=there)
    assert requests_to_be_read(situation(of)) == ids


@pytest.mark.parametrize(
    ("spec", "known", "ids"),
    [
        pytest.param({}, entry(mode="evacuate", phase="Evacuating"), ("a",), id="evacuated"),
        pytest.param({}, entry(mode="evacuate", phase="Succeeded"), (), id="and seen there"),
        pytest.param({}, entry(mode="live", phase="Migrating"), (), id="moved live"),
        pytest.param({}, entry(mode="cold", phase="Migrating"), (), id="moved cold, as it was"),
        pytest.param(
            {},
            entry(mode="cold", phase="Migrating", ran=True),
            ("a",),
            id="it ran, and did not start before it was moved",
        ),
        pytest.param(RECOVERS, entry(mode="cold", phase="Migrating"), ("a",), id="it had crashed"),
        pytest.param(COLDLY, entry(mode="cold", phase="Migrating"), ("a",), id="it crashed often"),
        pytest.param(RECOVERS, entry(mode="restart", target="x"), ("a",), id="restarted there"),
        pytest.param({}, entry("b"), ("b",), id="evacuated by a process that died"),
        pytest.param({}, entry("d", mode="evacuate"), (), id="its evacuation is under way"),
        pytest.param({}, entry("c", mode="evacuate"), (), id="is here"),
        pytest.param({}, entry("e", mode="live", phase="Migrating"), (), id="its move ended well"),
        pytest.param({}, entry("f", mode="live", phase="Migrating"), ("f",), id="its move failed"),
        pytest.param({}, entry("f", mode="live", phase="Failed"), ("f",), id="in ERROR there"),
        pytest.param({}, entry("f", mode="live", phase="Succeeded"), (), id="seen to be well"),
        pytest.param(
            {}, entry("g", mode="live", phase="Migrating"), ("g",), id="its record has no end"
        ),
        pytest.param(
            {}, entry("h", mode="live", phase="Migrating"), (), id="its record is still written"
        ),
        pytest.param(
            {}, entry("b", mode="evacuate", phase="Failed"), ("b",), id="in ERROR, evacuated"
        ),
    ],
)
def test_instances_that_may_run_elsewhere_are_looked_up_on_other_hosts(
    spec: dict[str, object], known: EvictionInstance, ids: tuple[str, ...]
) -> None:
    of = facts(
        eviction(EvictionStatus(instances=(known,)), **spec),
        servers=(server("c"),),
        moves=(
            move("done", "b", kind="evacuation"),
            move("pre-migrating", "d", kind="evacuation"),
            move("completed", "e"),
            move("error", "f"),
            move("running", "g", updated=NOW.now - POLICY.stall * 2),
            move("running", "h", updated=NOW.now),
        ),
    )
    assert to_be_verified(situation(of)) == ids
