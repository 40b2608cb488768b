"""Each row of the table of reactions: what a signal is judged to be, and what comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.signs import NOON, U1, Story, uuid

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import State, Step
from hypercobalt.ha.incidents.config import EventConfig, HaConfig, RecoveryLimits
from hypercobalt.ha.incidents.probes import resumed
from hypercobalt.ha.incidents.signals import HOST, EventType, Kind
from hypercobalt.ha.incidents.verdict import Nature

U2 = uuid(2)


def running() -> Story:
    story = Story()
    story.run()
    return story


PLANNED = {
    "migrated, saved or by a snapshot": (Kind.STOPPED_PLANNED,),
    "the guest's own power off": (Kind.SHUTDOWN_BY_GUEST, Kind.STOPPED_SHUTDOWN),
    "paused by a migration": (Kind.PAUSED_PLANNED,),
    "managed save": (Kind.PAUSED, Kind.STOPPED_PLANNED),
}


@pytest.mark.parametrize("kinds", [pytest.param(k, id=i) for i, k in PLANNED.items()])
def test_intended_stop_opens_no_incident(kinds: tuple[Kind, ...]) -> None:
    story = running()
    story.see(*kinds)
    assert story.cases() == []
    assert story.plan().recoveries == ()


CRASHES = {
    "QEMU killed": (Kind.STOPPED_FAILED,),
    "panic, destroyed": (Kind.PAUSED, Kind.PANICKED, Kind.STOPPED_CRASHED),
    "panic, preserved": (Kind.PAUSED, Kind.PANICKED),
}


@pytest.mark.parametrize("kinds", [pytest.param(k, id=i) for i, k in CRASHES.items()])
def test_a_crash_is_one_incident_and_restarts_in_place(kinds: tuple[Kind, ...]) -> None:
    story = running()
    story.see(*kinds)
    assert story.cases().count(IncidentType.CRASH) == 1
    (recovery,) = story.plan(after=3).recoveries
    assert (recovery.mode, recovery.instances) == (EvictionMode.AUTO, (U1,))
    assert story.plan(after=3).recoveries == ()


def test_a_panic_that_libvirt_restarts_itself_needs_no_recovery() -> None:
    story = running()
    story.see(Kind.PANICKED, Kind.REBOOTED, Kind.RESUMED, Kind.REBOOTED)
    assert IncidentType.CRASH not in story.cases()
    story.look()
    assert (story.cases(), story.plan(after=5).recoveries) == ([], ())


def test_a_guest_that_saves_its_memory_after_a_panic_is_not_restarted_meanwhile() -> None:
    story = running()
    story.see(Kind.DUMPING)
    for _ in range(60):
        story.look(quiet_seconds=0)
    assert story.plan(after=600).recoveries == ()
    story.see(Kind.REBOOTED, Kind.REBOOTED)
    assert story.cases() == [IncidentType.REBOOTING]
    story.look()
    assert (story.cases(), story.plan(after=600).recoveries) == ([], ())


def test_a_crash_kernel_that_hangs_is_restarted() -> None:
    story = running()
    story.see(Kind.DUMPING)
    while story.only().step is Step.PROBE:
        story.look(quiet_seconds=30)
    assert story.now - NOON >= story.config.thresholds.reboot_deadline
    (recovery,) = story.plan().recoveries
    assert (recovery.mode, recovery.instances) == (EvictionMode.AUTO, (U1,))


def test_a_dump_that_ends_in_another_crash_is_recovered_at_once() -> None:
    story = running()
    story.see(Kind.DUMPING, Kind.PANICKED, Kind.STOPPED_CRASHED)
    assert len(story.plan(after=3).recoveries) == 1
    assert len(story.get(U1).crashes) == 1


def test_dump_that_a_watchdog_has_requested_is_not_interrupted() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="inject-nmi")
    assert story.plan().recoveries == ()
    story.see(Kind.DUMPING)
    assert (story.cases(), story.plan(after=600).recoveries) == ([IncidentType.CRASH], ())


def test_a_guest_that_its_watchdog_has_restarted_meanwhile_is_followed() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="inject-nmi")
    assert len(story.plan(after=3).recoveries) == 1
    story.see(Kind.DUMPING)
    assert story.cases() == [IncidentType.WATCHDOG, IncidentType.CRASH]


def test_a_failed_incoming_migration_is_no_crash() -> None:
    story = Story()
    story.see(Kind.ARRIVING)
    verdict = story.see(Kind.STOPPED_FAILED)
    assert (verdict.nature, story.cases()) == (Nature.REPORT, [])


def test_a_monitor_that_ends_with_its_incoming_migration_is_no_incident() -> None:
    story = Story()
    story.see(Kind.ARRIVING)
    verdict = story.see(Kind.CONTROL_ERROR)
    assert (verdict.nature, story.cases()) == (Nature.REPORT, [])


def test_instance_that_migrated_here_is_recovered_here() -> None:
    story = Story()
    story.see(Kind.ARRIVING, Kind.ARRIVED, Kind.STOPPED_FAILED)
    assert story.cases() == [IncidentType.CRASH]


def test_a_start_that_failed_is_no_crash() -> None:
    story = Story()
    assert story.see(Kind.STOPPED_FAILED).nature is Nature.REPORT
    assert story.cases() == []


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param((Kind.SHUTDOWN_BY_HOST, Kind.STOPPED_DESTROYED), id="destroyed"),
        pytest.param((Kind.SHUTDOWN_BY_HOST, Kind.STOPPED_SHUTDOWN), id="QEMU terminated"),
    ],
)
def test_instance_that_a_client_ended_is_reported_for_a_while(kinds: tuple[Kind, ...]) -> None:
    story = running()
    story.see(*kinds)
    case = story.only()
    assert (case.type, case.severity) == (IncidentType.OUT_OF_BAND, Severity.INFO)
    assert (case.reaction, case.step) == (Reaction.REPORT, Step.EXPIRE)


def test_instance_that_its_own_eviction_ends_is_not_reported() -> None:
    story = running()
    story.see(Kind.PAUSED_WATCHDOG)
    story.plan()
    story.see(Kind.SHUTDOWN_BY_HOST, Kind.STOPPED_DESTROYED)
    assert story.cases() == [IncidentType.WATCHDOG]


def test_a_crash_under_an_eviction_keeps_what_it_works_at() -> None:
    story = running()
    story.see(Kind.CONTROL_ERROR)
    for _ in range(7):
        story.look(control_error=True)
    story.plan()
    story.see(Kind.STOPPED_FAILED)
    assert story.cases() == [IncidentType.CONTROL_ERROR, IncidentType.CRASH]
    story.run()
    assert story.cases() == []


def test_guest_shutdown_restarts_where_the_configuration_has_it() -> None:
    story = Story(HaConfig(restart_on_guest_shutdown=True))
    story.run()
    story.see(Kind.SHUTDOWN_BY_GUEST, Kind.STOPPED_SHUTDOWN)
    assert len(story.plan().recoveries) == 1


def test_the_third_crash_in_ten_minutes_moves() -> None:
    story = running()
    modes = []
    for _ in range(3):
        story.see(Kind.STOPPED_FAILED)
        modes += [one.mode for one in story.plan(after=130).recoveries]
        story.run()
    assert modes == [EvictionMode.AUTO, EvictionMode.AUTO, EvictionMode.COLD]


@pytest.mark.parametrize("action", ["none", "inject-nmi", "debug"])
def test_a_watchdog_that_does_nothing_has_its_instance_restarted(action: str) -> None:
    story = running()
    story.see(Kind.WATCHDOG, action=action)
    (recovery,) = story.plan(after=3).recoveries
    assert (recovery.trigger, recovery.mode) == ("Watchdog", EvictionMode.AUTO)


def test_a_watchdog_that_pauses_is_one_incident() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="pause")
    story.see(Kind.PAUSED_WATCHDOG)
    assert story.cases() == [IncidentType.WATCHDOG]
    (recovery,) = story.plan().recoveries
    assert recovery.mode is EvictionMode.AUTO


def test_a_watchdog_that_resets_is_verified() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="reset")
    story.see(Kind.REBOOTED, Kind.REBOOTED)
    assert (story.cases(), story.only().reaction) == ([IncidentType.WATCHDOG], Reaction.WAIT)
    story.look()
    assert (story.cases(), story.plan().recoveries) == ([], ())


@pytest.mark.parametrize("stop", [Kind.STOPPED_FAILED, Kind.STOPPED_SHUTDOWN])
def test_the_stop_after_a_watchdog_is_the_same_incident(stop: Kind) -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="poweroff")
    story.see(stop)
    assert story.cases() == [IncidentType.WATCHDOG]
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("Watchdog", EvictionMode.AUTO)


@pytest.mark.parametrize("action", ["poweroff", "shutdown"])
@pytest.mark.parametrize("stop", [Kind.STOPPED_FAILED, Kind.STOPPED_SHUTDOWN])
def test_the_stop_that_a_watchdog_requests_may_take_two_minutes(action: str, stop: Kind) -> None:
    story = running()
    fired = story.now
    story.see(Kind.WATCHDOG, action=action)
    story.probe_until(fired + timedelta(seconds=119))
    story.see(stop)
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("Watchdog", EvictionMode.AUTO)


def test_a_guest_that_runs_on_two_minutes_after_its_watchdog_fired_is_left_alone() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="shutdown")
    story.probe_until(story.now + timedelta(seconds=121))
    assert (story.cases(), story.plan().recoveries) == ([], ())


def test_a_watchdog_that_fires_again_within_ten_minutes_moves() -> None:
    story = running()
    story.see(Kind.WATCHDOG, action="reset")
    story.look()
    story.pass_(300)
    story.see(Kind.WATCHDOG, action="reset")
    (recovery,) = story.plan().recoveries
    assert recovery.mode is EvictionMode.COLD


def test_a_reboot_is_checked_and_forgotten() -> None:
    story = running()
    story.see(Kind.REBOOTED)
    story.pass_(0.5)
    story.see(Kind.REBOOTED)
    assert (story.cases(), len(story.get().reboots)) == ([IncidentType.REBOOTING], 1)
    story.look()
    assert story.cases() == []


def test_a_reboot_without_agent_and_disks_fails_after_its_deadline() -> None:
    story = running()
    story.see(Kind.AGENT_CONNECTED, Kind.AGENT_DISCONNECTED, Kind.REBOOTED)
    for _ in range(13):
        assert story.cases() == [IncidentType.REBOOTING]
        story.look(quiet_seconds=200)
    assert story.cases() == [IncidentType.REBOOT_FAILED]
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("RebootFailed", EvictionMode.AUTO)


def test_guest_whose_disks_work_is_still_rebooting() -> None:
    story = running()
    story.see(Kind.AGENT_CONNECTED, Kind.AGENT_DISCONNECTED, Kind.REBOOTED)
    for _ in range(60):
        story.look(quiet_seconds=5)
    assert story.cases() == [IncidentType.REBOOTING]
    story.see(Kind.AGENT_CONNECTED)
    story.look(quiet_seconds=5)
    assert story.cases() == []


def test_five_reboots_in_ten_minutes_are_a_loop_that_is_only_reported() -> None:
    story = running()
    for _ in range(5):
        story.see(Kind.REBOOTED)
        story.look()
        story.pass_(60)
    assert story.cases() == [IncidentType.REBOOT_LOOP]
    assert story.plan().recoveries == ()


def test_pauses_are_reported_once_they_last() -> None:
    story = running()
    story.see(Kind.PAUSED)
    assert not story.only().shown
    story.look(State.PAUSED)
    assert (story.only().shown, story.only().severity) == (True, Severity.WARNING)
    story.see(Kind.RESUMED)
    assert story.cases() == []


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        (Kind.PAUSED_API_ERROR, IncidentType.PAUSED),
        (Kind.POSTCOPY_FAILED, IncidentType.POSTCOPY_FAILED),
    ],
)
def test_incident_that_needs_a_person_is_critical_and_starts_no_recovery(
    kind: Kind, type_: IncidentType
) -> None:
    story = running()
    story.see(kind)
    assert (story.only().type, story.only().severity) == (type_, Severity.CRITICAL)
    assert story.plan(after=3600).recoveries == ()


def test_an_io_error_that_pauses_waits_for_its_storage_and_resumes() -> None:
    story = running()
    story.see(Kind.IO_ERROR, action="pause", reason="enospc", about="/disks/a")
    story.see(Kind.PAUSED_IO_ERROR)
    assert (story.cases(), story.only().reaction) == ([IncidentType.IO_ERROR], Reaction.WAIT)
    story.look(State.PAUSED, storage=False)
    assert story.only().step is Step.PROBE
    story.look(State.PAUSED, storage=True)
    assert story.only().step is Step.RESUME
    story.see(Kind.RESUMED)
    assert story.cases() == []


def test_an_io_error_that_lasts_five_minutes_recovers() -> None:
    story = running()
    story.see(Kind.PAUSED_IO_ERROR)
    for _ in range(31):
        story.look(State.PAUSED, storage=None)
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("IOError", EvictionMode.AUTO)


def resumed_at(story: Story, *, until: float, who: str = U1) -> list[int]:
    """Seconds at which it is resumed, when each resume ends in the next error, until recovered."""
    began, found = story.now, list[int]()
    while (story.now - began).total_seconds() < until and story.only(who).step is Step.PROBE:
        story.look(State.PAUSED, who=who, storage=True)
        if story.only(who).step is Step.RESUME:
            found.append(round((story.now - began).total_seconds()))
            story.known[who] = resumed(story.get(who), story.only(who), story.now)
            story.see(Kind.RESUMED, Kind.PAUSED_IO_ERROR, who=who)
    return found


def test_resumes_wait_longer_each_time_until_five_minutes_have_passed() -> None:
    story = running()
    story.see(Kind.PAUSED_IO_ERROR)
    assert resumed_at(story, until=600) == [10, 20, 50, 170, 290]
    assert story.only().step is Step.RECOVER


def test_a_start_is_resumed_as_often_as_the_limit_has_it() -> None:
    story = running()
    story.config = HaConfig(limits=RecoveryLimits(resumes=2))
    story.see(Kind.PAUSED_IO_ERROR)
    assert resumed_at(story, until=600) == [10, 20]
    assert story.only().step is Step.RECOVER


def test_instances_that_a_storage_has_paused_are_resumed_however_late_it_is_back() -> None:
    story = Story()
    story.run(U1, U2)
    for number, who in enumerate((U1, U2)):
        story.see(Kind.IO_ERROR, who=who, action="pause", about=f"/pool/{number}.raw")
        story.see(Kind.PAUSED_IO_ERROR, who=who)
    for _ in range(60):
        for who in (U1, U2):
            if story.only(who).step is Step.PROBE:
                story.look(State.PAUSED, who=who, storage=False)
        assert story.plan().recoveries == ()
    story.pass_(60)
    assert story.plan().recoveries == ()
    for who in (U1, U2):
        story.look(State.PAUSED, who=who, storage=True)
        assert story.only(who).step is Step.RESUME


@pytest.mark.parametrize(("seconds", "resumes"), [(29, 3), (31, 0)])
def test_resumes_count_from_zero_for_one_that_has_run_well_in_between(
    seconds: int, resumes: int
) -> None:
    story = running()
    story.known[U1] = replace(story.get(), resumes=3, resumed_at=story.now)
    story.pass_(seconds)
    story.see(Kind.PAUSED_IO_ERROR)
    assert story.get().resumes == resumes


def test_errors_reported_to_a_guest_migrate_it_once_they_persist() -> None:
    story = running()
    for _ in range(5):
        story.see(Kind.IO_ERROR, action="report", about="/disks/a")
        story.pass_(1)
    assert story.only().step is Step.EXPIRE
    story.pass_(60)
    for _ in range(5):
        story.see(Kind.IO_ERROR, action="report", about="/disks/a")
        story.pass_(1)
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("IOError", EvictionMode.LIVE)


def test_few_errors_now_and_then_do_not_persist() -> None:
    story = running()
    for _ in range(100):
        story.see(Kind.IO_ERROR, action="report", about="/disks/a")
        story.pass_(30)
    assert story.plan().recoveries == ()


def test_errors_of_one_storage_move_no_instance() -> None:
    story = Story()
    story.run(uuid(1), uuid(2))
    for _ in range(12):
        for number in (1, 2):
            disk = f"/pool/{number}.raw"
            story.see(Kind.IO_ERROR, who=uuid(number), action="report", about=disk)
        story.pass_(10)
    assert story.plan().recoveries == ()
    assert story.cases(HOST) == [IncidentType.STORAGE_DEGRADED]


def test_a_control_error_that_lasts_a_minute_recovers() -> None:
    story = running()
    story.see(Kind.CONTROL_ERROR)
    for _ in range(7):
        story.look(control_error=True)
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("ControlError", EvictionMode.AUTO)


def test_a_control_error_that_passes_is_closed() -> None:
    story = running()
    story.see(Kind.CONTROL_ERROR)
    story.look()
    assert story.cases() == []


def test_a_hung_monitor_is_reported_after_a_minute_and_recovered_after_five() -> None:
    story = running()
    story.see(Kind.MONITOR_OCCUPIED, seconds=30)
    assert story.cases() == []
    story.see(Kind.MONITOR_OCCUPIED, seconds=61)
    assert (story.only().type, story.only().severity) == ("MonitorHung", Severity.WARNING)
    story.look(occupied_seconds=120)
    assert story.plan().recoveries == ()
    story.look(occupied_seconds=301)
    (recovery,) = story.plan().recoveries
    assert (recovery.trigger, recovery.mode) == ("ControlError", EvictionMode.AUTO)


def test_monitor_that_answers_again_closes_its_incident() -> None:
    story = running()
    story.see(Kind.MONITOR_OCCUPIED, seconds=61)
    story.look()
    assert story.cases() == []


@pytest.mark.parametrize(
    ("action", "about"), [("fatal", "guest"), ("inject", "hypervisor"), ("reset", "hypervisor")]
)
def test_failed_memory_of_the_host_empties_it_the_second_time(action: str, about: str) -> None:
    story = Story()
    story.see(Kind.MEMORY_FAILURE, who=HOST, action=action, about=about)
    assert (story.only(HOST).severity, story.plan().recoveries) == (Severity.CRITICAL, ())
    story.pass_(3600)
    story.see(Kind.MEMORY_FAILURE, who=HOST, action=action, about=about)
    (recovery,) = story.plan().recoveries
    assert (recovery.instances, recovery.mode) == ((), EvictionMode.LIVE)
    assert recovery.trigger == "MemoryFailure"


def test_memory_failures_of_guests_are_reported_the_third_time_in_an_hour() -> None:
    story = Story()
    for left in (0, 0, 1):
        story.see(Kind.MEMORY_FAILURE, who=HOST, action="inject", about="guest")
        assert len(story.cases(HOST)) == left
    assert story.only(HOST).severity == Severity.WARNING


@pytest.mark.parametrize(
    "kind",
    [
        Kind.DEFINED,
        Kind.AGENT_CONNECTED,
        Kind.AGENT_DISCONNECTED,
        Kind.DISK_CHANGED,
        Kind.BLOCK_THRESHOLD,
    ],
)
def test_other_signals_are_recorded_and_open_no_incident(kind: Kind) -> None:
    story = running()
    assert (story.see(kind).nature, story.cases()) == (Nature.REPORT, [])


def test_a_missed_crash_is_judged_as_one() -> None:
    story = running()
    verdict = story.see(Kind.STOPPED_CRASHED, missed=True)
    assert "missed" in verdict.rule
    assert story.cases() == [IncidentType.CRASH]


@pytest.mark.parametrize("kind", [Kind.ENDED_BY_BOOT, Kind.ENDED_BY_AGENT])
def test_instance_that_ran_until_its_host_ended_is_restarted_as_after_a_crash(kind: Kind) -> None:
    story = running()
    story.see(kind)
    assert story.cases() == [IncidentType.ENDED_BY_BOOT]
    (recovery,) = story.plan(after=1).recoveries
    assert (recovery.trigger, recovery.mode) == ("InstanceCrash", EvictionMode.AUTO)


@pytest.mark.parametrize("kind", [Kind.ENDED_BY_BOOT, Kind.ENDED_BY_AGENT])
def test_instance_that_a_client_had_paused_stays_off_after_its_host_went_down(kind: Kind) -> None:
    story = running()
    story.see(Kind.PAUSED)
    verdict = story.see(kind)
    assert "paused by a client" in verdict.rule
    assert story.cases() == [IncidentType.OUT_OF_BAND]
    assert story.plan(after=600).recoveries == ()


@pytest.mark.parametrize("kind", [Kind.STOPPED_CRASHED, Kind.STOPPED_FAILED])
def test_instance_that_a_client_had_paused_stays_off_after_a_crash_of_its_emulator(
    kind: Kind,
) -> None:
    """The incident is shown until the instance is started, or a person has seen it."""
    story = running()
    story.see(Kind.PAUSED)
    verdict = story.see(kind)
    assert verdict.severity == Severity.WARNING
    assert "it stays off, its memory is lost" in verdict.rule
    assert story.cases() == [IncidentType.OUT_OF_BAND]
    assert story.plan(after=7200).recoveries == ()
    assert story.cases() == [IncidentType.OUT_OF_BAND]
    story.see(Kind.STARTED)
    assert story.cases() == []


@pytest.mark.parametrize("end", [Kind.STOPPED_CRASHED, Kind.ENDED_BY_BOOT])
def test_instance_that_a_failed_call_had_paused_is_restarted(end: Kind) -> None:
    story = running()
    story.see(Kind.PAUSED_API_ERROR, end)
    assert len(story.plan(after=1).recoveries) == 1


def test_instance_that_a_client_had_resumed_is_restarted_after_its_host_went_down() -> None:
    story = running()
    story.see(Kind.PAUSED, Kind.RESUMED, Kind.ENDED_BY_BOOT)
    assert len(story.plan(after=1).recoveries) == 1


def test_instance_that_its_storage_had_paused_is_restarted_after_its_host_went_down() -> None:
    story = running()
    story.see(Kind.PAUSED_IO_ERROR, Kind.ENDED_BY_BOOT)
    assert len(story.plan(after=1).recoveries) == 1


def test_three_boots_that_end_an_instance_move_it() -> None:
    story = running()
    for _ in range(2):
        story.see(Kind.ENDED_BY_BOOT)
        story.pass_(60)
        story.see(Kind.STARTED)
    verdict = story.see(Kind.ENDED_BY_BOOT)
    assert (verdict.mode, verdict.reaction) == (EvictionMode.COLD, Reaction.MOVE)


def test_instance_that_runs_after_a_boot_is_named() -> None:
    story = running()
    story.see(Kind.RUNS_AFTER_BOOT)
    assert story.cases() == [IncidentType.RUNS_AFTER_BOOT]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (EventType.LIFECYCLE, Kind.STOPPED_FAILED),
        (EventType.REBOOT, Kind.REBOOTED),
        (EventType.WATCHDOG, Kind.WATCHDOG),
        (EventType.IO_ERROR, Kind.PAUSED_IO_ERROR),
        (EventType.CONTROL_ERROR, Kind.CONTROL_ERROR),
        (EventType.MEMORY_FAILURE, Kind.MEMORY_FAILURE),
    ],
)
def test_an_event_type_that_is_not_monitored_does_nothing(type_: EventType, kind: Kind) -> None:
    story = Story(HaConfig(events={type_: EventConfig(monitored=False)}))
    story.run()
    story.see(kind, action="fatal")
    assert story.cases() == []


def test_evidence_is_bounded_and_keeps_the_first_event() -> None:
    story = running()
    for number in range(50):
        story.see(Kind.IO_ERROR, action="report", about=f"/disks/{number}")
        story.pass_(1)
    case = story.only()
    assert len(case.evidence) == 8
    assert "/disks/0" in case.evidence[0]
    assert len(story.get().disks) <= 16


def test_a_case_keeps_its_name_over_repeats() -> None:
    story = running()
    story.see(Kind.IO_ERROR, action="report", about="/disks/a")
    first = story.only()
    story.pass_(5)
    story.see(Kind.IO_ERROR, action="report", about="/disks/b")
    assert (story.only().id, story.only().count) == (first.id, 2)
    assert story.only().last_seen - first.last_seen >= timedelta(seconds=5)
