"""The course of an Eviction: restart, recover, leave or evacuate."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.eviction.made import eviction, facts, hypervisor

from hypercobalt.api.eviction import Trigger
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.recovery import Recovery
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.assessing.course import (
    Course,
    course_of,
    is_requested_by_person,
    needs_proof,
    recovers,
)

UP = Host("here", "h", "s", enabled=False)
DOWN = Host("here", "h", "s", enabled=False, up=False)
FORCED = Host("here", "h", "s", enabled=False, forced_down=True)
DEAD = hypervisor("Fenced")
RECORD = Fencing(phase=FencingPhase.FENCED, bootID="1", proof="power is off")
PROVEN = recorded(with_fields(DEAD, status=with_fields(DEAD.status, fencing=RECORD)))
CLAIMED = with_fields(DEAD, metadata=with_fields(DEAD.metadata, annotations={}))
INSTANCES = {
    Trigger.INSTANCE_CRASH,
    Trigger.REBOOT_FAILED,
    Trigger.WATCHDOG,
    Trigger.CONTROL_ERROR,
    Trigger.IO_ERROR,
}


@pytest.mark.parametrize("mode", [None, "auto", "anything of a newer API"])
@pytest.mark.parametrize("trigger", [None, *(set(Trigger) - {Trigger.HOST_SHUTDOWN})])
def test_crashed_instance_is_restarted_on_its_host_first(
    mode: str | None, trigger: str | None
) -> None:
    of = facts(eviction(mode=mode, trigger=trigger), hypervisor=hypervisor(), host=UP)
    assert course_of(of) is (Course.RECOVER if trigger in INSTANCES else Course.LEAVE)


def test_instance_that_is_off_stays_on_a_host_that_is_shut_down() -> None:
    """The shutdown may have stopped the instance; after a move it would stay off."""
    of = facts(eviction(trigger="HostShutdown"), hypervisor=hypervisor(), host=UP)
    assert course_of(of) is Course.LIVE


@pytest.mark.parametrize("mode", ["restart", "live", "cold", "evacuate"])
@pytest.mark.parametrize("host", [UP, FORCED])
def test_mode_of_the_spec_decides_the_course(mode: str, host: Host) -> None:
    of = facts(eviction(mode=mode, trigger="InstanceCrash"), hypervisor=DEAD, host=host)
    assert course_of(of) == mode


@pytest.mark.parametrize(
    ("of", "host", "course"),
    [
        pytest.param(DEAD, DOWN, Course.EVACUATE, id="fenced, and down"),
        pytest.param(DEAD, FORCED, Course.EVACUATE, id="fenced, and forced down"),
        pytest.param(DEAD, UP, Course.LEAVE, id="fenced, and not down yet"),
        pytest.param(CLAIMED, FORCED, Course.LEAVE, id="fenced by its own word"),
        pytest.param(PROVEN, DOWN, Course.LEAVE, id="fenced, and not declared down yet"),
        pytest.param(PROVEN, FORCED, Course.LEAVE, id="declared down, and that is not recorded"),
        pytest.param(hypervisor(), DOWN, Course.LEAVE, id="down"),
        pytest.param(hypervisor(), FORCED, Course.LEAVE, id="forced down proves nothing"),
        pytest.param(hypervisor("Attempting"), DOWN, Course.LEAVE, id="is being fenced"),
        pytest.param(hypervisor("Failed"), DOWN, Course.LEAVE, id="could not be fenced"),
        pytest.param(hypervisor("Released"), DOWN, Course.LEAVE, id="was released"),
        pytest.param(hypervisor("Fenced", boot="2"), DOWN, Course.LEAVE, id="has booted anew"),
        pytest.param(None, DOWN, Course.LEAVE, id="no Hypervisor"),
        pytest.param(DEAD, None, Course.LEAVE, id="no such host"),
    ],
)
@pytest.mark.parametrize("trigger", [None, "InstanceCrash", "Maintenance", "NodeFailure"])
def test_only_from_a_host_that_is_proven_dead_is_evacuated(
    of: Hypervisor | None, host: Host | None, course: Course, trigger: str | None
) -> None:
    found = course_of(facts(eviction(trigger=trigger), hypervisor=of, host=host))
    otherwise = Course.RECOVER if trigger == "InstanceCrash" else Course.LEAVE
    assert found is (course if course is Course.EVACUATE else otherwise)


@pytest.mark.parametrize(
    ("spec", "of", "host", "runs"),
    [
        pytest.param({"trigger": "Watchdog"}, hypervisor(), UP, True, id="an instance's trigger"),
        pytest.param({"trigger": "IOError", "mode": "cold"}, hypervisor(), UP, True, id="moved"),
        pytest.param({"mode": "restart"}, hypervisor(), UP, True, id="restart"),
        pytest.param({"mode": "cold"}, hypervisor(), UP, False, id="what is off stays off"),
        pytest.param({"trigger": "Maintenance"}, hypervisor(), UP, False, id="maintenance"),
        pytest.param({"trigger": "Watchdog"}, DEAD, DOWN, False, id="its host is dead"),
    ],
)
def test_instances_run_afterwards_when_they_or_their_host_failed(
    spec: dict[str, object], of: Hypervisor, host: Host, *, runs: bool
) -> None:
    about = facts(eviction(**spec), hypervisor=of, host=host)
    assert recovers(about, course_of(about)) is runs


def test_only_restart_and_recover_restart_first() -> None:
    assert [course for course in Course if course.restarts] == [Course.RESTART, Course.RECOVER]


@pytest.mark.parametrize("trigger", [None, *Trigger])
def test_only_a_person_overrules_an_owner(trigger: str | None) -> None:
    spec = eviction(trigger=trigger).spec
    assert is_requested_by_person(spec) is (trigger in {None, "Manual"})


@pytest.mark.parametrize(
    ("spec", "maintenance", "host", "needed"),
    [
        pytest.param({}, "auto", UP, False, id="maintenance"),
        pytest.param({}, "auto", DOWN, True, id="maintenance of a host that is down"),
        pytest.param({}, "auto", FORCED, True, id="maintenance of a host that is forced down"),
        pytest.param({}, "ha", UP, True, id="the host has failed"),
        pytest.param({"trigger": "NodeFailure"}, "", UP, True, id="the node has failed"),
        pytest.param({"trigger": "InstanceCrash"}, "", UP, False, id="an instance crashed"),
        pytest.param({"mode": "evacuate"}, "", UP, True, id="evacuate"),
        pytest.param({"mode": "live", "trigger": "NodeFailure"}, "ha", DOWN, False, id="live"),
        pytest.param({"mode": "restart"}, "ha", DOWN, False, id="restart"),
    ],
)
def test_proof_is_needed_when_the_host_has_failed_or_is_evacuated(
    spec: dict[str, object], maintenance: str, host: Host, *, needed: bool
) -> None:
    of = eviction(**spec)
    assert needs_proof(of.spec, hypervisor(maintenance=maintenance), host) is needed


@pytest.mark.parametrize(
    ("trigger", "host", "needed"),
    [
        pytest.param("InstanceCrash", UP, False, id="an instance crashed"),
        pytest.param("InstanceCrash", DOWN, True, id="the host is down by now"),
        pytest.param("NodeFailure", UP, True, id="the node has failed"),
    ],
)
def test_no_proof_is_needed_on_a_host_that_is_emptied_alive(
    trigger: str, host: Host, *, needed: bool
) -> None:
    emptied = with_fields(
        hypervisor(maintenance="ha"), status=HypervisorStatus(recovery=Recovery("Recovered"))
    )
    assert needs_proof(eviction(trigger=trigger).spec, emptied, host) is needed
