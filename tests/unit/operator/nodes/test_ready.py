"""`Ready`, one test a rule, in the order in which they win."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.nodes.ready import condition as ready
from hypercobalt.operator.nodes.ready import decide, worth_a_pass

DONE = condition("Onboarding", "False", "Succeeded")
RUNNING = condition("Onboarding", "True", "Testing", "test server boots")
EVICTED = condition("Evicting", "False", "Succeeded")
EVICTING = condition("Evicting", "True", "Running")
TERMINATING = condition("Terminating", "True")
OFFBOARDED = condition("Offboarded", "True")
ON = HypervisorSpec(lifecycleEnabled=True)
MANUAL = HypervisorSpec(lifecycleEnabled=True, maintenance="manual", maintenanceReason="fan")
RECOVERED = HypervisorSpec(lifecycleEnabled=True, maintenance="ha")
FENCED = condition("Fenced", "True", "Proven", "its BMC shows it off")


LIBVIRT = condition("LibVirtConnection", "True", "Connected")
LIBVIRT_DOUBTED = condition("LibVirtConnection", "Unknown", "AgentSilent")
LIBVIRT_AWAY = condition("LibVirtConnection", "False", "ConnectFailed", "no socket")
REPORTING = condition("AgentReporting", "True", "Reporting")
SILENT = condition("AgentReporting", "False", "AgentSilent", "Lease not renewed")
STOPPED = condition("AgentReporting", "False", "AgentStopped", "Lease released")
NEVER = condition("AgentReporting", "Unknown", "NeverReported")
NOT_READY = condition("NodeHealthy", "False", "NotReady", "kubelet: no network")
UNREACHABLE = condition("NodeHealthy", "Unknown", "Unreachable", "kubelet: away")
CLAIMED = condition("Registered", "False", "Claimed", "belongs to kvm-b")
BY_OTHERS = condition("HypervisorDisabled", "True", "DisabledByOthers", "disabled: fan")

BY_EVICTION = condition("HypervisorDisabled", "True", "Succeeded", "Eviction kvm-a: reboot")


def of(spec: HypervisorSpec, *conditions: Condition, ids: bool = True) -> Hypervisor:
    known = "00000000-0000-0000-0000-000000000001" if ids else None
    status = HypervisorStatus(hypervisorId=known, serviceId=known, conditions=conditions)
    return hypervisor(spec=spec, status=status)


def with_status(given: Hypervisor, **fields: None) -> Hypervisor:
    return replace(given, status=replace(given.status, **fields))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(of(ON, DONE, LIBVIRT), "Ready", id="onboarded and in service"),
        pytest.param(of(ON, DONE, LIBVIRT, REPORTING), "Ready", id="its agent reports"),
        pytest.param(of(ON, DONE, LIBVIRT, NEVER), "Ready", id="its agent keeps no Lease"),
        pytest.param(of(ON, DONE, LIBVIRT, STOPPED), "Ready", id="its agent is being updated"),
        pytest.param(of(ON, DONE, LIBVIRT, BY_OTHERS), "Ready", id="disabled by others"),
        pytest.param(
            of(ON, DONE, LIBVIRT, condition("Registered", "True", "Registered")),
            "Ready",
            id="registered in Nova",
        ),
        pytest.param(of(ON, DONE), "LibvirtUnavailable", id="no agent has reported libvirt"),
        pytest.param(
            of(ON, DONE, STOPPED), "LibvirtUnavailable", id="nor did the one that stopped"
        ),
        pytest.param(of(ON, DONE, LIBVIRT_AWAY), "LibvirtUnavailable", id="libvirt is away"),
        pytest.param(of(ON, DONE, LIBVIRT_DOUBTED, SILENT), "AgentSilent", id="agent is silent"),
        pytest.param(of(ON, DONE, LIBVIRT, SILENT), "AgentSilent", id="only its Lease is silent"),
        pytest.param(of(ON, DONE, LIBVIRT_DOUBTED, STOPPED), "AgentSilent", id="stopped for long"),
        pytest.param(
            of(ON, DONE, LIBVIRT_DOUBTED, REPORTING),
            "LibvirtUnavailable",
            id="agent is back, libvirt not reported yet",
        ),
        pytest.param(
            of(ON, DONE, LIBVIRT_DOUBTED), "LibvirtUnavailable", id="the agent has no condition yet"
        ),
        pytest.param(of(ON, DONE, LIBVIRT, NOT_READY), "NodeNotReady", id="by the kubelet"),
        pytest.param(of(ON, DONE, LIBVIRT, UNREACHABLE), "NodeUnreachable", id="kubelet is away"),
        pytest.param(
            of(ON, DONE, LIBVIRT, condition("NodeHealthy", "False", "DiskPressure")),
            "Ready",
            id="disk pressure stops nothing",
        ),
        pytest.param(of(ON, DONE, LIBVIRT, CLAIMED), "Claimed", id="Nova's host is another's"),
        pytest.param(
            of(ON, DONE, LIBVIRT_DOUBTED, UNREACHABLE, SILENT), "AgentSilent", id="a dead host"
        ),
        pytest.param(
            of(ON, DONE, LIBVIRT_AWAY, NOT_READY), "NodeNotReady", id="the Node before libvirt"
        ),
        pytest.param(of(MANUAL, DONE, SILENT), "Maintenance", id="maintenance beats silence"),
        pytest.param(of(ON, RUNNING, SILENT), "Onboarding", id="onboarding beats silence"),
        pytest.param(of(ON, DONE, OFFBOARDED, TERMINATING), "Offboarded", id="offboarded wins"),
        pytest.param(of(ON, RUNNING, TERMINATING), "Terminating", id="terminating next"),
        pytest.param(
            of(ON, DONE, LIBVIRT, condition("Terminating", "False")),
            "Ready",
            id="no longer terminating",
        ),
        pytest.param(of(MANUAL, RUNNING), "Onboarding", id="onboarding beats maintenance"),
        pytest.param(of(MANUAL, DONE, EVICTING), "Evicting", id="evicting"),
        pytest.param(of(MANUAL, DONE, EVICTED), "Evicted", id="evicted"),
        pytest.param(
            of(MANUAL, DONE, condition("Evicting", "False", "Odd")),
            "Evicted",
            id="evicted by others, in their words",
        ),
        pytest.param(of(MANUAL, DONE), "Maintenance", id="maintenance, eviction not begun"),
        pytest.param(
            of(MANUAL, DONE, condition("Evicting", "Unknown", "Unreachable")),
            "Maintenance",
            id="maintenance, compute service away",
        ),
        pytest.param(
            of(MANUAL, DONE, condition("Evicting", "False", "Failed", "i1 is stuck")),
            "Maintenance",
            id="failed eviction does not read evicted",
        ),
        pytest.param(of(MANUAL), "Maintenance", id="maintenance beats not started"),
        pytest.param(
            of(MANUAL, condition("Onboarding", "False", "Aborted")),
            "Maintenance",
            id="maintenance beats aborted",
        ),
        pytest.param(of(ON), "Onboarding", id="not started"),
        pytest.param(of(ON, condition("Onboarding", "False", "Aborted")), "Onboarding", id="gone"),
        pytest.param(of(ON, condition("Onboarding", "False", "Odd")), "Onboarding", id="odd"),
    ],
)
def test_reason_of_ready_follows_from_the_conditions(given: Hypervisor, reason: str) -> None:
    assert decide(given)[0] == reason


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (of(ON, RUNNING), "test server boots"),
        (of(HypervisorSpec(lifecycleEnabled=False)), "lifecycle management is disabled"),
        (of(ON, ids=False), "nova-compute"),
        (with_status(of(ON), serviceId=None), "nova-compute"),
        (with_status(of(ON), hypervisorId=None), "nova-compute"),
        (of(ON), "Onboarding not started"),
        (of(ON, condition("Onboarding", "False", "Aborted")), "aborted"),
        (of(ON, condition("Onboarding", "False", "Odd")), "not yet completed"),
        (of(MANUAL, condition("Evicting", "False", "Failed", "i1 is stuck")), "i1 is stuck"),
        (of(ON, DONE, LIBVIRT, BY_OTHERS), "disabled: fan"),
        (of(ON, DONE, LIBVIRT, BY_EVICTION), "Eviction kvm-a: reboot"),
        (of(ON, DONE, LIBVIRT, NEVER), "keeps no Lease"),
        (of(ON, DONE, LIBVIRT, SILENT, UNREACHABLE), "kubelet: away"),
        (of(ON, DONE, LIBVIRT, SILENT), "Lease not renewed (since 2026-11-21T00:00:00Z)"),
        (of(ON, DONE, LIBVIRT_AWAY), "no socket (since 2026-11-21T00:00:00Z)"),
        (of(ON, DONE, LIBVIRT, CLAIMED), "belongs to kvm-b"),
        (of(RECOVERED, DONE, FENCED), "; its BMC shows it off"),
        (
            of(ON, DONE, LIBVIRT, condition("NetworkHealthy", "Unknown", "AgentSilent", "away")),
            "not known to be healthy: away",
        ),
    ],
)
def test_message_gives_the_reason(given: Hypervisor, words: str) -> None:
    assert words in decide(given)[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (of(ON), "Onboarding not started"),
        (
            of(ON, DONE, LIBVIRT, REPORTING, condition("HypervisorDisabled", "False", "Enabled")),
            "Hypervisor is ready",
        ),
        (
            of(ON, DONE, LIBVIRT, condition("NetworkHealthy", "True", "Healthy")),
            "Hypervisor is ready",
        ),
    ],
)
def test_message_reports_no_more_than_the_conditions_have(given: Hypervisor, message: str) -> None:
    assert decide(given)[1] == message


@pytest.mark.parametrize(
    ("given", "status"), [(of(ON, DONE, LIBVIRT), "True"), (of(ON, DONE), "False")]
)
def test_condition_is_true_for_a_host_that_is_ready_alone(given: Hypervisor, status: str) -> None:
    assert ready(given, NOW).status == status


def test_proof_of_death_belongs_to_the_recovery_alone() -> None:
    assert decide(of(MANUAL, DONE, FENCED)) == decide(of(MANUAL, DONE))
    assert decide(of(RECOVERED, DONE))[0] == "Maintenance"


def test_transition_time_is_that_of_the_status() -> None:
    before = condition("Ready", "True", "Ready")
    later = before.lastTransitionTime + timedelta(hours=1)

    assert ready(of(ON, DONE, LIBVIRT, before), later).lastTransitionTime < later
    assert ready(of(ON, DONE, before), later).lastTransitionTime == later


IDLE = of(ON, DONE)


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        pytest.param(None, IDLE, False, id="created"),
        pytest.param(None, of(ON, DONE, condition("Ready", "True")), True, id="operator started"),
        pytest.param(IDLE, None, False, id="deleted"),
        pytest.param(IDLE, IDLE, False, id="no change"),
        pytest.param(IDLE, of(replace(ON, version="2"), DONE), False, id="unrelated"),
        pytest.param(IDLE, of(MANUAL, DONE), True, id="maintenance"),
        pytest.param(IDLE, of(ON, RUNNING), True, id="conditions"),
        pytest.param(of(ON, ids=False), of(ON), True, id="registered in Nova"),
    ],
)
def test_pass_follows_only_relevant_changes(
    old: Hypervisor | None, new: Hypervisor | None, worth: bool
) -> None:
    assert worth_a_pass(old, new) is worth


def test_fenced_host_has_its_fencing_as_reason() -> None:
    fenced = condition("Fenced", "True", "Proven", "Boot b1 is proven dead: power is off")
    spec = HypervisorSpec(lifecycleEnabled=True, maintenance="ha")
    reason, text = decide(hypervisor(fenced, spec=spec))
    assert (reason, text) == (
        "Maintenance",
        "Hypervisor is in maintenance mode; Boot b1 is proven dead: power is off",
    )
