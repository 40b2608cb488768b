"""Which traits a host's resource provider should have."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given as given_
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts, state_of
from tests.unit.operator.samples import NOW, condition

from hypercobalt.compute.errors import ComputeConflictError, UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Host, ProviderTraits
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.lifecycle.traits import MOST, TraitPlan, TraitSync, decide, is_due

DONE = condition("Onboarding", "False", "Succeeded")
WANTED = replace(ON, customTraits=("CUSTOM_A",))


def plan(
    wanted: tuple[str, ...], there: tuple[str, ...], applied: tuple[str, ...] | None = None
) -> TraitPlan:
    given = facts(spec=replace(ON, customTraits=wanted), appliedTraits=applied)
    return decide(given.hypervisor, ProviderTraits(there, 1))


@pytest.mark.parametrize(
    ("wanted", "there", "applied", "put"),
    [
        pytest.param((), ("HW_X",), None, None, id="none wanted is in force at once"),
        pytest.param(("B", "CUSTOM_A"), ("CUSTOM_A", "B"), (), None, id="order does not matter"),
        pytest.param(("CUSTOM_A",), ("HW_X",), (), ("CUSTOM_A", "HW_X"), id="added, others kept"),
        pytest.param((), ("CUSTOM_A", "HW_X"), ("CUSTOM_A",), ("HW_X",), id="ours taken away"),
        pytest.param((), ("CUSTOM_A", "HW_X"), (), None, id="those of others stay"),
        pytest.param(("HW_Y",), ("HW_X",), (), ("HW_X", "HW_Y"), id="not only custom ones count"),
        pytest.param(("CUSTOM_A",), (), ("CUSTOM_A",), ("CUSTOM_A",), id="drift is put right"),
    ],
)
def test_written_traits_add_wanted_ones_and_remove_applied_ones(
    wanted: tuple[str, ...],
    there: tuple[str, ...],
    applied: tuple[str, ...],
    put: tuple[str, ...] | None,
) -> None:
    assert plan(wanted, there, applied).put == put


def test_traits_that_the_existing_operator_has_put_are_known_by_their_prefix() -> None:
    given = facts(spec=replace(ON, customTraits=("CUSTOM_B",)), traits=("CUSTOM_A", "HW_X"))
    found = decide(given.hypervisor, ProviderTraits(("CUSTOM_A", "HW_X"), 1))
    assert found.put == ("CUSTOM_B", "HW_X")
    assert found.applied == ("CUSTOM_B",)


def test_invalid_trait_names_are_reported_and_the_others_set() -> None:
    found = plan(("CUSTOM_A", "no-good", "x" * 300, "ümlaut"), ())
    assert found.put == ("CUSTOM_A",)
    assert found.invalid == ("no-good", "x" * 300, "ümlaut")


@pytest.mark.parametrize(
    ("wanted", "end"),
    [((), "fake has no traits"), (("CUSTOM_A",), "traits; 1 of spec.customTraits are ignored")],
)
async def test_service_without_traits_has_all_that_can_be_had(
    wanted: tuple[str, ...], end: str
) -> None:
    compute = FakeCompute(lambda: NOW, has=())
    given = facts(DONE, spec=replace(ON, customTraits=wanted))
    found = (await TraitSync(compute).run(given)).facts.condition("TraitsUpdated")
    assert found is not None
    assert (found.status, found.message.endswith(end)) == ("True", True)


async def test_more_traits_than_the_bound_are_named_and_not_set() -> None:
    compute, names = FakeCompute(lambda: NOW), tuple(f"CUSTOM_{n:03}" for n in range(MOST + 12))
    host = compute.world.add_host("kvm-a")
    given = facts(DONE, spec=replace(ON, customTraits=(*names, "x" * 9000)), host=host)
    after = (await TraitSync(compute).run(given)).facts
    assert set(compute.world.traits[host.hypervisor_id].names) >= set(names[:MOST])
    assert names[MOST] not in compute.world.traits[host.hypervisor_id].names
    found = after.condition("TraitsUpdated")
    assert found is not None
    assert (found.status, found.reason) == ("False", "Failed")
    assert f"more than {MOST} traits, not set: 'CUSTOM_{MOST}'" in found.message
    assert "and 2 more" in found.message
    assert len(found.message) < 1000


@given_(*[st.sets(st.sampled_from(["CUSTOM_A", "CUSTOM_B", "HW_X", "HW_Y"])) for _ in range(3)])
def test_provider_gets_all_wanted_traits_and_loses_only_applied_ones(
    wanted: set[str], there: set[str], applied: set[str]
) -> None:
    found = plan(tuple(wanted), tuple(sorted(there)), tuple(sorted(applied)))
    after = set(found.put) if found.put is not None else there
    assert wanted <= after
    assert there - after <= applied
    assert after <= there | wanted


@pytest.mark.parametrize(
    ("given", "due"),
    [
        pytest.param(facts(DONE), True, id="in service"),
        pytest.param(facts(condition("Onboarding", "True", "Handover")), True, id="handed over"),
        pytest.param(facts(condition("Onboarding", "True", "Testing")), False, id="being tested"),
        pytest.param(facts(), False, id="not begun"),
        pytest.param(facts(DONE, host=None), False, id="not registered"),
        pytest.param(
            facts(DONE, spec=replace(ON, maintenance="termination")), False, id="terminating"
        ),
        pytest.param(facts(DONE, spec=replace(ON, lifecycleEnabled=False)), False, id="off"),
    ],
)
def test_traits_are_due_once_the_smoke_test_is_over(given: LifecycleFacts, due: bool) -> None:
    assert is_due(given) is due


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(facts(condition("Onboarding", "True", "Testing")), id="not due"),
        pytest.param(facts(DONE).with_compared("traits"), id="compared in this pass already"),
        pytest.param(facts(DONE, host=None), id="not registered"),
    ],
)
async def test_placement_is_read_only_for_a_change(given: LifecycleFacts) -> None:
    compute = FakeCompute(lambda: NOW)
    assert (await TraitSync(compute).run(given)).facts is given
    assert compute.world.calls == []


class Racing:
    """Traits of a provider that something else changes whenever they are put, so often."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts, self.fresh, self.puts = conflicts, list[bool](), 0

    async def get(self, provider: str, *, fresh: bool = False) -> ProviderTraits:
        self.fresh.append(fresh)
        return ProviderTraits((), 1)

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        self.puts += 1
        if self.puts <= self.conflicts:
            raise ComputeConflictError("generation 2")
        return traits


@pytest.mark.parametrize(
    ("conflicts", "put_last", "fresh", "expected"),
    [
        pytest.param(0, ("CUSTOM_A",), [False], "True/Succeeded", id="drift is confirmed"),
        pytest.param(0, (), [True], "True/Succeeded", id="a change begins with what is there now"),
        pytest.param(2, ("CUSTOM_A",), [False, True, True], "True/Succeeded", id="read again"),
        pytest.param(3, ("CUSTOM_A",), [False, True, True], "False/Failed", id="too often"),
    ],
)
async def test_provider_that_changes_meanwhile_is_read_again(
    conflicts: int, put_last: tuple[str, ...], fresh: list[bool], expected: str
) -> None:
    racing = Racing(conflicts)
    service = cast("ComputeService", SimpleNamespace(traits=racing, name="nova"))
    outcome = await TraitSync(service).run(facts(DONE, spec=WANTED, appliedTraits=put_last))
    assert state_of(outcome.facts, "TraitsUpdated") == expected
    assert (racing.fresh, racing.puts) == (fresh, len(fresh))


@pytest.mark.parametrize(
    ("count", "end"), [(10, "'bad-9'"), (11, "'bad-9' and 1 more")], ids=["as many as fit", "more"]
)
async def test_message_names_invalid_traits(count: int, end: str) -> None:
    compute = FakeCompute(lambda: NOW)
    host = compute.world.add_host("kvm-a")
    names = tuple(f"bad-{n:x}" for n in range(count))
    given = facts(DONE, spec=replace(ON, customTraits=names), host=host)
    found = (await TraitSync(compute).run(given)).facts.condition("TraitsUpdated")
    assert found is not None
    assert "invalid trait names (A-Z, 0-9, _; at most 255 characters): 'bad-0'" in found.message
    assert found.message.endswith(end)


@pytest.mark.parametrize(("length", "shown"), [(64, "x" * 64), (65, "x" * 64 + "…")])
async def test_long_name_is_cut_in_the_message(length: int, shown: str) -> None:
    compute = FakeCompute(lambda: NOW)
    host = compute.world.add_host("kvm-a")
    given = facts(DONE, spec=replace(ON, customTraits=("x" * length,)), host=host)
    found = (await TraitSync(compute).run(given)).facts.condition("TraitsUpdated")
    assert found is not None
    assert found.message.endswith(f"'{shown}'")


async def test_traits_that_were_never_set_are_not_known_to_be_good() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError(f"{what}: 503")
    failed = condition("TraitsUpdated", "False", "Failed")
    given = facts(DONE, failed, spec=WANTED, appliedTraits=("CUSTOM_A",))
    outcome = await TraitSync(compute).run(given)
    found = outcome.facts.condition("TraitsUpdated")
    assert found is not None
    assert found.message == "Failed to update traits: traits.get: 503"


PUT = condition("TraitsUpdated", "True", "Succeeded")


@pytest.mark.parametrize(
    ("put_last", "expected"),
    [
        pytest.param(("CUSTOM_A",), "True/Succeeded", id="nothing else is wanted"),
        pytest.param(("CUSTOM_OLD",), "False/Failed", id="the wish has changed"),
        pytest.param(None, "False/Failed", id="of an older operator, other traits"),
    ],
)
async def test_placement_that_is_away_fails_a_changed_spec_only(
    put_last: tuple[str, ...] | None, expected: str
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError(f"{what}: 503")
    given = facts(DONE, PUT, spec=WANTED, appliedTraits=put_last)
    outcome = await TraitSync(compute).run(given)
    assert state_of(outcome.facts, "TraitsUpdated") == expected
    assert outcome.look_again is not None

    compute.world.fault = None
    host = compute.world.add_host("kvm-a")
    back = await TraitSync(compute).run(replace_host(outcome.facts, host))
    assert state_of(back.facts, "TraitsUpdated") == "True/Succeeded"


def replace_host(found: LifecycleFacts, host: Host) -> LifecycleFacts:
    return dataclasses.replace(found, host=host)
