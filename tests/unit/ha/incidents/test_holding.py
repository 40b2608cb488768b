"""Incidents that are held back, and their release."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NODE, NOON, PLENTY, U1, Story

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import plan
from hypercobalt.ha.incidents.holding import (
    LOOK_AGAIN,
    held,
    released,
    reported,
    waiting,
    withdrawn,
)
from hypercobalt.ha.incidents.restraint import Restraint
from hypercobalt.ha.incidents.signals import HOST, Kind

BUSY, OFF = Restraint("maintenance: manual"), Restraint("highAvailability is false", for_good=True)
LATER = NOON + timedelta(hours=1)


def case(type_: IncidentType = IncidentType.CRASH, **fields: object) -> Case:
    due = {"id": "c1", "eviction": "ha-c1", "step": Step.RECOVER, "due": NOON}
    return open_case(type_, U1, "1.1", **due | fields)


def instance(*cases: Case, who: str = U1, **fields: object) -> InstanceRecord:
    return InstanceRecord(uuid=who, cases=cases, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("restraint", "who", "step", "reaction", "text"),
    [
        pytest.param(
            BUSY,
            U1,
            Step.HELD,
            Reaction.WAIT,
            "held back: maintenance: manual; recovered once that is over, if still needed",
            id="for a while",
        ),
        pytest.param(
            OFF,
            U1,
            Step.NONE,
            Reaction.REPORT,
            "held back: highAvailability is false, and not recovered later: restart the instance "
            "in the compute service",
            id="for good",
        ),
        pytest.param(
            BUSY,
            HOST,
            Step.NONE,
            Reaction.REPORT,
            "held back: maintenance: manual, and not recovered later: set maintenance to empty the "
            "host",
            id="of the host itself",
        ),
    ],
)
def test_held_back_incident_has_the_reason_and_what_follows(
    restraint: Restraint, who: str, step: Step, reaction: Reaction, text: str
) -> None:
    other = case(id="c2")
    found = held(instance(case(), other, who=who), "c1", restraint, LATER)
    one, left = found.cases
    assert (one.step, one.reaction, one.eviction, one.evidence) == (step, reaction, "", (text,))
    assert one.due == (LATER + LOOK_AGAIN if step is Step.HELD else None)
    assert left == other


def test_dry_run_of_an_incident_of_the_host_is_only_reported() -> None:
    (one,) = waiting(instance(case(), who=HOST), "c1", "dry run", LATER).cases
    assert (one.step, one.reaction, one.evidence) == (Step.NONE, Reaction.REPORT, ("dry run",))


def test_one_of_many_crashes_is_shown_by_itself_once_it_is_held_back() -> None:
    (one,) = held(instance(case(shown=False)), "c1", BUSY, LATER).cases
    assert one.shown


def test_host_has_no_eviction_of_many_that_was_not_made() -> None:
    other = case(id="c2", eviction="ha-other", reaction=Reaction.RESTART)
    one, left = withdrawn(instance(case(), other, who=HOST), "ha-c1", "held back").cases
    assert (one.eviction, one.reaction, one.evidence) == ("", Reaction.WAIT, ("held back",))
    assert (one.step, left) == (Step.RECOVER, other)


def test_reported_incident_is_not_due_again() -> None:
    (one,) = reported(instance(case()), "c1", "given up").cases
    assert (one.step, one.due, one.reaction) == (Step.NONE, None, Reaction.REPORT)
    assert one.evidence == ("given up",)


@pytest.mark.parametrize(
    ("type_", "state", "step"),
    [
        pytest.param(IncidentType.CRASH, State.OFF, Step.RECOVER, id="off still"),
        pytest.param(IncidentType.ENDED_BY_BOOT, State.OFF, Step.RECOVER, id="off since the boot"),
        pytest.param(IncidentType.WATCHDOG, State.OFF, Step.RECOVER, id="off by its watchdog"),
        pytest.param(IncidentType.WATCHDOG, State.PAUSED, Step.RECOVER, id="paused by it"),
        pytest.param(IncidentType.CRASH, State.RUNNING, Step.HELD, id="starts in this moment"),
        pytest.param(IncidentType.CRASH, State.PAUSED, Step.HELD, id="so, and is paused"),
        pytest.param(IncidentType.HOST_OUT_OF_MEMORY, State.RUNNING, Step.HELD, id="killed, runs"),
        pytest.param(IncidentType.WATCHDOG, State.RUNNING, Step.NONE, id="hung then, runs"),
        pytest.param(IncidentType.REBOOT_FAILED, State.RUNNING, Step.NONE, id="not back then"),
        pytest.param(IncidentType.MONITOR_HUNG, State.RUNNING, Step.PROBE, id="probed anew"),
        pytest.param(IncidentType.CONTROL_ERROR, State.RUNNING, Step.PROBE, id="likewise"),
        pytest.param(IncidentType.IO_ERROR, State.PAUSED, Step.PROBE, id="its storage, too"),
        pytest.param(IncidentType.CRASH, State.UNKNOWN, None, id="no longer here"),
    ],
)
def test_released_incident_follows_the_present_state_in_libvirt(
    type_: IncidentType, state: State, step: Step | None
) -> None:
    other, waited = case(id="c2"), case(type_, step=Step.HELD, eviction="")
    found = released(instance(waited, other), waited, state, HaConfig(), LATER)
    assert other in found.cases
    assert [one.step for one in found.cases if one.id == "c1"] == ([step] if step else [])
    due = LATER + LOOK_AGAIN if step is Step.HELD else None if step is Step.NONE else LATER
    assert [one.due for one in found.cases if one.id == "c1"] == ([due] if step else [])


@pytest.mark.parametrize(
    ("mode", "reaction"),
    [
        (EvictionMode.AUTO, Reaction.RESTART),
        (EvictionMode.COLD, Reaction.MOVE),
        (EvictionMode.LIVE, Reaction.MOVE),
    ],
)
def test_released_incident_is_due_at_once_and_was_seen_now(
    mode: EvictionMode, reaction: Reaction
) -> None:
    waited = case(step=Step.HELD, mode=mode, reaction=Reaction.WAIT)
    (one,) = released(instance(waited), waited, State.OFF, HaConfig(), LATER).cases
    assert (one.due, one.last_seen, one.reaction) == (LATER, LATER, reaction)
    early = NOON - timedelta(hours=1)
    (one,) = released(instance(waited), waited, State.OFF, HaConfig(), early).cases
    assert one.last_seen == NOON, "a clock that was set back"


def test_released_incident_waits_as_any_further_recovery() -> None:
    waited = case(step=Step.HELD)
    lately = instance(waited, recoveries=(LATER - timedelta(seconds=1),))
    (one,) = released(lately, waited, State.OFF, HaConfig(), LATER).cases
    assert one.due == LATER + timedelta(seconds=9)


def test_released_incident_of_a_running_instance_is_left_to_a_person() -> None:
    waited = case(IncidentType.WATCHDOG, step=Step.HELD)
    (one,) = released(instance(waited), waited, State.RUNNING, HaConfig(), LATER).cases
    text = "the instance runs: check its console; if it hangs, restart it in the compute service"
    assert (one.reaction, one.evidence) == (Reaction.REPORT, (text,))


def held_crash() -> Story:
    story = Story()
    story.run()
    story.see(Kind.STOPPED_FAILED)
    story.pass_(1)
    story.known = plan(story.known, NODE, story.config, story.now, PLENTY).instances
    story.known[U1] = held(story.get(), story.only().id, BUSY, story.now)
    return story


def test_held_back_incident_starts_no_recovery_however_long_it_lasts() -> None:
    story = held_crash()
    assert story.plan(after=3600).recoveries == ()


def test_same_crash_seen_again_stays_held_back() -> None:
    story = held_crash()
    story.see(Kind.STOPPED_FAILED)
    assert (story.only().step, story.only().reaction) == (Step.HELD, Reaction.WAIT)
    assert story.only().count == 2


def test_held_back_instance_is_moved_when_it_crashes_often() -> None:
    story = held_crash()
    crashes = (story.now, story.now, story.now)
    story.known[U1] = replace(story.get(), crashes=crashes)
    story.see(Kind.STOPPED_FAILED)
    assert (story.only().step, story.only().mode) == (Step.HELD, EvictionMode.COLD)
    story.known[U1] = replace(story.get(), crashes=())
    story.see(Kind.STOPPED_FAILED)
    assert story.only().mode is EvictionMode.COLD


@pytest.mark.parametrize("kind", [Kind.STARTED, Kind.STOPPED_DESTROYED, Kind.UNDEFINED])
def test_held_back_incident_that_is_over_is_closed(kind: Kind) -> None:
    story = held_crash()
    story.see(kind)
    assert IncidentType.CRASH not in story.cases()


def test_guest_that_reboots_while_its_watchdog_is_held_back_is_checked() -> None:
    story = Story()
    story.run()
    story.see(Kind.WATCHDOG, action="none")
    story.known[U1] = held(story.get(), story.only().id, BUSY, story.now)
    story.pass_(60)
    story.see(Kind.REBOOTED)
    assert IncidentType.REBOOTING in story.cases()
