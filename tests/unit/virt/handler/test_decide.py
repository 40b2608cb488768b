"""What virt-handler does about a VMI, by its domain, its launcher and its pod, as tables."""

from __future__ import annotations

from dataclasses import replace as with_values
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.kubevirt.devices import DevicesSpec, DiskSpec, InterfaceSpec, Present
from hypercobalt.api.kubevirt.machine import FeaturesSpec, FeatureState
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import InterfaceStatus, VMIStatus, VolumeStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.kubevirt.volumes import NetworkSpec, PodNetwork
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodIP,
)
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.virt.handler.decide import (
    decide,
    decide_orphan,
    is_in_a_row,
    sync_wait,
)
from hypercobalt.virt.handler.model import (
    NO_GUEST,
    NO_REPORT,
    CallRecord,
    Contact,
    HandlerCall,
    HandlerFacts,
    LauncherView,
)
from hypercobalt.virt.wire.messages import DomainInterface, DomainReport, PausedBy
from hypercobalt.vmi import conditions
from hypercobalt.vmi.phases import LifeCycle, LifeReason

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUNS = DomainReport(LifeCycle.RUNNING)
MARKED = DomainReport(LifeCycle.RUNNING, marked_since=NOW - SECOND)
NONE = DomainReport()
LATE = NO_GUEST - SECOND
NO_CALLS: dict[HandlerCall, CallRecord] = {}
SYNC, SHUTDOWN, KILL, DELETE = HandlerCall


def off(reason: LifeReason) -> DomainReport:
    return DomainReport(LifeCycle.SHUTOFF, reason)


def paused(by: PausedBy) -> DomainReport:
    return DomainReport(LifeCycle.PAUSED, paused_by=by)


def vmi(
    phase: str, *, grace: int | None = None, acpi: bool = True, deleted: bool = False
) -> VirtualMachineInstance:
    meta = ObjectMeta(name="vm", namespace="ns", uid="u1")
    domain = DomainSpec(features=FeaturesSpec(acpi=FeatureState(enabled=acpi)))
    return VirtualMachineInstance(
        metadata=replace(meta, deletionTimestamp=NOW) if deleted else meta,
        spec=VMISpec(domain=domain, terminationGracePeriodSeconds=grace),
        status=VMIStatus(phase=phase, nodeName="node-a"),
    )


def facts(
    of: VirtualMachineInstance,
    report: DomainReport | None,
    contact: Contact = Contact.CONNECTED,
    **more: object,
) -> HandlerFacts:
    view = LauncherView(since=NOW - SECOND, contact=contact, report=report)
    made = HandlerFacts(of, Pod(), view, NOW, NO_CALLS)
    return with_values(made, **more)  # type: ignore[arg-type]


def sent(call: HandlerCall, ago: timedelta, **more: object) -> dict[HandlerCall, CallRecord]:
    return {call: CallRecord(1, NOW - ago, **more)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "report", "after", "events"),
    [
        pytest.param("Scheduled", RUNS, "Running", ["Created", "Started"], id="starts"),
        pytest.param(
            "Scheduled", paused(PausedBy.USER), "Running", ["Created", "Started"], id="paused"
        ),
        pytest.param("Scheduled", NONE, "Scheduled", [], id="nothing-yet"),
        pytest.param("Scheduled", off(LifeReason.UNKNOWN), "Scheduled", [], id="defined"),
        pytest.param("Running", off(LifeReason.SHUTDOWN), "Succeeded", ["Stopped"], id="poweroff"),
        pytest.param("Running", off(LifeReason.CRASHED), "Failed", ["Stopped"], id="crash"),
        pytest.param("Running", off(LifeReason.DESTROYED), "Failed", ["Stopped"], id="destroyed"),
        pytest.param(
            "Running",
            DomainReport(LifeCycle.CRASHED, LifeReason.PANICKED),
            "Failed",
            ["GuestPanicked", "Stopped"],
            id="panic",
        ),
        pytest.param("Running", NONE, "Failed", ["Stopped"], id="domain-lost"),
        pytest.param("Running", DomainReport(LifeCycle.SHUTTING_DOWN), "Running", [], id="ending"),
        pytest.param("Running", paused(PausedBy.IO_ERROR), "Running", ["IOerror"], id="io-error"),
    ],
)
def test_phase_follows_the_domain(
    phase: str, report: DomainReport, after: str, events: list[str]
) -> None:
    plan = decide(facts(vmi(phase), report))
    assert plan.vmi.status.phase == after
    assert [event.reason for event in plan.events] == events


def test_guest_that_was_killed_at_the_memory_limit_says_so() -> None:
    crash = off(LifeReason.CRASHED)
    killed = decide(facts(vmi("Running"), crash, out_of_memory=True))
    assert (killed.vmi.status.phase, killed.vmi.status.reason) == ("Failed", "OOMKilled")
    (event,) = killed.events
    assert (event.type, event.reason) == ("Warning", "Stopped")
    assert "spec.domain.resources.limits.memory" in event.note
    crashed = decide(facts(vmi("Running"), crash))
    assert (crashed.vmi.status.phase, crashed.vmi.status.reason) == ("Failed", "")


@pytest.mark.parametrize(
    ("grace", "acpi", "after"),
    [(0, True, "Succeeded"), (30, False, "Succeeded"), (30, True, "Failed")],
)
def test_guest_that_could_not_be_asked_ends_well_by_being_destroyed(
    grace: int, acpi: bool, after: str
) -> None:
    plan = decide(facts(vmi("Running", grace=grace, acpi=acpi), off(LifeReason.DESTROYED)))
    assert plan.vmi.status.phase == after


@pytest.mark.parametrize(
    ("phase", "contact", "report", "after"),
    [
        pytest.param("Running", Contact.ENDED, RUNS, "Failed", id="killed"),
        pytest.param("Running", Contact.ENDED, None, "Failed", id="killed-unseen"),
        pytest.param(
            "Running", Contact.ENDED, off(LifeReason.SHUTDOWN), "Succeeded", id="ended-well"
        ),
        pytest.param("Running", Contact.ABSENT, None, "Failed", id="socket-removed"),
        pytest.param("Running", Contact.UNKNOWN, None, "Running", id="unknown"),
        pytest.param("Running", Contact.UNKNOWN, RUNS, "Running", id="hangs"),
        pytest.param("Scheduled", Contact.ABSENT, None, "Scheduled", id="no-socket-yet"),
        pytest.param("Scheduled", Contact.UNKNOWN, None, "Scheduled", id="unknown-yet"),
        pytest.param("Scheduled", Contact.ENDED, None, "Failed", id="ended-before-its-guest"),
        pytest.param(
            "Scheduled", Contact.ENDED, off(LifeReason.UNKNOWN), "Failed", id="ended-with-it-off"
        ),
        pytest.param(
            "Running",
            Contact.ENDED,
            DomainReport(LifeCycle.RUNNING, LifeReason.SHUTDOWN),
            "Failed",
            id="made-a-reason-up",
        ),
    ],
)
def test_only_the_end_of_a_launcher_is_an_end(
    phase: str, contact: Contact, report: DomainReport | None, after: str
) -> None:
    plan = decide(facts(vmi(phase), report, contact))
    assert plan.vmi.status.phase == after
    assert plan.call is None


@pytest.mark.parametrize("contact", [Contact.ABSENT, Contact.UNKNOWN])
def test_launcher_that_never_reports_fails_its_vmi_after_three_minutes(contact: Contact) -> None:
    early = facts(vmi("Scheduled"), None, contact, now=NOW - SECOND + NO_REPORT - SECOND)
    assert decide(early).vmi.status.phase == "Scheduled"
    assert decide(early).look_again == SECOND
    late = with_values(early, now=early.now + SECOND)
    assert decide(late).vmi.status.phase == "Failed"
    running = with_values(late, vmi=vmi("Running"), launcher=with_values(late.launcher))
    expected = "Failed" if contact is Contact.ABSENT else "Running"
    assert decide(running).vmi.status.phase == expected
    assert decide(running).look_again is None


@pytest.mark.parametrize(
    ("contact", "report", "calls"),
    [
        pytest.param(Contact.UNKNOWN, NONE, {}, id="hangs-after-its-first-report"),
        pytest.param(Contact.CONNECTED, NONE, {}, id="reports-no-guest"),
        pytest.param(
            Contact.CONNECTED, NONE, {SYNC: CallRecord(1, NOW, under_way=True)}, id="no-answer"
        ),
        pytest.param(
            Contact.CONNECTED, NONE, {SYNC: CallRecord(1, NOW, refused=True)}, id="refuses"
        ),
        pytest.param(
            Contact.CONNECTED, off(LifeReason.UNKNOWN), {SYNC: CallRecord(9, NOW)}, id="stays-off"
        ),
        pytest.param(Contact.CONNECTED, off(LifeReason.MIGRATED), {}, id="reports-what-cannot-be"),
        pytest.param(
            Contact.CONNECTED, DomainReport(LifeCycle.NO_STATE), {}, id="reports-no-state"
        ),
    ],
)
def test_launcher_that_has_reported_has_five_minutes_until_its_guest_runs(
    contact: Contact, report: DomainReport, calls: dict[HandlerCall, CallRecord]
) -> None:
    due = NOW - SECOND + NO_GUEST
    early = facts(vmi("Scheduled"), report, contact, now=due - SECOND, calls=calls)
    plan = decide(early)
    assert plan.vmi.status.phase == "Scheduled"
    assert plan.look_again is not None
    assert plan.look_again <= SECOND
    plan = decide(with_values(early, now=due))
    assert (plan.vmi.status.phase, plan.vmi.status.reason) == ("Failed", "LauncherUnresponsive")
    (event,) = plan.events
    assert (event.type, event.reason) == ("Warning", "Stopped")
    runs = with_values(early, vmi=vmi("Running"), now=due + NO_GUEST)
    assert decide(runs).vmi.status.reason == ""


def test_guest_that_runs_at_last_is_not_late() -> None:
    late = NOW + NO_GUEST
    assert decide(facts(vmi("Scheduled"), RUNS, now=late)).vmi.status.phase == "Running"
    ended = decide(facts(vmi("Scheduled"), off(LifeReason.SHUTDOWN), now=late))
    assert ended.vmi.status.phase == "Succeeded"
    killed = decide(facts(vmi("Scheduled"), NONE, Contact.ENDED, now=late))
    assert (killed.vmi.status.phase, killed.vmi.status.reason) == ("Failed", "")


def test_launcher_that_cannot_be_reached_is_shown_while_its_guest_is_waited_for() -> None:
    view = LauncherView(NOW, Contact.UNKNOWN, trouble="no report within 5 s")
    plan = decide(facts(vmi("Scheduled"), None, launcher=view))
    shown = conditions.get(plan.vmi.status.conditions, "Synchronized")
    assert shown is not None
    assert (shown.status, shown.message) == ("False", "no report within 5 s")
    assert [event.note for event in plan.events] == ["no report within 5 s"]
    late = decide(facts(plan.vmi, None, launcher=view, now=NOW + NO_REPORT))
    assert [event.note for event in late.events] == [
        "The launcher has not made the guest run in time: no report within 5 s"
    ]
    absent = with_values(view, contact=Contact.ABSENT)
    assert decide(facts(vmi("Scheduled"), None, launcher=absent)).vmi == vmi("Scheduled")


def test_pod_that_has_ended_ends_a_guest_that_cannot_be_reached() -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(exitCode=1))
    status = PodStatus(
        phase="Running", containerStatuses=(ContainerStatus(name="compute", state=ended),)
    )
    for pod in (Pod(status=PodStatus(phase="Failed")), Pod(status=status)):
        found = facts(vmi("Running"), None, Contact.UNKNOWN, pod=pod)
        assert decide(found).vmi.status.phase == "Failed"
    going = Pod(metadata=ObjectMeta(deletionTimestamp=NOW), status=PodStatus(phase="Running"))
    for shown in (going, None):
        found = facts(vmi("Running"), None, Contact.UNKNOWN, pod=shown)
        assert decide(found).vmi.status.phase == "Running"
    gone = replace(going, status=PodStatus(phase="Failed"))
    found = facts(vmi("Running"), None, Contact.UNKNOWN, pod=gone)
    assert decide(found).vmi.status.phase == "Failed"


@pytest.mark.parametrize(
    ("phase", "report", "calls", "call", "wait"),
    [
        pytest.param("Scheduled", NONE, {}, SYNC, LATE, id="first"),
        pytest.param("Scheduled", off(LifeReason.FAILED), {}, SYNC, LATE, id="did-not-start"),
        pytest.param(
            "Scheduled", NONE, sent(SYNC, SECOND / 2, error="x"), None, SECOND / 2, id="waits"
        ),
        pytest.param("Scheduled", NONE, sent(SYNC, SECOND, error="x"), SYNC, LATE, id="again"),
        pytest.param(
            "Scheduled", NONE, sent(SYNC, SECOND, under_way=True), None, LATE, id="under-way"
        ),
        pytest.param(
            "Scheduled", NONE, sent(SYNC, SECOND, error="x", refused=True), None, LATE, id="refused"
        ),
        pytest.param("Scheduled", off(LifeReason.MIGRATED), {}, None, LATE, id="has-moved"),
        pytest.param(
            "Scheduled", DomainReport(LifeCycle.NO_STATE), {}, None, LATE, id="is-starting"
        ),
        pytest.param("Running", paused(PausedBy.IO_ERROR), {}, SYNC, None, id="resumed"),
        pytest.param("Running", paused(PausedBy.OTHER), {}, SYNC, None, id="by-a-watchdog"),
        pytest.param("Running", paused(PausedBy.USER), {}, None, None, id="paused-by-user"),
        pytest.param("Running", paused(PausedBy.MIGRATION), {}, None, None, id="by-a-migration"),
        pytest.param("Running", RUNS, {}, None, None, id="runs-on"),
    ],
)
def test_guest_is_synced_until_it_runs_and_after_an_io_error(
    phase: str,
    report: DomainReport,
    calls: dict[HandlerCall, CallRecord],
    call: HandlerCall | None,
    wait: timedelta | None,
) -> None:
    plan = decide(facts(vmi(phase), report, calls=calls))
    assert (plan.call, plan.look_again) == (call, wait)


def test_domain_that_is_off_while_its_start_is_under_way_has_not_ended() -> None:
    calls = sent(SYNC, SECOND, under_way=True)
    for phase, after in (("Scheduled", "Scheduled"), ("Running", "Failed")):
        plan = decide(facts(vmi(phase), off(LifeReason.CRASHED), calls=calls))
        assert (plan.vmi.status.phase, plan.call) == (after, None)
    gone = decide(facts(vmi("Scheduled"), NONE, Contact.ENDED, calls=calls))
    assert gone.vmi.status.phase == "Failed"


def test_waits_between_syncs_grow_to_a_minute() -> None:
    waits = [sync_wait(tries).total_seconds() for tries in (1, 2, 3, 6, 7, 90)]
    assert waits == [1, 2, 4, 32, 60, 60]


def test_call_long_after_the_last_one_begins_a_new_row() -> None:
    five_minutes = timedelta(minutes=5)
    assert is_in_a_row(five_minutes - SECOND)
    assert not is_in_a_row(five_minutes)


@pytest.mark.parametrize("report", [RUNS, MARKED], ids=["vmi-deleted", "pod-told-to-end"])
def test_guest_is_asked_then_ended_after_its_grace_period(report: DomainReport) -> None:
    of = vmi("Running", grace=12, deleted=report is RUNS)
    first = decide(facts(of, report))
    assert (first.call, first.look_again) == (SHUTDOWN, 5 * SECOND)
    assert first.call_event is not None
    assert first.call_event.reason == "ShuttingDown"

    def later(seconds: int, **calls: int) -> HandlerFacts:
        asked = {HandlerCall(name): CallRecord(1, NOW - at * SECOND) for name, at in calls.items()}
        began = NOW - seconds * SECOND
        return facts(of, report, calls=asked, stopping=began)

    waiting = decide(later(2, Shutdown=2))
    assert (waiting.call, waiting.look_again) == (None, 3 * SECOND)
    again = decide(later(5, Shutdown=5))
    assert (again.call, again.call_event) == (SHUTDOWN, None)
    assert decide(later(10, Shutdown=5)).look_again == 2 * SECOND
    over = decide(later(12, Shutdown=2))
    assert (over.call, over.look_again) == (KILL, 5 * SECOND)
    assert decide(later(13, Shutdown=3, Kill=1)).call is None
    assert decide(later(17, Shutdown=7, Kill=5)).call is KILL


@pytest.mark.parametrize(("grace", "acpi"), [(0, True), (30, False)])
def test_guest_that_cannot_be_asked_is_ended_at_once(grace: int, acpi: bool) -> None:
    of = vmi("Running", grace=grace, acpi=acpi, deleted=True)
    assert decide(facts(of, RUNS)).call is KILL


def test_launcher_that_cannot_be_reached_is_sent_nothing() -> None:
    for of in (vmi("Running"), vmi("Running", deleted=True)):
        plan = decide(facts(of, RUNS, Contact.UNKNOWN))
        assert (plan.call, plan.look_again) == (None, None)


def test_guest_is_followed_while_its_pod_is_not_seen() -> None:
    assert decide(facts(vmi("Running"), RUNS, pod=None)).call is None
    assert decide(facts(vmi("Scheduled"), NONE, pod=None)).call is SYNC


def test_handler_that_starts_again_goes_on_with_the_shutdown() -> None:
    report = DomainReport(LifeCycle.RUNNING, shutdown_since=NOW - 31 * SECOND)
    assert decide(facts(vmi("Running", deleted=True), report)).call is KILL
    report = DomainReport(LifeCycle.RUNNING, shutdown_since=NOW - 29 * SECOND)
    plan = decide(facts(vmi("Running", deleted=True), report))
    assert (plan.call, plan.call_event) == (SHUTDOWN, None)


def test_launcher_puts_the_end_of_its_guest_off_by_no_clock_of_its_own() -> None:
    report = DomainReport(LifeCycle.RUNNING, shutdown_since=NOW + timedelta(days=1))
    began = NOW - 31 * SECOND
    plan = decide(facts(vmi("Running", deleted=True), report, stopping=began))
    assert plan.call is KILL


@pytest.mark.parametrize("phase", ["Scheduled", "Running"])
def test_guest_that_was_never_started_is_not_started_to_end(phase: str) -> None:
    of = vmi(phase, deleted=True)
    for report in (off(LifeReason.UNKNOWN), NONE):
        if phase == "Running" and report is NONE:
            continue
        assert decide(facts(of, report)).call is None
    told = DomainReport(marked_since=NOW)
    assert decide(facts(vmi("Scheduled"), told)).call is None


def test_guest_of_a_deleted_pod_is_shut_down_though_its_launcher_was_not_told() -> None:
    going = Pod(metadata=ObjectMeta(deletionTimestamp=NOW), status=PodStatus(phase="Running"))
    assert decide(facts(vmi("Running"), RUNS, pod=going)).call is SHUTDOWN
    assert decide(facts(vmi("Scheduled"), NONE, pod=going)).call is None


@pytest.mark.parametrize(
    ("report", "calls", "call"),
    [
        pytest.param(off(LifeReason.SHUTDOWN), {}, DELETE, id="off"),
        pytest.param(NONE, {}, DELETE, id="none"),
        pytest.param(
            off(LifeReason.SHUTDOWN), sent(DELETE, SECOND, succeeded=True), None, id="done"
        ),
        pytest.param(off(LifeReason.CRASHED), sent(DELETE, SECOND, error="x"), DELETE, id="again"),
        pytest.param(RUNS, {}, KILL, id="runs-although-it-is-over"),
    ],
)
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_launcher_may_end_once_the_end_is_recorded(
    phase: str,
    report: DomainReport,
    calls: dict[HandlerCall, CallRecord],
    call: HandlerCall | None,
) -> None:
    of = vmi(phase)
    plan = decide(facts(of, report, calls=calls))
    assert (plan.call, plan.vmi) == (call, of)
    gone = decide(facts(of, report, Contact.ENDED, calls=calls))
    assert (gone.call, gone.vmi) == (None, of)


def test_delete_is_repeated_with_growing_waits_and_recorded_once() -> None:
    dead = off(LifeReason.CRASHED)
    first = decide(facts(vmi("Failed"), dead))
    assert first.call_event is not None
    assert (first.call, first.call_event.reason) == (DELETE, "Deleted")
    waits = decide(facts(vmi("Failed"), dead, calls=sent(DELETE, SECOND / 2, error="x")))
    assert (waits.call, waits.look_again) == (None, SECOND / 2)
    again = decide(facts(vmi("Failed"), dead, calls=sent(DELETE, SECOND, error="x")))
    assert (again.call, again.call_event) == (DELETE, None)
    going = decide(facts(vmi("Failed"), dead, calls=sent(DELETE, SECOND, under_way=True)))
    assert (going.call, going.look_again) == (None, None)


def test_end_is_recorded_before_the_launcher_may_end() -> None:
    plan = decide(facts(vmi("Running"), off(LifeReason.SHUTDOWN)))
    assert plan.vmi.status.phase == "Succeeded"
    assert plan.call is None


@pytest.mark.parametrize("phase", ["", "Pending", "Scheduling", "Unknown", "Nonsense"])
def test_vmi_that_is_not_the_handlers_is_left_alone(phase: str) -> None:
    of = vmi(phase)
    for report in (RUNS, NONE):
        plan = decide(facts(of, report))
        assert (plan.vmi, plan.call, plan.events) == (of, None, ())


def test_guest_whose_vmi_is_gone_is_shut_down() -> None:
    assert decide_orphan(facts(vmi("Running"), RUNS)).call is SHUTDOWN
    assert decide_orphan(facts(vmi("Running"), off(LifeReason.SHUTDOWN))).call is DELETE
    assert decide_orphan(facts(vmi("Running"), RUNS, Contact.UNKNOWN)).call is None


def test_failed_start_shows_until_the_guest_runs() -> None:
    calls = sent(SYNC, SECOND / 2, error="qcow2 has a backing file")
    plan = decide(facts(vmi("Scheduled"), NONE, calls=calls))
    shown = conditions.get(plan.vmi.status.conditions, "Synchronized")
    assert shown is not None
    assert (shown.status, shown.reason) == ("False", "Synchronizing with the Domain failed.")
    assert shown.message == "qcow2 has a backing file"
    assert [event.reason for event in plan.events] == ["SyncFailed"]
    again = decide(facts(plan.vmi, NONE, calls=calls))
    assert (again.vmi, again.events) == (plan.vmi, ())
    runs = decide(facts(plan.vmi, RUNS, calls=calls))
    assert conditions.get(runs.vmi.status.conditions, "Synchronized") is None


def test_network_that_can_never_be_set_up_fails_the_vmi() -> None:
    plan = decide(facts(vmi("Scheduled"), NONE, unconnectable="no such bridge"))
    assert plan.vmi.status.phase == "Failed"


def test_guest_that_runs_is_not_ended_for_networks_that_cannot_be_made_again() -> None:
    plan = decide(facts(vmi("Running"), paused(PausedBy.IO_ERROR), unconnectable="no such bridge"))
    assert (plan.vmi.status.phase, plan.call) == ("Running", SYNC)


def with_nic() -> VirtualMachineInstance:
    devices = DevicesSpec(
        interfaces=(InterfaceSpec(name="default", masquerade=Present()),),
        disks=(DiskSpec(name="root"),),
    )
    spec = VMISpec(
        domain=DomainSpec(devices=devices),
        networks=(NetworkSpec(name="default", pod=PodNetwork()),),
    )
    status = VMIStatus(
        phase="Scheduled",
        interfaces=(InterfaceStatus(name="default", podInterfaceName="eth0"),),
        volumeStatus=(VolumeStatus(name="root", target=""),),
    )
    return replace(vmi("Scheduled"), spec=spec, status=status)


def test_running_guest_shows_its_machine_its_nic_and_the_pods_addresses() -> None:
    report = DomainReport(
        LifeCycle.RUNNING,
        machine="pc-q35-7.2",
        emulated=True,
        interfaces=(DomainInterface("default", "52:54:00:00:00:01", "tap0"),),
    )
    pod = Pod(
        status=PodStatus(podIP="10.1.2.3", podIPs=(PodIP(ip="10.1.2.3"), PodIP(ip="fd00::3")))
    )
    plan = decide(facts(with_nic(), report, pod=pod))
    status = plan.vmi.status
    assert status.machine is not None
    assert status.machine.type == "pc-q35-7.2"
    (nic,) = status.interfaces
    assert (nic.mac, nic.podInterfaceName, nic.infoSource) == (
        "52:54:00:00:00:01",
        "eth0",
        "domain",
    )
    assert nic.ipAddresses == ("10.1.2.3", "fd00::3")
    assert [one.target for one in status.volumeStatus] == ["sda"]
    types = {one.type: one.status for one in status.conditions}
    assert types == {"SoftwareEmulation": "True", "LiveMigratable": "True"}
    again = decide(facts(plan.vmi, report, pod=pod))
    assert again.vmi == plan.vmi


def test_launcher_that_makes_things_up_writes_nothing_of_them() -> None:
    report = DomainReport(
        LifeCycle.RUNNING,
        machine="<b>\n" + "x" * 4096,
        interfaces=(
            DomainInterface("default", "not a mac", "../../etc"),
            DomainInterface("other", "52:54:00:00:00:02", "tap9"),
        ),
    )
    pod = Pod(status=PodStatus(podIP="rm -rf", podIPs=(PodIP(ip="10.0.0.1/8"),)))
    status = decide(facts(with_nic(), report, pod=pod)).vmi.status
    assert status.machine is None
    assert status.interfaces == (InterfaceStatus(name="default", podInterfaceName="eth0"),)


def test_paused_guest_shows_by_whom_until_it_goes_on() -> None:
    plan = decide(facts(vmi("Running"), paused(PausedBy.USER)))
    shown = conditions.get(plan.vmi.status.conditions, "Paused")
    assert shown is not None
    assert (shown.status, shown.reason) == ("True", "PausedByUser")
    lost = decide(facts(plan.vmi, paused(PausedBy.USER), Contact.UNKNOWN))
    assert lost.vmi == plan.vmi
    for report in (RUNS, off(LifeReason.SHUTDOWN), off(LifeReason.CRASHED)):
        going = decide(facts(plan.vmi, report))
        assert conditions.get(going.vmi.status.conditions, "Paused") is None
    ended = decide(facts(plan.vmi, paused(PausedBy.USER), Contact.ENDED))
    assert conditions.get(ended.vmi.status.conditions, "Paused") is None
