"""Which Eviction belongs to which failure of a host."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import Eviction, EvictionMode, EvictionSpec, EvictionStatus, Trigger
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.ha.planning.evictions import (
    failed_before,
    recovery,
    succeeded,
)
from hypercobalt.operator.shared.evictions import is_recovery, is_whole, present


def host(name: str = "kvm-a", boot: str = "b1") -> Hypervisor:
    return Hypervisor(metadata=ObjectMeta(name=name, uid="u"), status=HypervisorStatus(bootID=boot))


def named(
    given: Hypervisor, mode: EvictionMode = EvictionMode.EVACUATE, since: datetime | None = NOW
) -> str:
    return recovery(given, mode, since).metadata.name


def test_one_failure_has_one_eviction_and_the_next_one_another() -> None:
    name = named(host())
    assert named(host()) == name
    others = {
        named(host("kvm-b")),
        named(host(boot="b2")),
        named(host(), EvictionMode.LIVE),
        named(host(), since=None),
        named(host(), since=NOW + timedelta(seconds=1)),
    }
    assert len(others | {name}) == 6


def test_name_of_a_host_of_any_length_gives_a_name_of_an_object() -> None:
    assert len(named(host("h" * 253))) == 3 + 200 + 9
    assert named(host()).startswith("ha-kvm-a-")
    assert len(named(host())) == len("ha-kvm-a-") + 8


def test_eviction_goes_with_its_host_and_holds_it() -> None:
    made = recovery(host(), EvictionMode.LIVE, NOW)
    (owner,) = made.metadata.ownerReferences
    assert (owner.name, owner.controller, owner.blockOwnerDeletion) == ("kvm-a", True, True)
    assert made.spec == EvictionSpec(
        hypervisor="kvm-a",
        reason="High availability: the host is not Ready, but alive",
        trigger=Trigger.NODE_FAILURE,
        mode=EvictionMode.LIVE,
    )
    dead = recovery(host(), EvictionMode.EVACUATE, NOW)
    assert dead.spec.reason == "High availability: the host is proven dead"


def test_eviction_of_a_host_that_is_being_deleted_has_no_owner() -> None:
    """A deletion in the foreground, as of its Node, would delete it as soon as it is made."""
    given = host()
    going = replace(given, metadata=replace(given.metadata, deletionTimestamp=NOW))
    made = recovery(going, EvictionMode.EVACUATE, NOW)
    assert made.metadata.ownerReferences == ()
    assert made.metadata.name == named(given)


OURS = recovery(host(), EvictionMode.EVACUATE, NOW)


@pytest.mark.parametrize(
    ("given", "whole", "ours"),
    [
        pytest.param(OURS, True, True, id="made for a failure"),
        pytest.param(
            replace(OURS, metadata=ObjectMeta(name="upgrade")), True, False, id="a person's"
        ),
        pytest.param(
            replace(OURS, spec=replace(OURS.spec, trigger="")), True, False, id="no failure"
        ),
        pytest.param(
            replace(OURS, spec=replace(OURS.spec, instances=("vm-1",))), False, False, id="of some"
        ),
        pytest.param(
            replace(OURS, spec=replace(OURS.spec, mode=EvictionMode.RESTART)),
            False,
            False,
            id="restarts",
        ),
    ],
)
def test_eviction_of_a_failure_is_of_all_instances(
    given: Eviction, whole: bool, ours: bool
) -> None:
    assert (is_whole(given), is_recovery(given)) == (whole, ours)


@pytest.mark.parametrize(
    ("status", "reason", "well"),
    [("False", "Succeeded", True), ("False", "Failed", False), ("True", "Running", False)],
)
def test_eviction_that_has_ended_well_has_succeeded(status: str, reason: str, well: bool) -> None:
    found = EvictionStatus(conditions=(condition("Evicting", status, reason),))
    assert succeeded(replace(OURS, status=found)) is well
    assert not succeeded(OURS)


@pytest.mark.parametrize(
    ("status", "reason", "later", "failed"),
    [
        pytest.param("False", "Failed", 0, True, id="just then"),
        pytest.param("False", "Failed", 1, True, id="before"),
        pytest.param("False", "Failed", -1, False, id="since"),
        pytest.param("False", "Cancelled", 0, True, id="cancelled"),
        pytest.param("False", "Succeeded", 0, False, id="succeeded"),
        pytest.param("True", "Running", 0, False, id="runs"),
    ],
)
def test_eviction_failed_before_a_moment_by_its_transition_time(
    status: str, reason: str, later: int, *, failed: bool
) -> None:
    found = EvictionStatus(conditions=(condition("Evicting", status, reason),))
    at = found.conditions[0].lastTransitionTime + timedelta(seconds=later)
    assert failed_before(replace(OURS, status=found), at) is failed
    assert not failed_before(OURS, at)


def made(name: str, minute: int | None, state: str = "", *, going: bool = False) -> Eviction:
    status, _, reason = state.partition("/")
    found = (condition("Evicting", status, reason),) if state else ()
    at = None if minute is None else NOW + timedelta(minutes=minute)
    meta = ObjectMeta(
        name=f"ha-{name}", creationTimestamp=at, deletionTimestamp=NOW if going else None
    )
    return replace(OURS, metadata=meta, status=EvictionStatus(conditions=found))


FAILED, DONE = made("a", 0, "False/Failed"), made("a", 0, "False/Succeeded")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param((), "", id="none"),
        pytest.param((DONE,), "ha-a", id="the only one"),
        pytest.param((FAILED, made("b", 1, "False/Succeeded")), "ha-b", id="the newest"),
        pytest.param((DONE, made("b", 1)), "ha-b", id="of the next failure, just made"),
        pytest.param(
            (made("b", 1, "False/Failed"), made("a", 0, "True/Running")), "ha-a", id="runs"
        ),
        pytest.param((made("b", 1, going=True), DONE), "ha-a", id="not one that is deleted"),
        pytest.param((DONE, made("b", None, "False/Failed")), "ha-a", id="without a time"),
        pytest.param(
            (replace(OURS, metadata=ObjectMeta(name="upgrade")),), "", id="not a person's"
        ),
    ],
)
@pytest.mark.parametrize("order", [1, -1], ids=["as listed", "in the other order"])
def test_present_recovery_is_the_one_that_runs_or_the_newest(
    given: tuple[Eviction, ...], name: str, order: int
) -> None:
    found = present(given[::order])
    assert (found.metadata.name if found else "") == name
