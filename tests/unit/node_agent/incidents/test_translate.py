"""Changes that a listing shows and no event has reported."""

from __future__ import annotations

import pytest
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import (
    AgentState,
    Crashed,
    CrashedReason,
    Lifecycle,
    MemoryAction,
    MemoryRecipient,
    PausedReason,
    RunningReason,
    ShutoffReason,
)
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import InstanceRecord, State
from hypercobalt.ha.incidents.signals import Kind
from hypercobalt.node_agent.incidents.translate import found, is_as_remembered, signal_of

RUNNING, PAUSED, OFF = DomainState.RUNNING, DomainState.PAUSED, DomainState.SHUTOFF


def known(state: State, domain_id: int = 7) -> InstanceRecord:
    return InstanceRecord(uuid=U1, state=state, domain_id=domain_id, start=f"{domain_id}.1")


def listed(state: DomainState, reason: int = 0, domain_id: int = 7) -> Domain:
    active = state is not OFF
    return Domain(U1, "vm1", active, state, reason=reason, id=domain_id if active else -1)


@pytest.mark.parametrize(
    ("before", "now", "kinds"),
    [
        pytest.param(known(State.RUNNING), listed(RUNNING), [], id="as it was"),
        pytest.param(
            known(State.RUNNING),
            listed(OFF, ShutoffReason.CRASHED),
            [Kind.STOPPED_CRASHED],
            id="crashed",
        ),
        pytest.param(
            known(State.PAUSED),
            listed(OFF, ShutoffReason.CRASHED),
            [Kind.STOPPED_CRASHED],
            id="crashed while paused",
        ),
        pytest.param(
            known(State.RUNNING),
            listed(OFF, ShutoffReason.SHUTDOWN),
            [Kind.STOPPED_SHUTDOWN],
            id="shut down",
        ),
        pytest.param(
            known(State.RUNNING),
            listed(OFF, ShutoffReason.DESTROYED),
            [Kind.STOPPED_DESTROYED],
            id="destroyed",
        ),
        pytest.param(
            known(State.RUNNING),
            listed(OFF, ShutoffReason.MIGRATED),
            [Kind.STOPPED_PLANNED],
            id="migrated away",
        ),
        pytest.param(
            known(State.RUNNING), listed(OFF, 99), [Kind.FOUND_OFF], id="off for a new reason"
        ),
        pytest.param(
            known(State.RUNNING),
            listed(OFF, ShutoffReason.DAEMON),
            [Kind.STOPPED_CRASHED],
            id="killed by a libvirtd that could not go on with it",
        ),
        pytest.param(known(State.OFF), listed(OFF, ShutoffReason.CRASHED), [], id="off as before"),
        pytest.param(
            known(State.UNKNOWN),
            listed(OFF, ShutoffReason.CRASHED),
            [Kind.FOUND_OFF],
            id="crashed before anybody watched",
        ),
        pytest.param(
            known(State.RUNNING),
            listed(RUNNING, RunningReason.BOOTED, 8),
            [Kind.STARTED],
            id="started anew",
        ),
        pytest.param(known(State.OFF), listed(RUNNING), [Kind.STARTED], id="started"),
        pytest.param(known(State.INCOMING), listed(RUNNING), [Kind.ARRIVED], id="arrived"),
        pytest.param(
            known(State.UNKNOWN),
            listed(PAUSED, PausedReason.MIGRATION),
            [Kind.ARRIVING],
            id="comes in",
        ),
        pytest.param(
            known(State.OFF, -1),
            listed(PAUSED, PausedReason.MIGRATION),
            [Kind.ARRIVING],
            id="comes in where it was before",
        ),
        pytest.param(
            known(State.RUNNING, 6),
            listed(PAUSED, PausedReason.MIGRATION),
            [Kind.ARRIVING],
            id="comes in, and that it had left was missed",
        ),
        pytest.param(
            known(State.INCOMING), listed(PAUSED, PausedReason.MIGRATION), [], id="comes in still"
        ),
        pytest.param(
            known(State.RUNNING), listed(PAUSED, PausedReason.MIGRATION), [], id="goes out"
        ),
        pytest.param(
            known(State.RUNNING),
            listed(PAUSED, PausedReason.IO_ERROR),
            [Kind.PAUSED_IO_ERROR],
            id="paused by an error",
        ),
        pytest.param(
            known(State.PAUSED), listed(PAUSED, PausedReason.IO_ERROR), [], id="paused as before"
        ),
        pytest.param(known(State.PAUSED), listed(RUNNING), [Kind.RESUMED], id="resumed"),
        pytest.param(
            known(State.RUNNING),
            listed(DomainState.CRASHED, CrashedReason.PANICKED),
            [Kind.PANICKED],
            id="panicked",
        ),
        pytest.param(
            known(State.PAUSED).with_case(open_case(IncidentType.PAUSED)),
            listed(DomainState.CRASHED, CrashedReason.PANICKED),
            [Kind.PANICKED],
            id="panicked, of which only the pause was seen",
        ),
        pytest.param(
            known(State.RUNNING).with_case(open_case(IncidentType.CRASH)),
            listed(DomainState.CRASHED, CrashedReason.PANICKED),
            [],
            id="panicked as before",
        ),
        pytest.param(
            known(State.RUNNING).with_case(open_case(IncidentType.RECOVERY_EXHAUSTED)),
            listed(DomainState.CRASHED, CrashedReason.PANICKED),
            [],
            id="panicked, and given up",
        ),
    ],
)
def test_listing_shows_missed_events(
    before: InstanceRecord, now: Domain, kinds: list[Kind]
) -> None:
    signals = found(now, before, NOON, same_boot=True)
    assert [signal.kind for signal in signals] == kinds
    assert all(signal.missed == (before.state is not State.UNKNOWN) for signal in signals)


@pytest.mark.parametrize(
    ("before", "kinds"),
    [
        (State.RUNNING, [Kind.ENDED_BY_BOOT]),
        (State.PAUSED, [Kind.ENDED_BY_BOOT]),
        (State.INCOMING, [Kind.FOUND_OFF]),
        (State.UNKNOWN, [Kind.FOUND_OFF]),
        (State.OFF, []),
    ],
)
def test_instance_that_ran_until_the_host_ended_is_found_after_its_boot(
    before: State, kinds: list[Kind]
) -> None:
    gone = listed(OFF, ShutoffReason.UNKNOWN)
    signals = found(gone, known(before), NOON, same_boot=False)
    assert [signal.kind for signal in signals] == kinds


def test_instance_that_runs_after_a_boot_is_named() -> None:
    signals = found(listed(RUNNING, 1, 1), known(State.RUNNING), NOON, same_boot=False)
    assert [one.kind for one in signals] == [Kind.STARTED, Kind.RUNS_AFTER_BOOT]


def event(kind: EventKind, type_: int = 0, detail: int = 0) -> DomainEvent:
    return DomainEvent(kind, U1, "vm1", NOON, type_, detail)


def test_the_agents_channel_and_memory_keep_their_meaning() -> None:
    up = signal_of(event(EventKind.AGENT_LIFECYCLE, AgentState.CONNECTED, 1))
    assert up is not None
    assert up.kind is Kind.AGENT_CONNECTED
    memory = signal_of(
        event(EventKind.MEMORY_FAILURE, MemoryRecipient.HYPERVISOR, MemoryAction.FATAL)
    )
    assert memory is not None
    assert (memory.about, memory.action) == ("hypervisor", "fatal")


@pytest.mark.parametrize(
    ("detail", "kind"), [(Crashed.PANICKED, Kind.PANICKED), (Crashed.CRASHLOADED, Kind.DUMPING)]
)
def test_panic_with_a_crash_kernel_is_distinguished(detail: int, kind: Kind) -> None:
    signal = signal_of(event(EventKind.LIFECYCLE, Lifecycle.CRASHED, detail))
    assert signal is not None
    assert signal.kind is kind


def test_events_of_a_newer_libvirt_break_nothing() -> None:
    for kind in EventKind:
        for type_ in (0, 9, 99):
            for detail in (0, 9, 99):
                signal_of(event(kind, type_, detail))


@pytest.mark.parametrize(
    ("domain", "remembered", "same"),
    [
        pytest.param(listed(OFF), known(State.OFF, -1), True, id="off"),
        pytest.param(None, known(State.OFF, -1), True, id="a transient one that has ended"),
        pytest.param(None, known(State.RUNNING), False, id="gone unseen"),
        pytest.param(listed(RUNNING), known(State.OFF, -1), False, id="started unseen"),
        pytest.param(listed(RUNNING, domain_id=8), known(State.RUNNING), False, id="another start"),
        pytest.param(listed(RUNNING), known(State.PAUSED), False, id="resumed unseen"),
        pytest.param(listed(PAUSED), known(State.PAUSED), True, id="paused"),
    ],
)
def test_listing_agrees_with_the_memory_unless_an_event_is_missing(
    domain: Domain | None, remembered: InstanceRecord, *, same: bool
) -> None:
    assert is_as_remembered(domain, remembered) is same
