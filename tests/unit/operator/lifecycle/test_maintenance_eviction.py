"""Which Eviction belongs to a maintenance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import HOST, LABELS, ON, facts
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import Wait
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.lifecycle.maintenance_eviction import MaintenancePlan
from hypercobalt.operator.lifecycle.maintenance_eviction import decide as decide_after
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuest, HostGuests

LEAVING = with_fields(ON, maintenance="termination")


def decide(
    given: LifecycleFacts, eviction: Eviction | None, labels: Collection[str]
) -> MaintenancePlan:
    return decide_after(given, eviction, labels, LifecycleSettings().forgotten)


def deleted(of: LifecycleFacts) -> LifecycleFacts:
    meta = with_fields(of.hypervisor.metadata, deletionTimestamp=NOW)
    return replace(of, hypervisor=with_fields(of.hypervisor, metadata=meta))


@pytest.mark.parametrize(
    ("given", "owners"),
    [
        pytest.param(facts(spec=LEAVING), ["Hypervisor"], id="it goes with its Hypervisor"),
        pytest.param(deleted(facts(spec=LEAVING)), [], id="it empties one that goes already"),
    ],
)
def test_eviction_is_owned_by_its_hypervisor_unless_that_is_being_deleted(
    given: LifecycleFacts, owners: list[str]
) -> None:
    made = decide(given, None, LABELS).create
    assert made is not None
    assert [owner.kind for owner in made.metadata.ownerReferences] == owners
    assert made.metadata.labels == LABELS


def test_eviction_deleted_after_its_success_is_not_created_again() -> None:
    given = facts(condition("Evicting", "False", "Succeeded"), spec=LEAVING)
    assert decide(given, None, LABELS).create is None


def eviction(state: str = "", *, going: bool = False, **spec: object) -> Eviction:
    """An Eviction of the Hypervisor's name; of the whole host unless given otherwise."""
    status, _, reason = state.partition("/")
    conditions = (condition("Evicting", status, reason),) if state else ()
    return Eviction(
        metadata=ObjectMeta(name="kvm-a", uid="1", deletionTimestamp=NOW if going else None),
        spec=EvictionSpec(**{"hypervisor": "kvm-a", "reason": "test", **spec}),  # type: ignore[arg-type]
        status=EvictionStatus(conditions=conditions),
    )


MANUAL = with_fields(ON, maintenance="manual")
RUNNING, SUCCEEDED = "True/Running", "False/Succeeded"


@pytest.mark.parametrize(
    ("before", "given", "expected", "deleted"),
    [
        pytest.param("", eviction(), RUNNING, False, id="it begins"),
        pytest.param(RUNNING, eviction(RUNNING), RUNNING, False, id="it runs"),
        pytest.param(RUNNING, eviction(SUCCEEDED), SUCCEEDED, False, id="it has succeeded"),
        pytest.param(RUNNING, eviction("False/Failed"), "False/Failed", False, id="it has failed"),
        pytest.param("", eviction(SUCCEEDED), RUNNING, True, id="it ended before"),
        pytest.param("", eviction("False/Failed"), RUNNING, True, id="it failed before"),
        pytest.param(
            "", eviction(RUNNING, instances=("i",)), RUNNING, False, id="only some instances leave"
        ),
        pytest.param(
            RUNNING, eviction(SUCCEEDED, instances=("i",)), RUNNING, True, id="only some have left"
        ),
        pytest.param(
            RUNNING, eviction(SUCCEEDED, hypervisor="kvm-b"), RUNNING, True, id="of another host"
        ),
        pytest.param(
            RUNNING, eviction(RUNNING, hypervisor="kvm-b"), RUNNING, False, id="another's, running"
        ),
        pytest.param(
            RUNNING, eviction("False/Cancelled", going=True), RUNNING, False, id="it is deleted"
        ),
        pytest.param(
            RUNNING, eviction(SUCCEEDED, going=True), RUNNING, False, id="deleted before it counted"
        ),
        pytest.param(
            SUCCEEDED, eviction(SUCCEEDED, going=True), "", False, id="tidied up after its success"
        ),
    ],
)
def test_condition_evicting_follows_from_the_eviction(
    before: str, given: Eviction, expected: str, deleted: bool
) -> None:
    status, _, reason = before.partition("/")
    known = (condition("Evicting", status, reason),) if before else ()
    plan = decide(facts(*known, spec=MANUAL), given, LABELS)
    assert (f"{plan.condition[0]}/{plan.condition[1]}" if plan.condition else "") == expected
    assert plan.evicted is ({RUNNING: False, SUCCEEDED: True, "False/Failed": False}.get(expected))
    assert (plan.delete is given) is deleted
    assert plan.create is None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(facts(), id="no maintenance, and none before"),
        pytest.param(
            facts(condition("Evicting", "True", "Running"), spec=with_fields(ON, maintenance="ha")),
            id="the HA service has the host",
        ),
        pytest.param(
            facts(condition("Onboarding", "True", "Initial"), spec=MANUAL),
            id="an onboarding has the host until it is aborted",
        ),
    ],
)
def test_no_eviction_is_created_or_deleted(given: LifecycleFacts) -> None:
    assert decide(given, None, LABELS) == MaintenancePlan()
    assert decide(given, eviction(RUNNING), LABELS) == MaintenancePlan()


def test_status_without_its_condition_is_cleared_after_the_maintenance() -> None:
    plan = decide(facts(evicted=True), None, LABELS)
    assert (plan.remove_condition, plan.evicted) == (True, False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (eviction(RUNNING, instances=("i",)), "moves only named instances of kvm-a"),
        (eviction(RUNNING, hypervisor="kvm-b"), "moves only the instances of kvm-b"),
    ],
)
def test_message_names_what_another_eviction_moves(given: Eviction, text: str) -> None:
    plan = decide(facts(spec=MANUAL), given, LABELS)
    assert plan.condition is not None
    assert text in plan.condition[2]


@pytest.mark.parametrize(("spec", "trigger"), [(MANUAL, "Maintenance"), (LEAVING, "Termination")])
def test_new_eviction_has_its_trigger_and_blocks_the_deletion_of_its_owner(
    spec: HypervisorSpec, trigger: str
) -> None:
    made = decide(facts(spec=spec), None, LABELS).create
    assert made is not None
    assert made.spec.trigger == trigger
    (owner,) = made.metadata.ownerReferences
    assert (owner.controller, owner.blockOwnerDeletion) == (True, True)


def on_it(*servers: str, evicted: bool = True) -> LifecycleFacts:
    known = ("False", "Succeeded") if evicted else ("True", "Running")
    host = replace(HOST, servers=servers)
    return facts(condition("Evicting", *known), spec=MANUAL, host=host, evicted=evicted)


def test_failed_eviction_is_not_replaced_for_what_is_still_there() -> None:
    plan = decide(on_it("i1"), eviction("False/Failed"), LABELS)
    assert plan.condition is not None
    assert (plan.condition[:2], plan.delete) == (("False", "Failed"), None)


@pytest.mark.parametrize(
    ("given", "end"),
    [
        pytest.param(on_it(*"abcde"), "empty: a, b, c, d, e", id="as many as are named"),
        pytest.param(on_it(*"abcdef"), "empty: a, b, c, d, e …", id="more"),
        pytest.param(on_it("a", evicted=False), "Evicting", id="they never left"),
    ],
)
def test_message_names_the_servers_that_came_back(given: LifecycleFacts, end: str) -> None:
    plan = decide(given, eviction(RUNNING), LABELS)
    assert plan.condition is not None
    assert plan.condition[2].endswith(end)


@pytest.mark.parametrize("left", [eviction(SUCCEEDED), None], ids=["as it ended", "tidied up"])
def test_instance_that_comes_to_an_evicted_host_leaves_too(left: Eviction | None) -> None:
    evicted = condition("Evicting", "False", "Succeeded")
    given = facts(evicted, spec=MANUAL, host=replace(HOST, servers=("i1",)), evicted=True)
    plan = decide(given, left, LABELS)
    text = (
        "Evicting again: Hypervisor still has 1 running VMs, which came when the host was empty: i1"
    )
    assert plan.condition == ("True", "Running", text)
    assert plan.evicted is False
    assert plan.delete is left
    assert (plan.create is None) is (left is not None)
    # The message stays until the instance has left.
    wait = Wait("Evicting", plan.waits_for, NOW)
    again = facts(condition("Evicting", "True", "Running"), spec=MANUAL, waits=(wait,))
    for one in (eviction(RUNNING), eviction(SUCCEEDED, going=True)):
        assert decide(again, one, LABELS).condition is None


@pytest.mark.parametrize(
    ("given", "deleted"),
    [
        pytest.param(eviction(RUNNING), True, id="the maintenance's"),
        pytest.param(eviction(RUNNING, going=True), False, id="it goes already"),
        pytest.param(
            eviction(RUNNING, instances=("i",)), False, id="a person's, of some instances"
        ),
        pytest.param(eviction(RUNNING, hypervisor="kvm-b"), False, id="another host's"),
    ],
)
def test_eviction_of_the_maintenance_is_deleted_at_its_end(given: Eviction, deleted: bool) -> None:
    plan = decide(facts(condition("Evicting", "True", "Running")), given, LABELS)
    assert (plan.delete is given) is deleted
    assert (plan.remove_condition, plan.evicted) == (True, False)


def test_evicting_goes_with_its_maintenance_although_an_onboarding_begins_again() -> None:
    begun = condition("Onboarding", "True", "Initial")
    plan = decide(facts(begun, condition("Evicting", "False", "Succeeded"), evicted=True), None, ())
    assert plan.remove_condition
    assert plan.evicted is False


LONG_AGO = NOW - timedelta(minutes=6)
LOST = with_fields(condition("Registered", "False", "NotRegistered"), lastTransitionTime=LONG_AGO)
JUST_LOST = with_fields(LOST, lastTransitionTime=NOW - LifecycleSettings().forgotten)
HEALTHY = condition("NodeHealthy", "True", "Healthy")
REPORTING = condition("AgentReporting", "True", "Reporting")
FAILED = eviction("False/Failed")


@pytest.mark.parametrize(
    ("given", "found", "expected"),
    [
        pytest.param(facts(LOST, HEALTHY, spec=LEAVING), FAILED, SUCCEEDED, id="nothing is there"),
        pytest.param(facts(LOST, spec=LEAVING), None, SUCCEEDED, id="without an Eviction"),
        pytest.param(facts(JUST_LOST, spec=LEAVING), None, SUCCEEDED, id="for just so long"),
        pytest.param(
            facts(LOST, HEALTHY, spec=LEAVING, numInstances=2), FAILED, "False/Failed", id="guests"
        ),
        pytest.param(
            facts(LOST, spec=LEAVING, numInstances=2), FAILED, SUCCEEDED, id="an agent's old word"
        ),
        pytest.param(
            facts(LOST, REPORTING, spec=LEAVING, numInstances=2),
            *(FAILED, "False/Failed"),
            id="guests, by an agent that reports from a Node that is not in order",
        ),
        pytest.param(
            facts(condition("Registered", "False", "NotRegistered"), spec=LEAVING),
            None,
            RUNNING,
            id="for a moment",
        ),
        pytest.param(facts(LOST, spec=LEAVING), eviction(RUNNING), RUNNING, id="it may come back"),
        pytest.param(facts(LOST, spec=LEAVING, serviceId=None), None, RUNNING, id="it never was"),
        pytest.param(facts(LOST, spec=MANUAL), None, RUNNING, id="it is to stay"),
    ],
)
def test_host_that_nova_does_not_list_is_evicted_or_waits(
    given: LifecycleFacts, found: Eviction | None, expected: str
) -> None:
    plan = decide(given, found, LABELS)
    assert plan.condition is not None
    assert f"{plan.condition[0]}/{plan.condition[1]}" == expected
    assert plan.evicted is (expected == SUCCEEDED)
    assert (plan.create is not None) is (expected == RUNNING and found is None)


def test_host_without_an_address_is_not_empty_where_the_hosts_keep_the_servers() -> None:
    given = facts(LOST, spec=LEAVING)
    (plan, failed) = (decide_after(given, found, LABELS, None) for found in (None, FAILED))
    assert (plan.create is not None, plan.evicted, failed.evicted) == (True, False, False)


def test_a_host_stays_evicted_after_nova_forgets_it() -> None:
    evicted = condition("Evicting", "False", "Succeeded")
    given = facts(LOST, HEALTHY, evicted, spec=LEAVING, numInstances=2)
    for found in (None, FAILED):
        assert decide(given, found, LABELS) == MaintenancePlan()


@pytest.mark.parametrize(
    ("of", "expected", "evicted"),
    [
        pytest.param("", RUNNING, False, id="it begins"),
        pytest.param(RUNNING, RUNNING, False, id="it runs"),
        pytest.param(SUCCEEDED, SUCCEEDED, True, id="every instance is elsewhere"),
        pytest.param("False/Failed", "False/Failed", False, id="it has failed"),
    ],
)
def test_recovery_of_a_failed_host_is_shown(of: str, expected: str, *, evicted: bool) -> None:
    given = facts(spec=with_fields(ON, maintenance="ha"))
    plan = decide_after(given, None, LABELS, LifecycleSettings().forgotten, eviction(of))
    assert plan.condition is not None
    assert f"{plan.condition[0]}/{plan.condition[1]}" == expected
    assert (plan.evicted, plan.create) == (evicted, None)


def test_recovery_that_is_over_does_not_empty_a_host() -> None:
    given = facts(spec=MANUAL)
    forgotten = LifecycleSettings().forgotten
    plan = decide_after(given, None, LABELS, forgotten, eviction(SUCCEEDED))
    assert plan == decide_after(given, None, LABELS, forgotten)


THERE = HostGuests((HostGuest("default", "a", uid="p", owner="v"),))


@pytest.mark.parametrize(
    ("guests", "again"),
    [
        pytest.param(THERE, True, id="pod-has-come"),
        pytest.param(HostGuests(unread="503"), False, id="not-read-leaves-it"),
        pytest.param(NO_GUESTS, False, id="none"),
    ],
)
def test_launcher_pod_on_an_evicted_host_has_it_evicted_again(
    guests: HostGuests, *, again: bool
) -> None:
    given = facts(condition("Evicting", "False", "Succeeded"), spec=LEAVING, evicted=True)
    forgotten = LifecycleSettings().forgotten
    over = decide_after(given, eviction("False/Succeeded"), (), forgotten, guests=guests)
    assert (over.delete is not None, over.evicted) == (again, not again)
    gone = decide_after(given, None, (), forgotten, guests=guests)
    assert (gone.create is not None) is again


@pytest.mark.parametrize("guests", [THERE, HostGuests(unread="403")], ids=["there", "unread"])
def test_host_that_the_compute_service_forgot_is_not_empty_with_guests(guests: HostGuests) -> None:
    given = facts(
        condition("Registered", "False", "NotRegistered"), spec=LEAVING, serviceId="service"
    )
    later = replace(given, now=NOW + LifecycleSettings().forgotten)
    plan = decide_after(later, None, (), LifecycleSettings().forgotten, guests=guests)
    assert plan.evicted is False
    assert plan.condition is not None
    assert plan.condition[0] == "False"
    empty = decide_after(later, None, (), LifecycleSettings().forgotten)
    assert empty.evicted is True
