"""Limits of recoveries: how often, how many at once, and when one is given up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NODE, NOON, PLENTY, U1, Story, uuid

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction
from hypercobalt.ha.incidents.cases import (
    MOST_TIMES,
    Case,
    InstanceRecord,
    State,
    Step,
    eviction_name,
)
from hypercobalt.ha.incidents.config import HaConfig, ManyCrashes, RecoveryLimits, Span, Thresholds
from hypercobalt.ha.incidents.escalation import (
    FOLLOW,
    AvailableMemory,
    EscalationPlan,
    exhausted,
    failed,
    plan,
    postponed,
    recovering,
)
from hypercobalt.ha.incidents.signals import HOST, Kind
from hypercobalt.ha.incidents.verdict import PROBE_AGAIN, SHORTLY


def crashed(story: Story, *who: str) -> None:
    for one in who or (U1,):
        story.see(Kind.STOPPED_FAILED, who=one)


def test_the_second_recovery_waits_ten_seconds_and_the_third_thirty() -> None:
    story = Story()
    waits = []
    for _ in range(3):
        story.run()
        crashed(story)
        recovered = (second for second in range(1, 60) if story.plan(after=1).recoveries)
        waits.append(next(recovered, None))
    assert waits == [1, 10, 30]


def test_instance_is_given_up_after_three_recoveries_in_an_hour() -> None:
    story = Story()
    for _ in range(3):
        story.run()
        crashed(story)
        story.plan(after=200)
    story.run()
    crashed(story)
    assert story.plan(after=200).recoveries == ()
    case = story.only()
    assert (case.type, case.reaction) == (IncidentType.RECOVERY_EXHAUSTED, Reaction.REPORT)
    assert "3 recoveries within an hour" in case.evidence[-1]


def test_instance_given_up_is_recovered_when_it_crashes_again_within_the_limits() -> None:
    story = Story()
    for _ in range(3):
        story.run()
        crashed(story)
        story.plan(after=200)
    story.run()
    story.see(Kind.WATCHDOG, action="none")
    assert story.plan(after=200).recoveries == ()
    given_up = story.only()
    story.see(Kind.WATCHDOG, action="none")
    assert story.plan(after=200).recoveries == ()
    assert story.cases() == [IncidentType.RECOVERY_EXHAUSTED]
    story.pass_(3600)
    story.see(Kind.WATCHDOG, action="none")
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, story.only().type) == ("Watchdog", IncidentType.WATCHDOG)
    assert story.only().id == given_up.id


def test_incident_given_up_is_probed_when_it_happens_again() -> None:
    story = Story()
    for _ in range(3):
        story.run()
        crashed(story)
        story.plan(after=200)
    story.run()
    story.see(Kind.WATCHDOG, action="none")
    assert story.plan(after=200).recoveries == ()
    assert story.only().type is IncidentType.RECOVERY_EXHAUSTED
    story.pass_(3600)
    story.see(Kind.WATCHDOG, action="reset")
    again = story.only()
    assert (again.type, again.step) == (IncidentType.WATCHDOG, Step.PROBE)
    assert again.shown


def test_reboots_of_its_host_are_not_held_against_an_instance() -> None:
    story = Story()
    for _ in range(8):
        story.run()
        story.see(Kind.ENDED_BY_BOOT)
        (recovery,) = story.plan(after=200).recoveries
        assert recovery.instances == (U1,)
    story.run()
    crashed(story)
    assert story.plan(after=200).recoveries  # none of its own before


def test_instance_is_given_up_after_five_recoveries_in_a_day() -> None:
    story, made = Story(), 0
    for _ in range(8):
        story.run()
        crashed(story)
        made += len(story.plan(after=2 * 3600).recoveries)
    assert made == 5


def test_three_of_nine_that_crash_together_are_one_incident_and_one_eviction() -> None:
    story = Story()
    uuids = [uuid(number) for number in range(9)]
    story.run(*uuids)
    crashed(story, *uuids[:3])
    (recovery,) = story.plan().recoveries
    assert set(recovery.instances) == set(uuids[:3])
    assert recovery.name.startswith(f"ha-{NODE}-")
    assert story.cases(HOST) == [IncidentType.MANY_CRASHES]
    assert not any(story.only(one).shown for one in uuids[:3])


def test_instances_that_a_reboot_has_ended_are_distinguished_from_crashes() -> None:
    story = Story()
    uuids = [uuid(number) for number in range(4)]
    story.run(*uuids)
    for one in uuids[:3]:
        story.see(Kind.ENDED_BY_BOOT, who=one)
    (recovery,) = story.plan().recoveries
    assert set(recovery.instances) == set(uuids[:3])
    assert "crash" not in recovery.reason
    assert story.cases(HOST) == [IncidentType.ENDED_BY_BOOT]
    assert not any(story.only(one).shown for one in uuids[:3])


def test_instance_for_which_the_host_s_incident_stands_is_shown_while_its_recovery_waits() -> None:
    """A person's Eviction leaves none of them off."""
    story = Story()
    uuids = [uuid(number) for number in range(3)]
    story.run(*uuids)
    for one in uuids:
        story.see(Kind.ENDED_BY_BOOT, who=one)
    story.plan()
    hidden = story.known[uuids[0]]
    (case,) = hidden.cases
    waits = postponed(hidden, case.id, story.now, "recovery waits for Eviction x", alone=True)
    assert (case.shown, waits.cases[0].shown, waits.cases[0].step) == (False, True, case.step)
    assert not postponed(hidden, case.id, story.now, "libvirt").cases[0].shown


@pytest.mark.parametrize(("there", "crashes"), [(11, 3), (2, 2)])
def test_fewer_crashes_have_an_eviction_each(there: int, crashes: int) -> None:
    story = Story()
    uuids = [uuid(number) for number in range(there)]
    story.run(*uuids)
    crashed(story, *uuids[:crashes])
    recoveries = story.plan().recoveries
    assert [len(one.instances) for one in recoveries] == [1] * crashes
    assert story.cases(HOST) == []


def test_crashes_beyond_the_storm_limit_wait_for_their_turn() -> None:
    story = Story()
    uuids = [uuid(number) for number in range(100)]
    story.run(*uuids)
    crashed(story, *uuids[:14])
    assert len(story.plan().recoveries) == 10
    assert IncidentType.EVENT_STORM in story.cases(HOST)
    later = sum(len(story.plan(after=6).recoveries) for _ in range(20))
    assert later == 4


def test_an_instance_that_the_kernel_killed_restarts_where_there_is_room() -> None:
    story = Story()
    story.run()
    crashed(story)
    (recovery,) = story.plan(memory=AvailableMemory(1 << 40, kills=True)).recoveries
    assert (story.cases(), recovery.mode) == ([IncidentType.HOST_OUT_OF_MEMORY], EvictionMode.AUTO)


def test_an_instance_that_the_kernel_killed_moves_where_there_is_none() -> None:
    story = Story()
    story.run()
    story.known[U1] = replace(story.get(), memory_bytes=8 << 30)
    crashed(story)
    (recovery,) = story.plan(memory=AvailableMemory(1 << 30, kills=True)).recoveries
    assert recovery.mode is EvictionMode.COLD


def test_a_plan_that_was_not_done_is_the_same_again() -> None:
    story = Story()
    uuids = [uuid(number) for number in range(4)]
    story.run(*uuids)
    crashed(story, *uuids[:3])
    story.pass_(1)
    first = plan(story.known, NODE, story.config, story.now, AvailableMemory(1 << 40))
    story.known = first.instances
    story.pass_(3600)  # the API was away for an hour
    second = plan(story.known, NODE, story.config, story.now, AvailableMemory(1 << 40))
    assert [one.name for one in second.recoveries] == [one.name for one in first.recoveries]


def test_the_name_of_an_eviction_follows_from_instance_start_and_type() -> None:
    names = set()
    for _ in range(2):
        story = Story()
        story.run()
        crashed(story)
        (recovery,) = story.plan().recoveries
        names.add(recovery.name)
        assert recovery.name == eviction_name(recovery.incident, NODE)
        assert recovery.name.startswith("ha-11111111-")
    assert len(names) == 1


def test_limits_come_from_the_configuration() -> None:
    limits = RecoveryLimits(recoveries_per_hour=1, backoff=(Span(seconds=1),))
    story = Story(HaConfig(limits=limits))
    for expected in (1, 0):
        story.run()
        crashed(story)
        assert len(story.plan(after=60).recoveries) == expected


def test_history_of_an_instance_is_bounded() -> None:
    story = Story()
    for number in range(60):
        story.run()
        story.see(Kind.REBOOTED)
        story.see(Kind.WATCHDOG, action="reset")
        story.see(Kind.IO_ERROR, action="report", about=f"/disks/{number}")
        crashed(story)
        story.plan(after=30)
    known = story.get()
    assert max(map(len, (known.crashes, known.reboots, known.watchdogs))) <= MOST_TIMES
    assert len(known.cases) <= len(IncidentType)
    assert story.now > NOON


def case(type_: IncidentType = IncidentType.CRASH, who: str = U1, **fields: object) -> Case:
    """A case whose recovery is due at noon, and that was not shown yet."""
    due = {"step": Step.RECOVER, "due": NOON, "shown": False}
    return open_case(type_, who, "", **due | fields)


def known(*cases: Case, who: str = U1, **fields: object) -> dict[str, InstanceRecord]:
    return {who: InstanceRecord(uuid=who, cases=cases, **fields)}  # type: ignore[arg-type]


def planned(
    instances: dict[str, InstanceRecord], memory: AvailableMemory = PLENTY, later: float = 0
) -> EscalationPlan:
    return plan(instances, NODE, HaConfig(), NOON + timedelta(seconds=later), memory)


@pytest.mark.parametrize(("later", "made"), [(-0.1, 0), (0, 1)], ids=["not yet", "now"])
def test_recovery_is_made_when_it_is_due_and_shown(later: float, made: int) -> None:
    found = planned(known(case()), later=later)
    assert len(found.recoveries) == made
    if made:
        (one,) = found.instances[U1].cases
        assert (one.shown, one.type) == (True, IncidentType.CRASH)


@pytest.mark.parametrize(
    ("instances", "reason"),
    [
        pytest.param(known(case(), name="vm-1"), "HA: Crash of vm-1: ", id="by its name"),
        pytest.param(known(case()), f"HA: Crash of {U1}: ", id="by its UUID without one"),
        pytest.param(
            known(case(IncidentType.MEMORY_FAILURE, HOST), who=HOST),
            "HA: MemoryFailure of the host: ",
            id="the host",
        ),
        pytest.param(
            known(case(eviction="ha-x")) | known(case(who="2", eviction="ha-x"), who="2"),
            f"HA: Crash of {U1} and 1 more: ",
            id="several",
        ),
        pytest.param(
            known(case(evidence=("the first", "the last"))),
            f"HA: Crash of {U1}: the last",
            id="with the newest evidence",
        ),
    ],
)
def test_reason_names_what_is_recovered(instances: dict[str, InstanceRecord], reason: str) -> None:
    (recovery,) = planned(instances).recoveries
    assert recovery.reason == reason


def test_incident_beyond_the_limit_takes_its_turn_when_the_next_token_is_free() -> None:
    full = known(who=HOST, incidents=(NOON,) * 10)
    found = planned(full | known(case()))
    assert found.recoveries == ()
    (waits,) = found.instances[U1].cases
    assert (waits.step, waits.due) == (Step.RECOVER, NOON + timedelta(seconds=6))


OTHER = case(IncidentType.REBOOT_FAILED)


def test_made_eviction_is_followed_and_counted() -> None:
    one = case(eviction="ha-1")
    found = recovering(known(OTHER, one)[U1], one.id, NOON)
    assert found.recoveries == (NOON,)
    assert found.cases == (
        OTHER,
        one.with_evidence("Eviction ha-1").then(Step.FOLLOW, NOON + FOLLOW),
    )


def test_only_one_case_is_postponed() -> None:
    one, later = case(eviction="ha-1"), NOON + timedelta(minutes=1)
    waits = postponed(known(OTHER, one)[U1], one.id, later, "a migration goes first")
    assert waits.cases == (
        OTHER,
        one.with_evidence("a migration goes first").then(Step.RECOVER, later),
    )


@pytest.mark.parametrize(
    ("type_", "state", "again"),
    [
        (IncidentType.CRASH, State.UNKNOWN, True),
        (IncidentType.ENDED_BY_BOOT, State.OFF, True),
        (IncidentType.WATCHDOG, State.UNKNOWN, False),
        (IncidentType.MONITOR_HUNG, State.RUNNING, False),
        (IncidentType.WATCHDOG, State.OFF, True),
        (IncidentType.REBOOT_FAILED, State.OFF, True),
    ],
)
def test_a_failed_recovery_of_what_is_off_is_tried_again_after_its_cool_down(
    type_: IncidentType, state: State, *, again: bool
) -> None:
    one = case(type_, eviction="ha-1")
    was = known(one, state=state)[U1]
    (after,) = failed(was, one, HaConfig(), NOON, "Eviction ha-1 Failed").cases
    assert after.evidence[-1] == "Eviction ha-1 Failed"
    if again:
        assert (after.type, after.step, after.eviction) == (type_, Step.RECOVER, "")
        assert after.due == NOON + timedelta(minutes=10, seconds=1)
    else:
        assert (after.type, after.step) == (IncidentType.RECOVERY_EXHAUSTED, Step.NONE)
        assert after.reaction is Reaction.REPORT


def test_failed_recovery_of_what_its_storage_pauses_waits_for_the_storage_again() -> None:
    """The next attempt waits for the Eviction; the storage may be back before."""
    one = case(IncidentType.IO_ERROR, eviction="ha-1")
    after = failed(
        known(one, state=State.PAUSED)[U1], one, HaConfig(), NOON, "Eviction ha-1 Failed"
    )
    (waits,) = after.cases
    assert (waits.type, waits.step, waits.eviction) == (IncidentType.IO_ERROR, Step.PROBE, "")
    assert waits.evidence[-1] == "Eviction ha-1 Failed"
    assert after.paused_since == NOON + timedelta(minutes=10)


def test_instance_that_its_storage_pauses_is_never_given_up() -> None:
    often = tuple(NOON - timedelta(minutes=number) for number in (30, 20, 10))
    one = case(IncidentType.IO_ERROR, due=NOON)
    paused = replace(known(one, state=State.PAUSED)[U1], recoveries=often)
    planned = plan({U1: paused}, NODE, HaConfig(), NOON, PLENTY)
    (waits,) = planned.instances[U1].cases
    assert planned.recoveries == ()
    assert (waits.type, waits.step) == (IncidentType.IO_ERROR, Step.PROBE)
    assert waits.evidence[-1] == "given up: 3 recoveries within an hour, 3 within a day"


@pytest.mark.parametrize(
    ("type_", "state"),
    [
        pytest.param(IncidentType.IO_ERROR, State.RUNNING, id="its disks fail, and it runs"),
        pytest.param(IncidentType.WATCHDOG, State.PAUSED, id="its watchdog has paused it"),
    ],
)
def test_instance_that_no_storage_pauses_is_given_up(type_: IncidentType, state: State) -> None:
    often = tuple(NOON - timedelta(minutes=number) for number in (30, 20, 10))
    one = replace(known(case(type_, due=NOON), state=state)[U1], recoveries=often)
    (given_up,) = plan({U1: one}, NODE, HaConfig(), NOON, PLENTY).instances[U1].cases
    assert given_up.type is IncidentType.RECOVERY_EXHAUSTED


def test_incident_that_is_given_up_is_shown() -> None:
    assert exhausted(case(shown=False)).shown


A, B = "/pool/a.qcow2", "/pool/b.qcow2"
IO = IncidentType.IO_ERROR


def two(
    first: Case, second: Case, state: State = State.UNKNOWN, resumes: int = 0
) -> dict[str, InstanceRecord]:
    return known(first, name="vm-1", state=state, resumes=resumes) | known(second, who="2")


@pytest.mark.parametrize(
    ("instances", "recovered"),
    [
        pytest.param(two(case(IO, about=A), case(IO, "2", about=B)), 0, id="of one storage"),
        pytest.param(two(case(IO, about=A), case(IO, "2", about="/x/b")), 2, id="of two storages"),
        pytest.param(two(case(IO), case(IO, "2")), 2, id="of unknown storages"),
        pytest.param(
            two(case(IO, about=A), case(IncidentType.WATCHDOG, "2", about=B)),
            2,
            id="of which one is something else",
        ),
        pytest.param(two(case(IO, about="disk"), case(IO, "2", about="disk")), 0, id="by name"),
        pytest.param(two(case(IO, about="d1"), case(IO, "2", about="d2")), 2, id="by two names"),
        pytest.param(
            two(case(IO, about=A), case(IO, "2", about=B)) | known(case(who="3", about=A), who="3"),
            1,
            id="though what crashed is restarted",
        ),
    ],
)
def test_errors_of_a_shared_storage_move_nothing(
    instances: dict[str, InstanceRecord], recovered: int
) -> None:
    assert len(planned(instances).recoveries) == recovered


def test_storage_that_is_away_is_an_incident_of_the_host_and_is_tried_again() -> None:
    text = "the storage /pool fails for 2 instances: 2, vm-1"
    now, found = NOON, two(case(IO, about=A), case(IO, "2", about=B))
    for _ in range(3):
        found = plan(found, NODE, HaConfig(), now, PLENTY).instances
        (waits,) = found[U1].cases
        assert (waits.step, waits.due) == (Step.RECOVER, now + timedelta(minutes=1))
        assert (waits.reaction, waits.evidence) == (Reaction.WAIT, (text,))
        (incident,) = found[HOST].cases
        assert (incident.type, incident.evidence) == (IncidentType.STORAGE_DEGRADED, (text,))
        assert (incident.first_seen, incident.last_seen) == (NOON, now)
        assert (incident.step, incident.due) == (Step.EXPIRE, now + SHORTLY)
        assert incident.count == 2
        now += timedelta(minutes=1)


def test_storage_that_is_away_counts_the_errors_of_its_instances() -> None:
    found = two(case(IO, about=A, count=7), case(IO, "2", about=B, count=2))
    found |= known(case(IO, "3", about="/other/c", count=50), who="3")
    found = planned(found).instances
    degraded = found[HOST].case(IncidentType.STORAGE_DEGRADED)
    assert degraded is not None
    assert degraded.count == 9
    (left,) = found[U1].cases
    found["2"] = found["2"].without_case(case(IO, "2").id)
    found[U1] = found[U1].with_case(replace(left, count=8))
    found["4"] = known(case(IO, "4", about=B), who="4")["4"]
    degraded = planned(found, later=60).instances[HOST].case(IncidentType.STORAGE_DEGRADED)
    assert degraded is not None
    assert degraded.count == 9, "and never less than before"


def test_crashes_together_count_each_time_that_they_are() -> None:
    crashes = (NOON,)
    found = planned(
        {
            who: InstanceRecord(uuid=who, crashes=crashes, cases=(case(who=who, mode=mode),))
            for who, mode in (
                (U1, EvictionMode.AUTO),
                ("2", EvictionMode.AUTO),
                ("3", EvictionMode.COLD),
            )
        }
        | {"4": InstanceRecord(uuid="4", cases=(case(IncidentType.ENDED_BY_BOOT, "4"),))}
    )
    assert len(found.recoveries) == 2, "one of each mode"
    crashed = found.instances[HOST].case(IncidentType.MANY_CRASHES)
    assert crashed is not None
    assert crashed.count == 2
    assert found.instances[HOST].case(IncidentType.ENDED_BY_BOOT) is None, "some have crashed"


def test_recovery_that_waits_for_its_turn_counts_once_in_its_storm() -> None:
    found = known(case(mode=EvictionMode.COLD)) | {
        HOST: InstanceRecord(uuid=HOST, incidents=(NOON,) * 10)
    }
    for later in (0, 6, 12):
        found = planned(found, later=later).instances
        storm = found[HOST].case(IncidentType.EVENT_STORM)
        assert storm is not None
        assert (storm.count, storm.last_seen) == (1, NOON)
    found = planned(found, later=60).instances
    (one,) = found[U1].cases
    assert (one.shown, one.reaction) == (True, Reaction.MOVE)


@pytest.mark.parametrize(
    ("mode", "reaction"),
    [
        (EvictionMode.AUTO, Reaction.RESTART),
        (EvictionMode.COLD, Reaction.MOVE),
        (EvictionMode.LIVE, Reaction.MOVE),
    ],
)
def test_recovery_after_a_wait_has_the_reaction_of_its_mode(
    mode: EvictionMode, reaction: Reaction
) -> None:
    waited = case(IO, about=A, shown=True, reaction=Reaction.WAIT, mode=mode)
    (one,) = planned(known(waited)).instances[U1].cases
    assert (one.eviction, one.reaction) == (eviction_name(one.id, NODE), reaction)


OVER = HaConfig().thresholds.io_errors_over


@pytest.mark.parametrize(
    ("state", "ago", "step", "due"),
    [
        pytest.param(State.RUNNING, 0.1, Step.RECOVER, 60, id="an error lately"),
        pytest.param(State.RUNNING, 0, Step.EXPIRE, 0, id="none for a while"),
        pytest.param(State.PAUSED, 0, Step.PROBE, 10, id="but one that is paused has none"),
    ],
)
def test_incident_of_a_shared_storage_that_is_well_again_ends(
    state: State, ago: float, step: Step, due: float
) -> None:
    last = NOON - OVER + timedelta(seconds=ago)
    known_ = two(case(IO, about=A, last_seen=last), case(IO, "2", about=B), state=state)
    found = planned(known_)
    assert found.recoveries == ()
    (waits,) = found.instances[U1].cases
    assert (waits.step, waits.due) == (step, NOON + timedelta(seconds=due))


def test_evidence_of_the_host_is_kept_when_more_instances_are_hit() -> None:
    first = planned(two(case(IO, about=A), case(IO, "2", about=B))).instances
    more = planned(first | known(case(IO, "3", about=A), who="3"), later=60).instances
    assert [text.split(":")[0] for text in more[HOST].cases[0].evidence] == [
        "the storage /pool fails for 2 instances",
        "the storage /pool fails for 3 instances",
    ]


def test_incident_that_is_shown_already_needs_no_token() -> None:
    full = known(who=HOST, incidents=(NOON,) * 10)
    assert len(planned(full | known(case(shown=True))).recoveries) == 1


def test_instance_that_is_paused_waits_for_its_storage_from_now_on() -> None:
    paused = two(case(IO, about=A), case(IO, "2", about=B), state=State.PAUSED, resumes=4)
    found = planned(paused).instances[U1]
    assert (found.resumes, found.paused_since) == (0, NOON)
    assert (found.cases[0].step, found.cases[0].due) == (Step.PROBE, NOON + PROBE_AGAIN)


@pytest.mark.parametrize(
    ("type_", "memory", "seen", "evidence"),
    [
        pytest.param(
            IncidentType.CRASH,
            AvailableMemory(8, kills=True),
            IncidentType.HOST_OUT_OF_MEMORY,
            "has memory for this instance again",
            id="just enough",
        ),
        pytest.param(
            IncidentType.CRASH,
            AvailableMemory(7, kills=True),
            IncidentType.HOST_OUT_OF_MEMORY,
            "has no memory for this instance",
            id="too little",
        ),
        pytest.param(
            IncidentType.CRASH,
            AvailableMemory(None, kills=True),
            IncidentType.HOST_OUT_OF_MEMORY,
            "cannot be read: the instance is restarted here",
            id="unknown",
        ),
        pytest.param(
            IncidentType.CRASH, AvailableMemory(7), IncidentType.CRASH, "", id="nothing was killed"
        ),
        pytest.param(
            IncidentType.WATCHDOG,
            AvailableMemory(7, kills=True),
            IncidentType.WATCHDOG,
            "",
            id="it did not crash",
        ),
    ],
)
def test_crash_while_the_kernel_kills_is_want_of_memory(
    type_: IncidentType, memory: AvailableMemory, seen: IncidentType, evidence: str
) -> None:
    (found,) = planned(known(case(type_), memory_bytes=8), memory).instances[U1].cases
    assert found.type is seen
    assert evidence in "".join(found.evidence)


def test_instance_does_not_move_for_memory_that_could_not_be_read() -> None:
    crashed = known(case(IncidentType.CRASH), memory_bytes=8)
    (unknown,) = planned(crashed, AvailableMemory(None, kills=True)).recoveries
    (enough,) = planned(crashed, AvailableMemory(8, kills=True)).recoveries
    assert unknown.mode == enough.mode


@pytest.mark.parametrize(
    ("crashes", "running", "off", "percent", "together"),
    [
        pytest.param(3, 7, 0, 30, True, id="just the share"),
        pytest.param(3, 8, 0, 30, False, id="less than the share"),
        pytest.param(3, 4, 0, 43, False, id="a little less"),
        pytest.param(3, 7, 50, 30, True, id="what is off does not count"),
    ],
)
def test_many_crashes_are_a_share_of_the_running_instances(
    crashes: int, running: int, off: int, percent: int, *, together: bool
) -> None:
    many = HaConfig(thresholds=Thresholds(many_crashes=ManyCrashes(percent=percent)))
    states = [State.OFF] * crashes + [State.RUNNING] * running + [State.OFF] * off
    instances: dict[str, InstanceRecord] = {}
    for number, state in enumerate(states):
        who, crashed_ = uuid(number), number < crashes
        cases = (case(who=who),) if crashed_ else ()
        times = (NOON,) if crashed_ else ()
        instances |= known(*cases, who=who, state=state, crashes=times)
    found = plan(instances, NODE, many, NOON, PLENTY)
    assert (len(found.recoveries) == 1) is together
    assert (found.instances[HOST].case(IncidentType.MANY_CRASHES) is not None) is together
