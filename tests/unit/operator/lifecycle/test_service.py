"""Whether the compute service should have a host enabled, disabled or forced down."""

from __future__ import annotations

import dataclasses
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import HOST, ON, facts, state_of
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.fencing import RECORD, Fencing, FencingPhase, as_record
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle.evictions import Evictions
from hypercobalt.operator.lifecycle.service import DesiredService, ServiceSync, desired, differs
from hypercobalt.operator.lifecycle.step import PATIENCE, POLL, LifecycleFacts, StepOutcome
from hypercobalt.operator.shared.ha_mode import HaMode
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


def test_host_that_this_operator_recovers_takes_no_servers() -> None:
    wanted = desired(facts(spec=replace(ON, maintenance="ha")), None, HaMode.INTERNAL)
    assert wanted is not None
    assert not wanted.enabled


def test_host_without_lifecycle_is_enabled_unless_disabled_outside() -> None:
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


NEVER_RECORDED = None
WAS_ENABLED = disabled("False", "Succeeded")
WAS_OURS = disabled("True", "Succeeded")
NOT_ENABLED = disabled("True", "Failed")
WAS_THEIRS = disabled("True", "DisabledByOthers")


@pytest.mark.parametrize(
    ("before", "host", "after"),
    [
        pytest.param(NEVER_RECORDED, "new service", "enabled", id="nothing was recorded yet"),
        pytest.param(WAS_OURS, OURS, "enabled", id="a maintenance is over"),
        pytest.param(WAS_OURS, "fenced", "enabled", id="the HA service gives it back"),
        pytest.param(WAS_OURS, EVICTED, "enabled", id="an Eviction has ended"),
        pytest.param(NOT_ENABLED, OURS, "enabled", id="once more"),
        pytest.param(WAS_ENABLED, OURS, "enabled", id="a call whose answer was lost"),
        pytest.param(WAS_ENABLED, "bad disk", "theirs", id="another client disables it"),
        pytest.param(WAS_ENABLED, "", "theirs", id="another client disables it without a reason"),
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
    outcome = await sync(compute).run(given)
    enabled = compute.world.hosts["kvm-a"].enabled
    assert enabled is (after == "enabled")
    wanted = "False/Succeeded" if enabled else "True/DisabledByOthers"
    assert state_of(outcome.facts, "HypervisorDisabled") == wanted


@pytest.mark.parametrize(("before", "stays"), [(WAS_ENABLED, True), (WAS_OURS, False)])
async def test_forced_down_is_taken_back_at_the_end_of_a_maintenance_only(
    before: Condition, stays: bool
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    compute.world.change_host("kvm-a", forced_down=True, up=False)
    given = dataclasses.replace(facts(IN_SERVICE, before), host=compute.world.hosts["kvm-a"])
    outcome = await sync(compute).run(given)
    assert compute.world.hosts["kvm-a"].forced_down is stays
    assert state_of(outcome.facts, "HypervisorDisabled").startswith(str(stays))


async def test_host_whose_service_does_not_report_is_enabled_once_it_does() -> None:
    """Nova keeps its COMPUTE_STATUS_DISABLED in Placement if it is enabled before."""
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    compute.world.change_host("kvm-a", enabled=False, disabled_reason=OURS, up=False)
    given = dataclasses.replace(facts(IN_SERVICE, WAS_OURS), host=compute.world.hosts["kvm-a"])
    outcome = await sync(compute).run(given)
    assert not compute.world.hosts["kvm-a"].enabled
    assert outcome.look_again == POLL
    assert state_of(outcome.facts, "HypervisorDisabled") == "True/Succeeded"
    found = outcome.facts.condition("HypervisorDisabled")
    assert found is not None
    assert "waiting for its compute service to report" in found.message

    compute.world.change_host("kvm-a", up=True)
    again = dataclasses.replace(outcome.facts, host=compute.world.hosts["kvm-a"])
    outcome = await sync(compute).run(again)
    assert compute.world.hosts["kvm-a"].enabled
    assert (outcome.look_again, state_of(outcome.facts, "HypervisorDisabled")) == (
        *(None, "False/Succeeded"),
    )


def dead(spec: HypervisorSpec) -> LifecycleFacts:
    """A host that has failed, by the operator's record."""
    given = facts(IN_SERVICE, WAS_OURS, spec=spec)
    record = as_record(Fencing(phase=FencingPhase.FENCED, bootID="b1"))
    meta = replace(given.hypervisor.metadata, annotations={RECORD: record})
    return dataclasses.replace(given, hypervisor=replace(given.hypervisor, metadata=meta))


def test_host_that_counts_as_dead_is_taken_back_by_the_ha_service_alone() -> None:
    assert desired(dead(ON), None, HaMode.INTERNAL) is None
    wanted = desired(dead(replace(ON, maintenance="manual")), None, HaMode.INTERNAL)
    assert wanted is not None
    assert not wanted.enabled


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        pytest.param(None, EVICTED, id="disabled for it"),
        pytest.param(OURS, EVICTED, id="was disabled by the operator"),
        pytest.param(
            "bad disk", "bad disk", id="was disabled by another client, who is not overwritten"
        ),
    ],
)
async def test_eviction_takes_over_a_host_that_the_operator_disabled(
    host: str | None, reason: str
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    if host is not None:
        compute.world.change_host("kvm-a", enabled=False, disabled_reason=host)
    given = facts(IN_SERVICE, WAS_ENABLED)
    given = dataclasses.replace(given, host=compute.world.hosts["kvm-a"])
    outcome = await sync(compute, EVICTION).run(given)
    assert compute.world.hosts["kvm-a"].disabled_reason == reason
    assert state_of(outcome.facts, "HypervisorDisabled").startswith("True")


def with_reason(reason: str, *, enabled: bool = False, forced_down: bool = False) -> Host:
    return dataclasses.replace(
        HOST, enabled=enabled, disabled_reason=reason, forced_down=forced_down
    )


@pytest.mark.parametrize(
    ("host", "wanted", "expected"),
    [
        pytest.param(HOST, DesiredService(False, OURS), True, id="enabled"),
        pytest.param(
            with_reason("bad disk"), DesiredService(False, OURS), True, id="another's reason"
        ),
        pytest.param(with_reason(OURS), DesiredService(False, OURS), False, id="as it should be"),
        pytest.param(with_reason(OURS), DesiredService(False, EVICTED), True, id="ours, of before"),
        pytest.param(
            with_reason("AUTO: no libvirt"), DesiredService(True), False, id="by nova-compute"
        ),
        pytest.param(
            with_reason("AUTO: no libvirt", forced_down=True),
            DesiredService(True),
            True,
            id="forced down",
        ),
        pytest.param(
            with_reason(OURS, enabled=True, forced_down=True),
            DesiredService(True, yields=True),
            False,
            id="forced down by others, with a reason of ours that is over",
        ),
    ],
)
def test_nova_is_called_only_when_the_host_differs(
    host: Host, wanted: DesiredService, expected: bool
) -> None:
    assert differs(host, wanted) is expected


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(facts(host=None), id="Nova does not list the host"),
        pytest.param(facts(spec=replace(ON, maintenance="ha")), id="the HA service has it"),
    ],
)
async def test_host_that_is_not_managed_is_left_as_it_is(given: LifecycleFacts) -> None:
    compute = FakeCompute(lambda: NOW)
    assert desired(given, None) is None
    assert await sync(compute).run(given) == StepOutcome(given)
    assert compute.world.calls == []


@pytest.mark.parametrize(
    ("reason", "status", "enabled", "after"),
    [
        pytest.param("BridgeDown", "False", False, "Network condition: BridgeDown", id="bridge"),
        pytest.param(
            "SwitchNotResponding",
            *("False", False, "Network condition: SwitchNotResponding"),
            id="switch",
        ),
        pytest.param("OVNDisconnected", "False", True, "", id="what all hosts share"),
        pytest.param("OVNControllerFailed", "False", True, "", id="no port is bound"),
        pytest.param("Degraded", "False", True, "", id="a bond"),
        pytest.param("AgentSilent", "Unknown", True, "", id="the agent is silent"),
        pytest.param("NotReported", "Unknown", True, "", id="nothing is reported"),
    ],
)
async def test_host_is_disabled_for_its_own_switch_and_for_nothing_that_hosts_share(
    reason: str, status: str, *, enabled: bool, after: str
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    given = facts(IN_SERVICE, WAS_ENABLED, condition("NetworkHealthy", status, reason))
    given = dataclasses.replace(given, host=compute.world.hosts["kvm-a"])
    await sync(compute).run(given)
    host = compute.world.hosts["kvm-a"]
    assert (host.enabled, host.disabled_reason) == (enabled, after)


async def test_host_whose_switch_is_mended_is_enabled_again() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    reason = "Network condition: BridgeDown"
    compute.world.change_host("kvm-a", enabled=False, disabled_reason=reason)
    repaired = condition("NetworkHealthy", "True", "Healthy")
    given = facts(IN_SERVICE, WAS_OURS, repaired, host=compute.world.hosts["kvm-a"])
    await sync(compute).run(given)
    assert compute.world.hosts["kvm-a"].enabled


def test_host_with_a_broken_switch_is_disabled_in_every_mode_and_yields_to_people() -> None:
    broken = condition("NetworkHealthy", "False", "BridgeDown")
    for mode in HaMode:
        wanted = desired(facts(IN_SERVICE, broken), None, mode)
        assert wanted is not None
        assert not differs(with_reason("bad disk"), wanted)
        assert differs(HOST, wanted)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (HaMode.INTERNAL, "Node condition: MemoryFailed"),
        (HaMode.EXTERNAL, "Node condition: MemoryFailed"),
        (HaMode.OFF, ""),
    ],
)
def test_host_whose_memory_has_failed_takes_no_new_servers(mode: HaMode, reason: str) -> None:
    failed = condition("AcceptsNewInstances", "False", "MemoryFailed")
    wanted = desired(facts(IN_SERVICE, WAS_ENABLED, failed), None, mode)
    assert wanted is not None
    assert (wanted.enabled, wanted.reason) == (not reason, reason)
    assert not differs(with_reason("bad disk"), wanted), "a person's reason stays"


@pytest.mark.parametrize(("status", "enabled"), [("False", False), ("True", True)])
def test_host_whose_node_is_short_of_memory_takes_no_new_servers(
    status: str, *, enabled: bool
) -> None:
    short = condition("NodeHealthy", status, "MemoryPressure")
    wanted = desired(facts(IN_SERVICE, WAS_ENABLED, short), None)
    assert wanted is not None
    assert wanted.enabled is enabled


async def test_host_is_enabled_again_once_the_failure_of_its_memory_is_over() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    reason = "Node condition: MemoryFailed"
    compute.world.change_host("kvm-a", enabled=False, disabled_reason=reason)
    over = condition("AcceptsNewInstances", "True", "NodeHealthy")
    given = facts(IN_SERVICE, WAS_OURS, over, host=compute.world.hosts["kvm-a"])
    await sync(compute).run(given)
    assert compute.world.hosts["kvm-a"].enabled


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (with_reason("bad disk"), "is disabled outside hypercobalt; not managed: bad disk"),
        (with_reason(""), "is disabled outside hypercobalt; not managed: without a reason"),
        (
            with_reason("", enabled=True, forced_down=True),
            "is forced down outside hypercobalt; not managed: without a reason",
        ),
    ],
)
async def test_message_names_what_was_done_outside(host: Host, text: str) -> None:
    given = facts(IN_SERVICE, WAS_THEIRS, host=host)
    outcome = await sync(FakeCompute(lambda: NOW)).run(given)
    shown = outcome.facts.condition("HypervisorDisabled")
    assert shown is not None
    assert shown.message == f"Hypervisor {text}"


@pytest.mark.parametrize(
    ("enabled", "maintenance", "state"),
    [(True, "manual", "False/Failed"), (False, None, "True/Failed")],
    ids=["to disable it", "to enable it"],
)
async def test_call_that_fails_leaves_the_status_of_nova(
    enabled: bool, maintenance: str | None, state: str
) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError("no answer")
    host = HOST if enabled else with_reason(OURS)
    given = facts(IN_SERVICE, WAS_OURS, host=host, spec=replace(ON, maintenance=maintenance))
    outcome = await sync(compute).run(given)
    assert state_of(outcome.facts, "HypervisorDisabled") == state
    assert (outcome.look_again, str(outcome.error)) == (PATIENCE, "no answer")


def test_a_reason_is_no_longer_than_nova_takes() -> None:
    long = replace(EVICTION, spec=replace(EVICTION.spec, reason="x" * 1000))
    wanted = desired(facts(IN_SERVICE), long)
    assert wanted is not None
    assert len(wanted.reason) == 255


def sync(compute: FakeCompute, *there: Eviction) -> ServiceSync:
    evictions = Evictions(cast("WriteCache[Eviction]", None), lambda _name: there)
    return ServiceSync(compute.hosts, evictions, HaMode.EXTERNAL)
