"""Aggregates of a host: which ones it should be in, and the order of changes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given as given_
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import HOST, ON, facts, state_of
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.hypervisor_status import Aggregate
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import HostAggregate
from hypercobalt.operator.lifecycle.aggregates import AggregateSync, decide, desired
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts

GENERAL = replace(ON, aggregates=("general", "zone-a", "general"))
LEAVING = replace(GENERAL, maintenance="termination")
EVICTED = condition("Evicting", "False", "Succeeded")
DONE = condition("Onboarding", "False", "Succeeded")
HANDOVER = condition("Onboarding", "True", "Handover")
TESTING = condition("Onboarding", "True", "Testing")
TRAITS = condition("TraitsUpdated", "True", "Succeeded")


@pytest.mark.parametrize(
    ("given", "names", "reason"),
    [
        pytest.param(facts(TESTING), ("zone-a", "tests"), "TestAggregates", id="being tested"),
        pytest.param(
            facts(condition("Onboarding", "True", "Initial")),
            ("zone-a", "tests"),
            "TestAggregates",
            id="before its test",
        ),
        pytest.param(facts(HANDOVER), ("zone-a", "tests"), "WaitingForTraits", id="traits first"),
        pytest.param(
            facts(HANDOVER, host=dataclasses.replace(HOST, servers=("i1",))),
            None,
            "WaitingForTraits",
            id="traits first, with servers, which stay where they are",
        ),
        pytest.param(
            facts(HANDOVER, TRAITS, spec=GENERAL),
            ("general", "zone-a"),
            "Succeeded",
            id="traits are there; each name once",
        ),
        pytest.param(
            facts(DONE, spec=GENERAL), ("general", "zone-a"), "Succeeded", id="in service"
        ),
        pytest.param(facts(DONE), (), "Succeeded", id="in service, none wanted"),
        pytest.param(
            facts(DONE, spec=LEAVING), None, "EvictionInProgress", id="leaving, not empty"
        ),
        pytest.param(
            facts(DONE, condition("Evicting", "False", "Failed"), spec=LEAVING),
            None,
            "EvictionInProgress",
            id="leaving, eviction failed",
        ),
        pytest.param(facts(DONE, EVICTED, spec=LEAVING), (), "Terminating", id="leaving, empty"),
    ],
)
def test_desired_aggregates_follow_from_lifecycle_and_spec(
    given: LifecycleFacts, names: tuple[str, ...] | None, reason: str
) -> None:
    found = desired(given, "tests")
    assert found is not None
    assert (found.names, found.reason) == (names, reason)
    assert (found.status == "True") is (reason == "Succeeded")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            facts(DONE, spec=replace(GENERAL, lifecycleEnabled=False)), id="lifecycle off"
        ),
        pytest.param(facts(DONE, host=None), id="not registered"),
        pytest.param(facts(), id="onboarding has not begun"),
        pytest.param(facts(condition("Onboarding", "False", "Aborted")), id="onboarding failed"),
        pytest.param(facts(TESTING, labels={}), id="zone label missing: no empty name"),
    ],
)
def test_host_stays_where_it_is(given: LifecycleFacts) -> None:
    assert desired(given, "tests") is None


def aggregate(number: int, name: str, *hosts: str, zone: str = "") -> HostAggregate:
    metadata = {"availability_zone": zone} if zone else {}
    return HostAggregate(number, f"uuid-{number}", name, hosts, metadata)


def steps(wanted: tuple[str, ...], *known: HostAggregate) -> list[str]:
    plan = decide(HOST, wanted, known)
    return [f"{'+' if c.enter else '-'}{c.aggregate.name}/{c.aggregate.id}" for c in plan.changes]


def test_new_aggregate_is_entered_before_the_old_one_is_left() -> None:
    old, new = aggregate(1, "old", "kvm-a"), aggregate(2, "new", "kvm-b")
    assert steps(("new",), old, new) == ["+new/2", "-old/1"]


def test_another_zone_is_left_before_one_is_entered() -> None:
    known = (
        aggregate(1, "zone-a", "kvm-a", zone="zone-a"),
        aggregate(2, "zone-b", zone="zone-b"),
        aggregate(3, "old", "kvm-a"),
    )
    assert steps(("zone-b",), *known) == ["-zone-a/1", "+zone-b/2", "-old/3"]


def test_zone_is_left_last_without_a_new_one_to_enter() -> None:
    known = (aggregate(1, "zone-a", "kvm-a", zone="zone-a"), aggregate(2, "new"))
    assert steps(("new",), *known) == ["+new/2", "-zone-a/1"]


def test_same_zone_under_another_name_is_entered_first() -> None:
    known = (
        aggregate(1, "zone-a", "kvm-a", zone="zone-a"),
        aggregate(2, "zone-a-new", zone="zone-a"),
    )
    assert steps(("zone-a-new",), *known) == ["+zone-a-new/2", "-zone-a/1"]


def test_host_stays_in_its_own_of_two_aggregates_of_one_name() -> None:
    assert steps(("twice",), aggregate(1, "twice"), aggregate(2, "twice", "kvm-a")) == []


def test_all_missing_names_are_named_and_nothing_is_changed() -> None:
    plan = decide(HOST, ("x", "there", "y"), [aggregate(1, "there"), aggregate(2, "old", "kvm-a")])
    assert plan.missing == ("x", "y")
    assert plan.changes == ()


_KNOWN = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.booleans(), st.sampled_from(["", "", "zone-a", "zone-b"])
    ),
    max_size=8,
)


@given_(st.sets(st.sampled_from("abcd")), _KNOWN)
def test_after_the_changes_the_host_is_just_where_it_should_be(
    wanted: set[str], rows: list[tuple[str, bool, str]]
) -> None:
    known = [
        aggregate(n, name, *(["kvm-a"] if member else []), zone=zone)
        for n, (name, member, zone) in enumerate(rows)
    ]
    plan = decide(HOST, sorted(wanted), known)
    if plan.missing:
        assert not {one.name for one in known} & set(plan.missing)
        return
    there = {one.id for one in known if "kvm-a" in one.hosts}
    for change in plan.changes:
        (there.add if change.enter else there.discard)(change.aggregate.id)
    assert sorted(one.name for one in known if one.id in there) == sorted(wanted)


async def test_a_listing_that_is_refused_is_reported_and_tried_again() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: RefusedError(f"{what}: Forbidden", code=403)
    outcome = await AggregateSync(compute, "tests").run(facts(DONE, spec=GENERAL))
    assert state_of(outcome.facts, "AggregatesUpdated") == "False/Failed"
    found = outcome.facts.condition("AggregatesUpdated")
    assert found is not None
    assert "aggregates.list: Forbidden" in found.message
    assert outcome.look_again == PATIENCE


LEFT_ALONE = condition("Onboarding", "False", "Aborted")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(facts(LEFT_ALONE), id="not managed"),
        pytest.param(facts(DONE, host=None), id="not registered"),
    ],
)
async def test_host_that_is_not_managed_gets_no_condition(given: LifecycleFacts) -> None:
    compute = FakeCompute(lambda: NOW)
    assert (await AggregateSync(compute, "tests").run(given)).facts is given
    assert compute.world.calls == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(DONE, spec=LEAVING), "False/EvictionInProgress", id="it stays"),
        pytest.param(
            facts(DONE, spec=GENERAL).with_compared("aggregates", "general", "zone-a"),
            "True/Succeeded",
            id="compared in this pass already",
        ),
    ],
)
async def test_nova_is_read_only_for_a_change(given: LifecycleFacts, expected: str) -> None:
    compute = FakeCompute(lambda: NOW)
    outcome = await AggregateSync(compute, "tests").run(given)
    assert state_of(outcome.facts, "AggregatesUpdated") == expected
    assert compute.world.calls == []


def in_service(compute: FakeCompute, *last: str) -> LifecycleFacts:
    """A host that has to be in `general` and `zone-a`, and was in those before."""
    host = compute.world.add_host("kvm-a")
    there = tuple(Aggregate(name=one, uuid=one) for one in last)
    return facts(DONE, spec=GENERAL, host=host, aggregates=there)


@pytest.mark.parametrize(
    ("wanted", "end"),
    [((), "no host aggregates"), (("general",), "; 1 of spec.aggregates are ignored")],
)
async def test_service_without_aggregates_has_all_that_can_be_had(
    wanted: tuple[str, ...], end: str
) -> None:
    compute = FakeCompute(lambda: NOW, has=())
    given = facts(DONE, spec=replace(ON, aggregates=wanted))
    found = (await AggregateSync(compute, "tests").run(given)).facts.condition("AggregatesUpdated")
    assert found is not None
    assert (found.status, found.message.endswith(end)) == ("True", True)


async def test_host_enters_and_leaves() -> None:
    compute = FakeCompute(lambda: NOW)
    given = in_service(compute, "old")
    compute.world.add_aggregate("old", hosts=["kvm-a"])
    for name in ("zone-a", "general", "others"):
        compute.world.add_aggregate(name, hosts=["kvm-b"])
    outcome = await AggregateSync(compute, "tests").run(given)
    assert compute.world.names_of("kvm-a") == {"general", "zone-a"}
    assert state_of(outcome.facts, "AggregatesUpdated") == "True/Succeeded"
    shown = [one.name for one in outcome.facts.hypervisor.status.aggregates]
    assert shown == ["general", "zone-a"]
    assert ("aggregates", "general", "zone-a") in outcome.facts.compared


@pytest.mark.parametrize(
    ("made", "last", "hosts", "listings"),
    [
        pytest.param(("general", "zone-a"), ("general", "zone-a"), ("kvm-a",), 1, id="as it was"),
        pytest.param(("general", "zone-a"), ("old",), ("kvm-a",), 1, id="arrived meanwhile"),
        pytest.param(("general", "zone-a"), ("old",), (), 1, id="a change of the spec"),
        pytest.param(("general", "zone-a"), ("general", "zone-a"), (), 2, id="drift is confirmed"),
        pytest.param(("general",), ("general",), ("kvm-a",), 2, id="one is missing"),
    ],
)
async def test_only_what_a_listing_lacks_is_listed_again(
    made: tuple[str, ...], last: tuple[str, ...], hosts: tuple[str, ...], listings: int
) -> None:
    compute = FakeCompute(lambda: NOW)
    given = in_service(compute, *last)
    for name in made:
        compute.world.add_aggregate(name, hosts=hosts)
    await AggregateSync(compute, "tests").run(given)
    assert compute.world.calls.count("aggregates.list") == listings


async def test_missing_aggregate_is_named_and_nothing_is_changed() -> None:
    compute = FakeCompute(lambda: NOW)
    given = in_service(compute)
    compute.world.add_aggregate("general")
    outcome = await AggregateSync(compute, "tests").run(given)
    found = outcome.facts.condition("AggregatesUpdated")
    assert found is not None
    assert found.message.endswith("there is no aggregate 'zone-a': create it")
    assert (outcome.look_again, compute.world.names_of("kvm-a")) == (None, set())


async def test_refused_change_does_not_stop_the_others() -> None:
    compute = FakeCompute(lambda: NOW)
    given = in_service(compute)
    for name in ("general", "zone-a"):
        compute.world.add_aggregate(name)
    refused = RefusedError("it has servers")
    compute.world.fault = lambda what, about: refused if about == "general kvm-a" else None
    outcome = await AggregateSync(compute, "tests").run(given)
    assert compute.world.names_of("kvm-a") == {"zone-a"}
    assert state_of(outcome.facts, "AggregatesUpdated") == "False/Failed"
    assert (outcome.error, outcome.look_again) == (refused, PATIENCE)


async def test_failed_aggregates_stay_failed_while_nova_is_away() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError(f"{what}: 503")
    last = tuple(Aggregate(name=one, uuid=one) for one in ("general", "zone-a"))
    was = condition("AggregatesUpdated", "False", "Failed")
    outcome = await AggregateSync(compute, "tests").run(
        facts(DONE, was, spec=GENERAL, aggregates=last)
    )
    found = outcome.facts.condition("AggregatesUpdated")
    assert found is not None
    assert found.message == "failed to apply aggregates: aggregates.list: 503"


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param("general", "True/Succeeded", id="nothing else is wanted"),
        pytest.param("old", "False/Failed", id="the spec has changed"),
    ],
)
async def test_nova_that_is_away_fails_a_changed_spec_only(there: str, expected: str) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError(f"{what}: 503")
    was = condition("AggregatesUpdated", "True", "Succeeded")
    last = tuple(Aggregate(name=one, uuid=one) for one in (there, "zone-a"))
    given = facts(DONE, was, spec=GENERAL, aggregates=last)
    outcome = await AggregateSync(compute, "tests").run(given)
    assert state_of(outcome.facts, "AggregatesUpdated") == expected
    assert outcome.look_again == PATIENCE
