"""The state of an instance whose host is proven dead."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.eviction.made import (
    AGES_AGO,
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

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host, Move, ServerAction
from hypercobalt.operator.eviction.assess import assess, assess_one
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW, About
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.witnesses import sighting
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Departed,
    Evacuating,
    Mode,
    Observed,
    Ready,
    Sighting,
    Stranded,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Begun, Blocking, Recorded, Track

JUST_NOW = {"updated": NOW.now - timedelta(seconds=1)}
ABOUT = About(BEGAN, BEGAN, Course.EVACUATE, only_if_wanted=True)
THERE = server(host="there")


STOP = ServerAction("stop", NOW.now, user="u", project="p")
SYNC = ServerAction("stop", NOW.now)


@pytest.mark.parametrize(
    ("requests", "died"),
    [
        pytest.param((), True, id="of which nothing was requested"),
        pytest.param((SYNC,), True, id="that Nova has stopped"),
        pytest.param((STOP,), False, id="whose owner has stopped it"),
    ],
)
def test_instance_that_has_died_is_started_elsewhere_unless_its_owner_stopped_it(
    requests: tuple[ServerAction, ...], died: bool
) -> None:
    off = server(status="SHUTOFF", died=True)
    found = assessed(replace(seen(off), requests=requests))
    assert isinstance(found.state, Ready)
    assert found.server == replace(off, died=died)


def evacuation(status: str = "pre-migrating", **fields: object) -> Move:
    return move(status, kind="evacuation", **fields)


def assessed(of: Observed, track: Track = FRESH) -> Assessment:
    return assess_one(of, track, ABOUT, POLICY, NOW)


RAN = entry(ran=True)
OFF_THERE = server(host="x", status="SHUTOFF")
REBUILDS = server(status="REBUILD", task_state="rebuild_spawning")


@pytest.mark.parametrize(
    ("of", "state", "pattern"),
    [
        pytest.param(seen(server()), Ready, "", id="ran"),
        pytest.param(seen(server(status="SHUTOFF")), Ready, "", id="was off"),
        pytest.param(seen(server(status="ERROR")), Ready, "", id="was in ERROR"),
        pytest.param(seen(server(status="PAUSED", paused=True)), Ready, "", id="was paused"),
        pytest.param(
            seen(server(task_state="powering-off")), Ready, "", id="something was done to it"
        ),
        pytest.param(seen(server(status="HARD_REBOOT")), Ready, "", id="was being rebooted"),
        pytest.param(seen(server(task_state="deleting")), Waiting, "deleted", id="is deleted"),
        pytest.param(
            seen(server(status="BUILD")), Stranded, "was BUILD when", id="was being built"
        ),
        pytest.param(seen(server(status="SUSPENDED")), Stranded, "was SUSPENDED", id="suspended"),
        pytest.param(seen(server(status="VERIFY_RESIZE")), Stranded, "reset", id="was resized"),
        pytest.param(seen(server(status="SHELVED_OFFLOADED")), Unaffected, "", id="on no host"),
        pytest.param(
            seen(server(waits_for_host="its disk is on it")),
            Stranded,
            "waits for its host: its disk is on it; start here again",
            id="its data are there alone",
        ),
        pytest.param(
            seen(server(recovers=False)), Unaffected, "turns recovery off", id="recovery is off"
        ),
        pytest.param(seen(REBUILDS), Evacuating, "", id="accepted, no record yet"),
        pytest.param(seen(REBUILDS, evacuation()), Evacuating, "pre-migrating", id="under way"),
        pytest.param(
            seen(REBUILDS, evacuation(updated=BEGAN)),
            Evacuating,
            "pre-migrating",
            id="under way for long: images are copied",
        ),
        pytest.param(
            seen(server(status="ERROR"), evacuation("failed")), Waiting, "failed", id="failed"
        ),
        pytest.param(
            seen(server(status="ERROR"), *(evacuation("error", id=str(n)) for n in range(11))),
            Waiting,
            "evacuation to there: error",
            id="failed often: a lock of its disk, or a full target, may last some minutes",
        ),
        pytest.param(
            seen(server(status="ERROR"), *(evacuation("error", id=str(n)) for n in range(12))),
            Stranded,
            "evacuation to there: error; .*given up after 12",
            id="failed too often",
        ),
        pytest.param(
            seen(server(), *(move("error", id=str(n)) for n in range(3))),
            Ready,
            "",
            id="live moves that failed while the host died are no attempts",
        ),
        pytest.param(
            seen(server(), known=entry(attempts=3, mode="live", message="no")),
            Ready,
            "",
            id="nor are refused ones",
        ),
        pytest.param(
            seen(server(), known=entry(attempts=12, mode="evacuate", message="no host")),
            Stranded,
            "no host; given up after 12",
            id="refused too often",
        ),
        pytest.param(seen(None), Departed, "left the host", id="gone"),
        pytest.param(seen(None, evacuation()), Evacuating, "arrives on there", id="arrives"),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=THERE),
            Departed,
            "^evacuated to there$",
            id="runs on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(host="x", status="SHUTOFF")),
            Departed,
            "SHUTOFF there: it did not run",
            id="is off on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), known=RAN, elsewhere=OFF_THERE),
            Evacuating,
            "^was evacuated to x and is SHUTOFF there although it ran$",
            id="ran, and is off on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), known=RAN, elsewhere=OFF_THERE, requests=(STOP,)),
            Departed,
            "stopped there by its owner",
            id="ran, and its owner has stopped it on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), known=RAN, elsewhere=OFF_THERE, requests=(SYNC, STOP)),
            Evacuating,
            "although it ran$",
            id="ran, and Nova itself has stopped it on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(host="x", running=False)),
            Evacuating,
            "starts on x",
            id="starts on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(host="x", task_state="powering-on")),
            Evacuating,
            "powering-on",
            id="is started on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(host="here")),
            Evacuating,
            "arrives on there",
            id="its host differs from one answer to the next",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(status="ERROR", host="x", fault="no")),
            Stranded,
            "ERROR there: no",
            id="is in ERROR on another host",
        ),
        pytest.param(
            seen(None, evacuation("done"), sought=True),
            Departed,
            "deleted after",
            id="deleted meanwhile",
        ),
        pytest.param(
            seen(None, evacuation("done")), Evacuating, "arrives on", id="not looked for yet"
        ),
        pytest.param(
            seen(None, evacuation("done", created=BEGAN - CLOCK_SKEW), elsewhere=THERE),
            Departed,
            "^evacuated to there$",
            id="evacuated by an Eviction whose clock is ahead",
        ),
        pytest.param(
            seen(None, evacuation("done"), elsewhere=server(status="ERROR", host="x")),
            Stranded,
            "ERROR there: the compute service gives no reason",
            id="is in ERROR on another host, and Nova gives no reason",
        ),
        pytest.param(
            seen(server(status="BUILD"), move(), sightings={"there": Sighting.RUNS}),
            Stranded,
            "was BUILD when",
            id="was built, whatever runs elsewhere",
        ),
        pytest.param(
            seen(None, evacuation("done", created=AGES_AGO), elsewhere=THERE),
            Departed,
            "left the host",
            id="an evacuation of long ago",
        ),
        pytest.param(
            seen(None, move("completed")), Departed, "moved to there", id="moved before that"
        ),
    ],
)
def test_state_of_an_evacuation_follows_from_nova_and_libvirt(
    of: Observed, state: type, pattern: str
) -> None:
    found = assessed(of).state
    assert isinstance(found, state), found
    assert re.search(pattern, found.message), found.message
    if isinstance(found, Ready):
        assert found.mode is Mode.EVACUATE


def test_instance_with_recovery_off_stays_unless_a_person_requests_it() -> None:
    of = seen(server(recovers=False))
    left = assessed(of).state
    assert isinstance(left, Unaffected)
    assert left.stays
    by_hand = replace(ABOUT, only_if_wanted=False)
    assert isinstance(assess_one(of, FRESH, by_hand, POLICY, NOW).state, Ready)


def test_instance_that_is_down_where_it_was_evacuated_to_is_given_up_by_name() -> None:
    of = seen(None, evacuation("done"), known=RAN, elsewhere=OFF_THERE)
    waits = assessed(of)
    longer = replace(NOW, at=NOW.at + POLICY.patience.total_seconds() + 1)
    found = assess_one(of, waits.track, ABOUT, POLICY, longer).state
    assert isinstance(found, Stranded)
    assert found.message == "was evacuated to x and is SHUTOFF there although it ran: start it"


@pytest.mark.parametrize(("died", "state"), [(False, Departed), (True, Evacuating)])
def test_libvirt_shows_whether_what_was_evacuated_was_ended_by_its_owner(
    died: bool, state: type
) -> None:
    of = seen(None, evacuation("done"), known=RAN, elsewhere=replace(OFF_THERE, died=died))
    direct = replace(ABOUT, keeps_servers=False)
    assert isinstance(assess_one(of, FRESH, direct, POLICY, NOW).state, state)


@pytest.mark.parametrize(
    ("name", "died"),
    [("stop", False), ("pause", False), ("reboot", True), ("live-migration", True)],
)
def test_owner_who_has_rebooted_or_moved_an_instance_wants_it_to_run(name: str, died: bool) -> None:
    """The instance crashed after that, and its host died before it was restarted."""
    off = server(status="SHUTOFF", died=True)
    requests = (ServerAction(name, NOW.now, user="u", project="p"),)
    found = assessed(replace(seen(off), requests=requests))
    assert found.server == replace(off, died=died)


@pytest.mark.parametrize(
    ("status", "runs"), [("ACTIVE", False), ("REBUILD", True)], ids=["starts there", "is rebuilt"]
)
def test_evacuation_that_does_not_arrive_is_given_up(status: str, runs: bool) -> None:
    there = server(host="x", running=runs, status=status, task_state="" if not runs else "rebuild")
    of = seen(None, evacuation("done"), elsewhere=there)
    text = "starts on x" if not runs else "rebuild"
    since = NOW.at - POLICY.patience.total_seconds()
    assert isinstance(assessed(of, Track(Blocking(text), since=since)).state, Evacuating)
    assert isinstance(assessed(of, Track(Blocking(text), since=since - 1)).state, Stranded)


@pytest.mark.parametrize(
    ("record", "sighted", "starts"),
    [
        pytest.param(move("running"), Sighting.ABSENT, True, id="its target does not run it"),
        pytest.param(move("running"), Sighting.RUNS, False, id="its target runs it"),
        pytest.param(move("running"), None, False, id="its target is silent"),
        pytest.param(
            move("running"), Sighting.SILENT, False, id="its target has stopped to report"
        ),
        pytest.param(move("running", created=AGES_AGO), None, False, id="a move of another client"),
        pytest.param(move("queued"), None, True, id="nothing had begun"),
        pytest.param(move("queued"), Sighting.RUNS, False, id="its target runs it all the same"),
        pytest.param(move("running", target=""), None, True, id="no target was chosen"),
        pytest.param(move("error"), None, True, id="its move had failed"),
        pytest.param(
            move("error"), Sighting.RUNS, False, id="a failed move, yet its target runs it"
        ),
        pytest.param(
            move("error"), Sighting.RAN, False, id="a failed move, yet its target ran it last"
        ),
        pytest.param(
            move("running"), Sighting.RAN, False, id="its target ran it before it fell silent"
        ),
        pytest.param(
            move("error", created=AGES_AGO), Sighting.RUNS, True, id="a move of long ago is over"
        ),
        pytest.param(
            evacuation("failed"), Sighting.RUNS, False, id="a failed evacuation left a copy"
        ),
        pytest.param(
            move("running", **JUST_NOW), Sighting.ABSENT, True, id="its target is sure at once"
        ),
        pytest.param(
            move("running", created=BEGAN), Sighting.RUNS, False, id="begun with the Eviction"
        ),
        pytest.param(
            move("error", created=BEGAN), Sighting.RUNS, False, id="begun with it, and failed"
        ),
        pytest.param(
            move("running", kind="migration"), Sighting.ABSENT, True, id="a cold move is quiet"
        ),
        pytest.param(
            move("running", kind="migration", **JUST_NOW),
            Sighting.ABSENT,
            False,
            id="a cold move is still written to",
        ),
        pytest.param(
            move("running", kind="migration", updated=NOW.now - POLICY.stall),
            Sighting.ABSENT,
            False,
            id="a cold move is not quiet for long enough",
        ),
    ],
)
@pytest.mark.parametrize("status", ["ACTIVE", "MIGRATING"])
def test_migrating_instance_is_started_only_where_no_other_host_has_it(
    record: Move, sighted: Sighting | None, starts: bool, status: str
) -> None:
    sightings = {} if sighted is None else {"there": sighted}
    task = "migrating" if status == "MIGRATING" else ""
    of = seen(server(status=status, task_state=task), record, sightings=sightings)
    due = Track(not_before=0.0)
    found = assessed(of, due).state
    if isinstance(found, Waiting) and record.ended:  # of the last attempt's failure
        later = replace(NOW, at=NOW.at + 100)
        found = assess_one(of, assessed(of).track, ABOUT, POLICY, later).state
    assert isinstance(found, Ready if starts else Waiting), found
    if not starts:
        assert "there" in found.message
        since = NOW.at - POLICY.patience.total_seconds() - 1
        given_up = assessed(of, Track(Blocking(found.message), since=since)).state
        assert isinstance(given_up, Stranded)


@pytest.mark.parametrize(
    ("host", "sighted"),
    [
        pytest.param({"agent": "True", "runs": ("a",)}, Sighting.RUNS, id="it runs there"),
        pytest.param({"agent": "True", "off": ("a",)}, Sighting.ABSENT, id="it is off there"),
        pytest.param({"agent": "True", "runs": ("b",)}, Sighting.ABSENT, id="another runs there"),
        pytest.param({"agent": "True", "runs": ("b", "a")}, Sighting.RUNS, id="both run there"),
        pytest.param({"agent": "False"}, Sighting.SILENT, id="its agent is silent"),
        pytest.param({"agent": "Unknown", "runs": ("a",)}, Sighting.RAN, id="it has no Lease"),
        pytest.param({"agent": "False", "runs": ("a",)}, Sighting.RAN, id="it ran there last"),
        pytest.param(
            {"agent": "True", "libvirt": "False", "off": ("b",)},
            Sighting.SILENT,
            id="its libvirt is away: what has come since is not listed",
        ),
        pytest.param(
            {"agent": "True", "libvirt": "False", "runs": ("a",)},
            Sighting.RAN,
            id="its libvirt is away: it ran there last",
        ),
        pytest.param(
            {"agent": "True", "libvirt": ""}, Sighting.SILENT, id="its libvirt was never read"
        ),
        pytest.param(
            {"agent": "False", "runs": ("a",), "phase": "Fenced"}, Sighting.DEAD, id="dead"
        ),
    ],
)
def test_sighting_follows_from_the_report_of_an_agent(
    host: dict[str, object], sighted: Sighting
) -> None:
    assert sighting("a", neighbour(**host)) is sighted  # type: ignore[arg-type]


def neighbour(
    agent: str,
    runs: tuple[str, ...] = (),
    off: tuple[str, ...] = (),
    phase: str = "",
    libvirt: str = "True",
) -> Hypervisor:
    conditions = set_condition((), "AgentReporting", agent, "Reporting", "", now=BEGAN)
    if libvirt:
        type_ = "LibVirtConnection"
        conditions = set_condition(conditions, type_, libvirt, "Connected", "", now=BEGAN)
    instances = tuple(Instance(id=id_, name=id_, active=id_ in runs) for id_ in (*runs, *off))
    known = hypervisor(phase).status
    made = Hypervisor(
        metadata=ObjectMeta(name="there"),
        spec=hypervisor().spec,
        status=HypervisorStatus(
            conditions=conditions, instances=instances, bootID="1", fencing=known.fencing
        ),
    )
    return recorded(made)


def test_targets_of_its_moves_are_looked_at() -> None:
    of = facts(
        eviction(EvictionStatus()),
        hypervisor=hypervisor("Fenced"),
        host=Host("here", "h", "s", enabled=False, up=False),
        servers=(server(),),
        moves=(move(),),
        neighbours={"there": neighbour("True", runs=("a",)), "else": neighbour("True")},
    )
    (found,) = assess(situation(of), {})
    assert isinstance(found.state, Waiting)
    assert found.observed.sightings == {"there": Sighting.RUNS}


def test_call_is_not_repeated_before_it_had_time_to_show() -> None:
    just_now = Track(Begun(""), since=995.0, not_before=1005.0)
    assert isinstance(assessed(seen(server()), just_now).state, Evacuating)
    assert isinstance(assessed(seen(server()), replace(just_now, not_before=NOW.at)).state, Ready)


@pytest.mark.parametrize(("still", "state"), [(600, Evacuating), (601, Stranded)])
def test_an_evacuation_without_a_change_is_given_up(still: float, state: type) -> None:
    track = Track(Recorded("1", "pre-migrating"), since=NOW.at - still)
    found = assessed(seen(REBUILDS, evacuation(total=0, remaining=0)), track).state
    assert isinstance(found, state), found


def test_another_target_is_tried_after_a_failure() -> None:
    failed = seen(server(status="ERROR"), evacuation("failed", target="x"))
    later = replace(NOW, at=NOW.at + 60)
    found = assess_one(failed, assessed(failed).track, ABOUT, POLICY, later).state
    assert isinstance(found, Ready)
    assert found.avoid == {"x"}


DEAD = {"there": Sighting.DEAD}


@pytest.mark.parametrize(
    "status", ["accepted", "pre-migrating", "running"], ids=["chosen", "prepares", "rebuilds"]
)
def test_evacuation_whose_target_has_died_is_begun_again(status: str) -> None:
    """Nova shows the server as being rebuilt for ever; no other component ends that."""
    record = evacuation(status, updated=BEGAN)
    alive = assessed(seen(REBUILDS, record, sightings={"there": Sighting.ABSENT}))
    assert isinstance(alive.state, Evacuating)
    found = assessed(seen(REBUILDS, record, sightings=DEAD))
    assert found.state == Ready(Mode.EVACUATE, interrupted=True)
    assert found.attempts == 1, "it was one"


def test_evacuation_that_was_begun_again_is_followed_by_its_new_record() -> None:
    lost = evacuation("running")
    sent = Track(Begun(lost.id), since=NOW.at, not_before=NOW.at + 10)
    assert isinstance(assessed(seen(REBUILDS, lost, sightings=DEAD), sent).state, Evacuating)
    new = evacuation("pre-migrating", id="2", target="third")
    found = assessed(seen(REBUILDS, new, lost, sightings=DEAD), sent)
    assert found.state == Evacuating("pre-migrating")


def test_evacuation_whose_targets_die_one_after_the_other_is_given_up() -> None:
    lost = [evacuation("running", id=str(n)) for n in range(12)]
    found = assessed(seen(REBUILDS, *lost, sightings=DEAD)).state
    assert isinstance(found, Stranded)
    assert "given up after 12 attempts" in found.message


def test_evacuation_to_a_dead_target_that_nova_shows_in_error_begins_again() -> None:
    of = server(status="ERROR")
    found = assessed(seen(of, evacuation("running"), sightings=DEAD)).state
    assert isinstance(found, Ready)
    assert not found.interrupted


@pytest.mark.parametrize(
    ("waited", "begins"), [(0, False), (150, False), (150.1, True), (601, True)], ids=str
)
def test_rebuild_that_an_owner_requested_has_ended_with_its_host(
    waited: float, *, begins: bool
) -> None:
    """The record of an evacuation may come late: it is waited for a while."""
    track = Track(Blocking(""), since=NOW.at - waited)
    found = assessed(seen(REBUILDS), track).state
    assert isinstance(found, Ready if begins else Evacuating)
    assert not isinstance(found, Ready) or found.interrupted


def test_interrupted_rebuild_waits_while_the_instance_may_run_elsewhere() -> None:
    track = Track(Blocking(""), since=NOW.at - 151)
    of = seen(REBUILDS, move("running"), sightings={"there": Sighting.RUNS})
    found = assessed(of, track).state
    assert isinstance(found, Waiting)
    assert found.message.startswith("runs on there")


def test_absence_from_a_list_that_was_cut_is_no_sighting() -> None:
    host = neighbour("True", runs=("b",))
    cut = with_fields(host, status=with_fields(host.status, numInstances=2))
    assert sighting("a", cut) is Sighting.SILENT
    assert sighting("b", cut) is Sighting.RUNS
