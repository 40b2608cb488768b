"""What the compute service should say of a host."""

from __future__ import annotations

import dataclasses
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts, said
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.maintenance_eviction import Evictions
from hypercobalt.operator.lifecycle.service import ServiceSync, desired
from hypercobalt.runtime.write_cache import WriteCache


@pytest.mark.parametrize("mode", ["manual", "auto", "termination"])
def test_a_cleanup_that_fails_does_not_keep_a_host_in_service(mode: str) -> None:
    pending = condition("Onboarding", "True", "Aborted", "cannot delete the test servers yet")
    wanted = desired(facts(pending, spec=replace(ON, maintenance=mode)), None)
    assert wanted is not None
    assert not wanted.enabled


@pytest.mark.parametrize("reason", ["Initial", "Testing", "Handover"])
def test_an_onboarding_that_is_under_way_has_the_host_to_itself(reason: str) -> None:
    under_way = condition("Onboarding", "True", reason)
    assert desired(facts(under_way, spec=replace(ON, maintenance="manual")), None) is None


def test_host_that_nobody_onboards_is_enabled_unless_others_disabled_it() -> None:
    new = desired(facts(), None)
    known = desired(facts(WAS_ENABLED), None)
    assert new is not None
    assert known is not None
    assert (new.enabled, new.yields, known.enabled, known.yields) == (True, False, True, True)


def test_host_whose_onboarding_failed_is_not_enabled() -> None:
    assert desired(facts(condition("Onboarding", "False", "Aborted")), None) is None


IN_SERVICE = condition("Onboarding", "False", "Succeeded")
OURS, EVICTED = "Hypervisor CRD: spec.maintenance=manual", "Eviction kvm-a-boot: reboot"
EVICTION = Eviction(
    metadata=ObjectMeta(name="kvm-a-boot"), spec=EvictionSpec(hypervisor="kvm-a", reason="reboot")
)


def disabled(status: str, reason: str) -> Condition:
    return condition("HypervisorDisabled", status, reason)


NEVER_SAID = None
WAS_ENABLED = disabled("False", "Succeeded")
WAS_OURS = disabled("True", "Succeeded")
NOT_ENABLED = disabled("True", "Failed")
WAS_THEIRS = disabled("True", "DisabledByOthers")


@pytest.mark.parametrize(
    ("before", "host", "after"),
    [
        pytest.param(NEVER_SAID, "new service", "enabled", id="nobody has noted anything"),
        pytest.param(WAS_OURS, OURS, "enabled", id="a maintenance is over"),
        pytest.param(WAS_OURS, "fenced", "enabled", id="the HA service gives it back"),
        pytest.param(WAS_OURS, EVICTED, "enabled", id="an Eviction has ended"),
        pytest.param(NOT_ENABLED, OURS, "enabled", id="once more"),
        pytest.param(WAS_ENABLED, OURS, "enabled", id="a call whose answer was lost"),
        pytest.param(WAS_ENABLED, "bad disk", "theirs", id="somebody disables it"),
        pytest.param(WAS_ENABLED, "", "theirs", id="somebody disables it and does not say why"),
        pytest.param(WAS_THEIRS, "bad disk", "theirs", id="it stays theirs"),
        pytest.param(WAS_THEIRS, OURS, "enabled", id="they have put our reason there"),
        pytest.param(WAS_ENABLED, "AUTO: no libvirt", "theirs", id="nova-compute disables it"),
        pytest.param(WAS_OURS, "AUTO: no libvirt", "theirs", id="nova-compute will enable it"),
    ],
)
async def test_enabling_goes_by_the_reason(before: Condition | None, host: str, after: str) -> None:
    compute = FakeCompute(lambda: NOW)
    known = compute.world.add_host("kvm-a")
    compute.world.change_host("kvm-a", enabled=False, disabled_reason=host)
    given = facts(IN_SERVICE, *((before,) if before else ()))
    given = dataclasses.replace(given, host=compute.world.hosts[known.name])
    outcome = await ServiceSync(compute.hosts, evictions()).run(given)
    enabled = compute.world.hosts["kvm-a"].enabled
    assert enabled is (after == "enabled")
    wanted = "False/Succeeded" if enabled else "True/DisabledByOthers"
    assert said(outcome.facts, "HypervisorDisabled") == wanted


@pytest.mark.parametrize(("before", "stays"), [(WAS_ENABLED, True), (WAS_OURS, False)])
async def test_forced_down_is_taken_back_at_the_end_of_a_maintenance_only(
    before: Condition, stays: bool
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    compute.world.change_host("kvm-a", forced_down=True, up=False)
    given = dataclasses.replace(facts(IN_SERVICE, before), host=compute.world.hosts["kvm-a"])
    outcome = await ServiceSync(compute.hosts, evictions()).run(given)
    assert compute.world.hosts["kvm-a"].forced_down is stays
    assert said(outcome.facts, "HypervisorDisabled").startswith(str(stays))


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        pytest.param(None, EVICTED, id="disabled for it"),
        pytest.param(OURS, EVICTED, id="was disabled by the operator"),
        pytest.param("bad disk", "bad disk", id="was disabled by somebody, who is not overwritten"),
    ],
)
async def test_an_eviction_takes_over_what_is_ours(host: str | None, reason: str) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    if host is not None:
        compute.world.change_host("kvm-a", enabled=False, disabled_reason=host)
    given = facts(IN_SERVICE, WAS_ENABLED)
    given = dataclasses.replace(given, host=compute.world.hosts["kvm-a"])
    outcome = await ServiceSync(compute.hosts, evictions(EVICTION)).run(given)
    assert compute.world.hosts["kvm-a"].disabled_reason == reason
    assert said(outcome.facts, "HypervisorDisabled").startswith("True")


def test_a_reason_is_no_longer_than_nova_takes() -> None:
    long = replace(EVICTION, spec=replace(EVICTION.spec, reason="x" * 1000))
    wanted = desired(facts(IN_SERVICE), long)
    assert wanted is not None
    assert len(wanted.reason) == 255


def evictions(*there: Eviction) -> Evictions:
    return Evictions(cast("WriteCache[Eviction]", None), lambda _name: there)
