"""What a pass writes of a guest's domain and pod into the VMI's status, and which Events follow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import InterfaceStatus, VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.kubevirt.volumes import NetworkSpec, PodNetwork
from hypercobalt.api.pods import PodIP
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.virt.handler.events import events_of
from hypercobalt.virt.handler.model import Contact, HandlerFacts, LauncherView
from hypercobalt.virt.handler.reported import UNRESPONSIVE, reported
from hypercobalt.virt.wire.messages import DomainInterface, DomainReport, PausedBy
from hypercobalt.vmi import conditions
from hypercobalt.vmi.phases import LifeCycle, LifeReason

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
RUNS = DomainReport(LifeCycle.RUNNING)
PAUSED = DomainReport(LifeCycle.PAUSED, paused_by=PausedBy.USER)
EMPTY = VMIStatus(phase="Running")
PLAIN = VMISpec(domain=DomainSpec())
RUNNING, SCHEDULED, FAILED = VMIPhase.RUNNING, VMIPhase.SCHEDULED, VMIPhase.FAILED
ADDRESSES = Pod(status=PodStatus(podIP="10.1.2.3", podIPs=(PodIP(ip="fd00::3"),)))


def facts(
    report: DomainReport,
    status: VMIStatus = EMPTY,
    spec: VMISpec = PLAIN,
    contact: Contact = Contact.CONNECTED,
    *,
    out_of_memory: bool = False,
) -> HandlerFacts:
    vmi = VirtualMachineInstance(spec=spec, status=status)
    view = LauncherView(NOW, contact, report)
    return HandlerFacts(vmi, ADDRESSES, view, NOW, {}, out_of_memory=out_of_memory)


def shown(status: VMIStatus) -> dict[str, str]:
    """Conditions by type."""
    return {one.type: one.status for one in status.conditions}


@pytest.mark.parametrize(
    ("report", "types"),
    [
        (RUNS, {"LiveMigratable"}),
        (DomainReport(LifeCycle.RUNNING, emulated=True), {"LiveMigratable", "SoftwareEmulation"}),
        (PAUSED, {"LiveMigratable", "Paused"}),
        (DomainReport(LifeCycle.RUNNING, paused_by=PausedBy.USER), {"LiveMigratable"}),
    ],
)
def test_running_guest_shows_the_conditions_of_its_domain(
    report: DomainReport, types: set[str]
) -> None:
    assert shown(reported(facts(report), RUNNING)) == dict.fromkeys(types, "True")


def test_guest_of_its_nodes_cpu_model_can_migrate() -> None:
    spec = VMISpec(domain=DomainSpec(cpu=CPUSpec(model="host-model")))
    assert shown(reported(facts(RUNS, spec=spec), RUNNING)) == {"LiveMigratable": "True"}


@pytest.mark.parametrize("phase", [VMIPhase.SCHEDULED, VMIPhase.SUCCEEDED, VMIPhase.FAILED])
def test_guest_that_does_not_run_shows_nothing_of_its_domain(phase: VMIPhase) -> None:
    status = VMIStatus(phase=phase)
    report = DomainReport(LifeCycle.SHUTOFF, machine="pc-q35-7.2", emulated=True)
    assert reported(facts(report, status), phase) == status


def test_last_report_of_a_launcher_that_cannot_be_reached_is_not_shown() -> None:
    paused = reported(facts(PAUSED), RUNNING)
    assert reported(facts(RUNS, paused, contact=Contact.UNKNOWN), RUNNING) == paused


def test_guest_that_runs_on_when_the_kernel_kills_in_its_pod_has_no_reason() -> None:
    assert reported(facts(RUNS, out_of_memory=True), RUNNING).reason == ""
    assert reported(facts(RUNS, out_of_memory=True), FAILED).reason == "OOMKilled"


def test_nic_on_the_network_of_the_pod_alone_has_its_addresses() -> None:
    spec = VMISpec(
        domain=DomainSpec(),
        networks=(NetworkSpec(name="front", pod=PodNetwork()), NetworkSpec(name="back")),
    )
    known = (InterfaceStatus(name="front"), InterfaceStatus(name="back"))
    mac = "52:54:00:00:00:01"
    report = DomainReport(LifeCycle.RUNNING, interfaces=(DomainInterface("back", mac),))
    status = reported(facts(report, VMIStatus(interfaces=known), spec), RUNNING)
    assert status.interfaces == (
        InterfaceStatus(name="front", ipAddress="10.1.2.3", ipAddresses=("10.1.2.3", "fd00::3")),
        InterfaceStatus(name="back", mac=mac, infoSource="domain", queueCount=1, linkState="up"),
    )


CRASHED = "The VirtualMachineInstance crashed."
STARTED = ["VirtualMachineInstance defined.", "VirtualMachineInstance started."]
KILLED = (
    "The kernel killed the guest at the memory limit of its pod. "
    "Raise spec.domain.resources.limits.memory."
)
LATE = "The launcher has not made the guest run in time: it reports no reason"
PANICKED = DomainReport(LifeCycle.CRASHED, LifeReason.PANICKED)
REBOOTED = DomainReport(LifeCycle.RUNNING, LifeReason.PANICKED)


@pytest.mark.parametrize(
    ("phase", "reason", "report", "killed", "notes"),
    [
        pytest.param(RUNNING, "", RUNS, False, STARTED, id="starts"),
        pytest.param(RUNNING, "", REBOOTED, False, STARTED, id="starts-after-a-panic"),
        pytest.param(RUNNING, "", RUNS, True, STARTED, id="starts-although-one-was-killed"),
        pytest.param(RUNNING, UNRESPONSIVE, RUNS, False, STARTED, id="starts-with-a-reason"),
        pytest.param(FAILED, "", RUNS, False, [CRASHED], id="crashed"),
        pytest.param(FAILED, "", RUNS, True, [KILLED], id="killed"),
        pytest.param(FAILED, UNRESPONSIVE, RUNS, False, [LATE], id="late"),
        pytest.param(
            FAILED, "", PANICKED, False, ["The guest's kernel panicked.", CRASHED], id="panicked"
        ),
        pytest.param(SCHEDULED, "", PANICKED, True, [], id="stays"),
    ],
)
def test_change_of_phase_is_recorded_with_its_cause(
    phase: VMIPhase, reason: str, report: DomainReport, *, killed: bool, notes: list[str]
) -> None:
    new = VMIStatus(phase=phase, reason=reason)
    found = events_of(VMIStatus(phase=SCHEDULED), new, facts(report, out_of_memory=killed))
    assert [event.note for event in found] == notes


def with_condition(reason: str) -> VMIStatus:
    aspect = conditions.synchronized(reason, "no such image")
    return VMIStatus(phase=SCHEDULED, conditions=conditions.put((), "Synchronized", aspect, NOW))


SYNC_FAILED = "Synchronizing with the Domain failed."


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        (None, SYNC_FAILED, ["no such image"]),
        ("FailedCreate", SYNC_FAILED, ["no such image"]),
        (SYNC_FAILED, SYNC_FAILED, []),
        (None, "FailedCreate", []),
    ],
)
def test_failed_start_is_recorded_once(before: str | None, after: str, notes: list[str]) -> None:
    old = with_condition(before) if before else VMIStatus(phase=SCHEDULED)
    found = events_of(old, with_condition(after), facts(RUNS))
    assert [event.note for event in found] == notes
