"""An Eviction of a host with VirtualMachineInstances never says Succeeded."""

from __future__ import annotations

from dataclasses import replace as replace_facts
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.eviction.made import (
    NOW,
    POLICY,
    assessed,
    entry,
    eviction,
    facts,
    hypervisor,
    seen,
    server,
    situation,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import (
    MOST_GUESTS,
    EvictionMode,
    EvictionReason,
    EvictionSpec,
    EvictionStatus,
    ends_empty,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import Instance
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.model.decision import EvictionPlan, Preflight, Wait
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Order
from hypercobalt.operator.eviction.model.states import Assessment, Departed, Moving, Stranded
from hypercobalt.operator.eviction.plan import plan
from hypercobalt.operator.eviction.planning.ending import ending
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.planning.polling import IDLE
from hypercobalt.operator.eviction.planning.settled import settled
from hypercobalt.operator.eviction.recording.status import ended_text, status_of
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuest, HostGuests

POD = Instance("p", "default_a", True, "default")
DOMAIN = Instance("i", "instance-1", True)
THERE = HostGuests((HostGuest("default", "a", uid="p", owner="v"),))
UNREAD = HostGuests(unread="403")
HOST = Host("here", "h", "s", enabled=False, up=True)


def at_end(guests: HostGuests) -> Facts:
    return facts(host=HOST, looked=True, counted=frozenset(), guests=guests)


@pytest.mark.parametrize(
    ("guests", "failed", "reason"),
    [
        pytest.param(NO_GUESTS, False, EvictionReason.SUCCEEDED, id="none-left-succeeds"),
        pytest.param(THERE, False, None, id="one-left-goes-on"),
        pytest.param(UNREAD, False, None, id="not-read-goes-on"),
        pytest.param(THERE, True, EvictionReason.FAILED, id="failure-is-shown-at-once"),
    ],
)
def test_end(guests: HostGuests, failed: bool, reason: EvictionReason | None) -> None:
    state = Stranded("no") if failed else Departed("left")
    over = ending(situation(at_end(guests)), (Assessment(seen(), state),), Preflight(()))
    assert (over.end.reason if over.end else None) == reason


@pytest.mark.parametrize("guests", [THERE, UNREAD], ids=["there", "unread"])
def test_host_without_a_compute_service_is_not_empty_with_guests(guests: HostGuests) -> None:
    plan = settled(facts(looked=True, hypervisor=hypervisor(), guests=guests), POLICY)
    assert plan is not None
    assert plan.end is None
    assert plan.wait is not None
    assert not plan.release


@pytest.mark.parametrize(
    ("instances", "ended"),
    [
        pytest.param((POD,), False, id="launcher-alone-is-waited-for"),
        pytest.param((POD, DOMAIN), True, id="domain-of-libvirt-fails-as-before"),
    ],
)
def test_node_agent_of_a_host_without_a_compute_service_reports_guests(
    instances: tuple[Instance, ...], *, ended: bool
) -> None:
    host = hypervisor()
    status = replace(host.status, instances=instances, numInstances=len(instances))
    known = replace(host, status=status)
    plan = settled(facts(looked=True, hypervisor=known, guests=THERE), POLICY)
    assert plan is not None
    assert (plan.end is not None) is ended
    if plan.end is not None:
        assert plan.end.reason is EvictionReason.FAILED
        assert "reports 1 instance there" in plan.end.message
        assert "default/a" in plan.end.message


def test_host_that_the_compute_service_forgets_for_a_moment_is_waited_for_with_guests() -> None:
    begun = set_condition((), "PreflightChecksSucceeded", "True", "Succeeded", "", now=NOW.now)
    status = EvictionStatus(conditions=begun, instances=(entry(),))
    known = facts(eviction(status), looked=True, hypervisor=hypervisor(), guests=THERE)
    plan = settled(known, POLICY)
    assert plan is not None
    assert plan.end is None
    assert plan.wait is not None
    assert "got 404" in plan.wait.message


def test_failed_eviction_names_the_guests_that_it_leaves() -> None:
    status = EvictionStatus(instances=(entry(phase="Failed", message="no host"),))
    text = ended_text(status, "here", "waiting for default/a")
    assert text.endswith("no host; waiting for default/a")


@pytest.mark.parametrize(
    ("spec", "empty"),
    [
        pytest.param({}, True, id="whole-host"),
        pytest.param({"mode": EvictionMode.LIVE}, True, id="whole-host-live"),
        pytest.param({"mode": EvictionMode.EVACUATE}, True, id="dead-host"),
        pytest.param({"mode": EvictionMode.RESTART}, False, id="restarts-on-the-host"),
        pytest.param({"instances": ("i",)}, False, id="named-instances"),
    ],
)
def test_which_evictions_leave_nothing_behind(spec: dict[str, object], empty: bool) -> None:
    made = EvictionSpec(hypervisor="here", reason="test", **spec)  # type: ignore[arg-type]
    assert ends_empty(made) is empty


def shown(of: Facts, plan: EvictionPlan) -> EvictionStatus:
    return status_of(of, plan, Order.LARGEST, None)


WAITING = EvictionPlan(instances=(), checks=Preflight(()))


@pytest.mark.parametrize(
    ("guests", "names"),
    [
        pytest.param(THERE, ("default/a",), id="there"),
        pytest.param(UNREAD, (), id="unread"),
        pytest.param(NO_GUESTS, (), id="none"),
    ],
)
def test_status_names_the_guests_of_now(guests: HostGuests, names: tuple[str, ...]) -> None:
    before = EvictionStatus(virtualMachineInstances=("default/gone",))
    given = facts(eviction(before), host=HOST, looked=True, guests=guests)
    status = shown(given, WAITING)
    assert status.virtualMachineInstances == names
    (condition,) = (one for one in status.conditions if one.type == "Evicting")
    assert condition.status == "True"
    assert ("default/a" in condition.message) is bool(names)
    assert ("cannot list" in condition.message) is bool(guests.unread)


def test_status_keeps_the_guests_until_the_host_is_read() -> None:
    before = EvictionStatus(virtualMachineInstances=("default/a",))
    status = shown(facts(eviction(before)), EvictionPlan(wait=Wait("waits")))
    assert status.virtualMachineInstances == ("default/a",)


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "ended"])
def test_eviction_that_is_over_keeps_the_guests_that_it_has_left(*, deleted: bool) -> None:
    over = set_condition((), "Evicting", "False", "Failed", "", now=NOW.now)
    before = EvictionStatus(
        virtualMachineInstances=("default/a",), conditions=() if deleted else over
    )
    given = eviction(before)
    if deleted:
        meta = replace(given.metadata, deletionTimestamp=NOW.now)
        given = replace(given, metadata=meta)
    status = shown(facts(given, host=HOST, looked=True), EvictionPlan())
    assert status.virtualMachineInstances == ("default/a",)


def test_status_names_no_more_guests_than_it_has_room_for() -> None:
    many = tuple(HostGuest("default", f"{n:05}", uid=str(n)) for n in range(MOST_GUESTS + 1))
    given = facts(host=HOST, looked=True, guests=HostGuests(many))
    assert len(shown(given, WAITING).virtualMachineInstances) == MOST_GUESTS


@pytest.mark.parametrize(
    ("host", "words"),
    [
        pytest.param(hypervisor("Fenced"), "they ended with the host", id="dead"),
        pytest.param(hypervisor(), "none moves by this version", id="alive"),
    ],
)
def test_guest_of_a_dead_host_is_reported_as_ended_with_it(host: Hypervisor, words: str) -> None:
    given = facts(hypervisor=host, host=HOST, looked=True, guests=THERE)
    (condition,) = (one for one in shown(given, WAITING).conditions if one.type == "Evicting")
    assert words in condition.message


def in_maintenance(of: Facts) -> Facts:
    now = set_condition((), "HypervisorDisabled", "True", "Succeeded", "", now=NOW.now)
    host = hypervisor()
    disabled = replace(host, status=replace(host.status, conditions=now))
    return replace_facts(of, hypervisor=disabled)


def test_move_is_followed_closely_whatever_guests_there_are() -> None:
    moves = (assessed(server(), Moving("on its way")),)
    planned = plan(situation(in_maintenance(at_end(THERE))), moves, (), Timings())
    assert planned.look_again is not None
    assert planned.look_again < IDLE


@pytest.mark.parametrize(
    ("guests", "least"),
    [pytest.param(THERE, IDLE, id="watched"), pytest.param(NO_GUESTS, timedelta(0), id="none")],
)
def test_host_with_guests_alone_is_looked_at_rarely(guests: HostGuests, least: timedelta) -> None:
    planned = plan(situation(in_maintenance(at_end(guests))), (), (), Timings())
    assert planned.look_again is not None
    assert planned.look_again >= least
    assert (planned.look_again < IDLE) is (guests is NO_GUESTS)
