"""How often, how many at once, and when it is given up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.ha.signs import NODE, NOON, U1, Story, uuid

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction
from hypercobalt.ha.cases import MOST_TIMES, Step, eviction_name
from hypercobalt.ha.config import HaConfig, Limits, Span
from hypercobalt.ha.ladder import Memory, held, plan
from hypercobalt.ha.signals import HOST, Kind


def crashed(story: Story, *who: str) -> None:
    for one in who or (U1,):
        story.see(Kind.STOPPED_FAILED, who=one)


def test_the_second_recovery_waits_ten_seconds_and_the_third_thirty() -> None:
    story = Story()
    waits = []
    for _ in range(3):
        story.run()
        crashed(story)
        began = story.now
        while not story.plan(after=1).recoveries:
            pass
        waits.append(round((story.now - began).total_seconds()))
    assert waits == [1, 10, 30]


def test_after_three_recoveries_in_an_hour_it_is_given_up() -> None:
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


def test_after_five_recoveries_in_a_day_it_is_given_up() -> None:
    story, made = Story(), 0
    for _ in range(8):
        story.run()
        crashed(story)
        made += len(story.plan(after=2 * 3600).recoveries)
    assert made == 5


def test_three_of_nine_that_crash_together_are_one_incident_and_one_eviction() -> None:
    story = Story()
    everybody = [uuid(number) for number in range(9)]
    story.run(*everybody)
    crashed(story, *everybody[:3])
    (recovery,) = story.plan().recoveries
    assert set(recovery.instances) == set(everybody[:3])
    assert recovery.name.startswith(f"ha-{NODE}-")
    assert story.cases(HOST) == [IncidentType.MANY_CRASHES]
    assert not any(story.only(one).shown for one in everybody[:3])


@pytest.mark.parametrize(("there", "crashes"), [(11, 3), (2, 2)])
def test_fewer_have_an_eviction_each(there: int, crashes: int) -> None:
    story = Story()
    everybody = [uuid(number) for number in range(there)]
    story.run(*everybody)
    crashed(story, *everybody[:crashes])
    recoveries = story.plan().recoveries
    assert [len(one.instances) for one in recoveries] == [1] * crashes
    assert story.cases(HOST) == []


def test_crashes_beyond_the_storm_limit_wait_for_their_turn() -> None:
    story = Story()
    everybody = [uuid(number) for number in range(100)]
    story.run(*everybody)
    crashed(story, *everybody[:14])
    assert len(story.plan().recoveries) == 10
    assert IncidentType.EVENT_STORM in story.cases(HOST)
    later = sum(len(story.plan(after=6).recoveries) for _ in range(20))
    assert later == 4


def test_an_instance_that_the_kernel_killed_restarts_where_there_is_room() -> None:
    story = Story()
    story.run()
    crashed(story)
    (recovery,) = story.plan(memory=Memory(1 << 40, kills=True)).recoveries
    assert (story.cases(), recovery.mode) == ([IncidentType.HOST_OUT_OF_MEMORY], EvictionMode.AUTO)


def test_an_instance_that_the_kernel_killed_moves_where_there_is_none() -> None:
    story = Story()
    story.run()
    story.known[U1] = replace(story.get(), memory_bytes=8 << 30)
    crashed(story)
    (recovery,) = story.plan(memory=Memory(1 << 30, kills=True)).recoveries
    assert recovery.mode is EvictionMode.COLD


def test_a_plan_that_was_not_done_is_the_same_again() -> None:
    story = Story()
    everybody = [uuid(number) for number in range(4)]
    story.run(*everybody)
    crashed(story, *everybody[:3])
    story.pass_(1)
    first = plan(story.known, NODE, story.config, story.now, Memory(1 << 40))
    story.known = first.instances
    story.pass_(3600)  # the API was away for an hour
    second = plan(story.known, NODE, story.config, story.now, Memory(1 << 40))
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


def test_what_is_held_back_says_why_and_is_over() -> None:
    story = Story()
    story.run()
    crashed(story)
    story.pass_(1)
    story.known = plan(story.known, NODE, story.config, story.now, Memory(1 << 40)).instances
    story.known[U1] = held(story.get(), story.only().id, "held back: maintenance: manual")
    assert (story.only().step, story.only().eviction) == (Step.NONE, "")
    assert story.only().evidence[-1] == "held back: maintenance: manual"
    assert story.plan(after=3600).recoveries == ()


def test_limits_come_from_the_configuration() -> None:
    limits = Limits(recoveries_per_hour=1, backoff=(Span(seconds=1),))
    story = Story(HaConfig(limits=limits))
    for expected in (1, 0):
        story.run()
        crashed(story)
        assert len(story.plan(after=60).recoveries) == expected


def test_what_is_remembered_of_an_instance_is_bounded() -> None:
    story = Story()
    for number in range(500):
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
