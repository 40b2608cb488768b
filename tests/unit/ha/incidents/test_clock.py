"""The history of instances when the host's clock is set back."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1, Story

from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import DiskErrors, InstanceRecord, MadeEviction, State, Step
from hypercobalt.ha.incidents.clock import by_this_clock, set_back
from hypercobalt.ha.incidents.signals import Kind

YEAR = timedelta(days=365)
AHEAD, BEFORE = NOON + YEAR, NOON - timedelta(minutes=1)
CASE = open_case()


def everything(at: datetime) -> InstanceRecord:
    """An instance whose moments are all the same one."""
    moments = {
        field.name: (at,)
        for field in msgspec.structs.fields(InstanceRecord)
        if field.type == tuple[datetime, ...]
    }
    optional = {
        field.name: at
        for field in msgspec.structs.fields(InstanceRecord)
        if field.type == datetime | None
    }
    return InstanceRecord(
        uuid=U1,
        evictions=(MadeEviction(name="ha-1", at=at),),
        disks=(DiskErrors(path="/a", since=at, suspect=at),),
        cases=(replace(CASE, first_seen=at, last_seen=at),),
        **moments,  # type: ignore[arg-type]
        **optional,  # type: ignore[arg-type]
    )


def test_no_moment_is_left_in_the_future() -> None:
    assert everything(NOON).crashes == everything(NOON).recoveries == (NOON,)
    assert set_back(everything(AHEAD), YEAR, NOON) == everything(NOON)
    assert by_this_clock(everything(AHEAD), NOON) == everything(NOON)
    assert set_back(everything(BEFORE), YEAR, NOON) == everything(BEFORE)


@pytest.mark.parametrize(
    ("last_seen", "due"),
    [
        pytest.param(-60, 600, id="seen before now"),
        pytest.param(0, 600, id="seen now"),
        pytest.param(3600, -3000, id="seen by a clock that was an hour ahead"),
    ],
)
def test_step_due_by_a_clock_ahead_is_not_waited_for(last_seen: int, due: int) -> None:
    seen = NOON + timedelta(seconds=last_seen)
    one = replace(CASE, last_seen=seen, step=Step.RECOVER, due=NOON + timedelta(seconds=600))
    idle = replace(CASE, id="idle", last_seen=seen)
    found = by_this_clock(InstanceRecord(uuid=U1, cases=(one, idle)), NOON)
    assert [case.due for case in found.cases] == [NOON + timedelta(seconds=due), None]


def test_due_step_stays_as_near_as_it_was() -> None:
    one = replace(CASE, step=Step.RECOVER, due=AHEAD + timedelta(seconds=7))
    found = set_back(InstanceRecord(uuid=U1, cases=(one, replace(CASE, id="idle"))), YEAR, NOON)
    assert [case.due for case in found.cases] == [NOON + timedelta(seconds=7), None]


def was_ahead(story: Story) -> None:
    """The clock of the story, a year ahead, is set back."""
    story.now -= YEAR
    story.known = {who: set_back(one, YEAR, story.now) for who, one in story.known.items()}


def test_reboot_after_the_clock_was_set_back_is_checked() -> None:
    story = Story(now=AHEAD)
    story.run()
    story.see(Kind.REBOOTED)
    story.look(State.RUNNING)
    assert story.cases() == []
    was_ahead(story)
    story.pass_(10)
    story.see(Kind.REBOOTED)
    assert story.cases() == [IncidentType.REBOOTING]


def test_recovery_after_the_clock_was_set_back_does_not_wait_for_a_year() -> None:
    story = Story()
    story.run()
    story.see(Kind.STOPPED_FAILED)
    assert len(story.plan().recoveries) == 1
    story.now += YEAR
    story.run()
    story.see(Kind.STOPPED_FAILED)
    assert len(story.plan().recoveries) == 1
    was_ahead(story)
    story.run()
    story.see(Kind.STOPPED_FAILED)
    assert len(story.plan(after=31).recoveries) == 1
