"""From libvirt's events and listings to the signals of the rules. Pure.

Source: libvirt-domain.h; the HA reference, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import (
    AgentState,
    Crashed,
    IoErrorAction,
    Lifecycle,
    MemoryAction,
    MemoryRecipient,
    PausedReason,
    Resumed,
    Shutdown,
    ShutoffReason,
    Started,
    Stopped,
    Suspended,
    WatchdogAction,
)
from hypercobalt.agent.text import clean
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import CRASHES, InstanceRecord, State
from hypercobalt.ha.incidents.signals import Kind, Signal

_LIFECYCLE: Final[Mapping[tuple[int, int], Kind]] = {
    (Lifecycle.STARTED, Started.MIGRATED): Kind.ARRIVING,
    (Lifecycle.SUSPENDED, Suspended.PAUSED): Kind.PAUSED,
    (Lifecycle.SUSPENDED, Suspended.IO_ERROR): Kind.PAUSED_IO_ERROR,
    (Lifecycle.SUSPENDED, Suspended.WATCHDOG): Kind.PAUSED_WATCHDOG,
    (Lifecycle.SUSPENDED, Suspended.API_ERROR): Kind.PAUSED_API_ERROR,
    (Lifecycle.SUSPENDED, Suspended.POSTCOPY_FAILED): Kind.POSTCOPY_FAILED,
    (Lifecycle.RESUMED, Resumed.MIGRATED): Kind.ARRIVED,
    (Lifecycle.RESUMED, Resumed.POSTCOPY): Kind.ARRIVED,
    (Lifecycle.RESUMED, Resumed.POSTCOPY_FAILED): Kind.POSTCOPY_FAILED,
    (Lifecycle.STOPPED, Stopped.SHUTDOWN): Kind.STOPPED_SHUTDOWN,
    (Lifecycle.STOPPED, Stopped.DESTROYED): Kind.STOPPED_DESTROYED,
    (Lifecycle.STOPPED, Stopped.CRASHED): Kind.STOPPED_CRASHED,
    (Lifecycle.STOPPED, Stopped.FAILED): Kind.STOPPED_FAILED,
    (Lifecycle.SHUTDOWN, Shutdown.HOST): Kind.SHUTDOWN_BY_HOST,
    (Lifecycle.CRASHED, Crashed.CRASHLOADED): Kind.DUMPING,
}
_LIFECYCLE_TYPES: Final[Mapping[int, Kind]] = {  # whatever the detail, if not named above
    Lifecycle.DEFINED: Kind.DEFINED,
    Lifecycle.UNDEFINED: Kind.UNDEFINED,
    Lifecycle.STARTED: Kind.STARTED,
    Lifecycle.SUSPENDED: Kind.PAUSED_PLANNED,
    Lifecycle.RESUMED: Kind.RESUMED,
    Lifecycle.STOPPED: Kind.STOPPED_PLANNED,
    Lifecycle.SHUTDOWN: Kind.SHUTDOWN_BY_GUEST,
    Lifecycle.PMSUSPENDED: Kind.PAUSED_PLANNED,
    Lifecycle.CRASHED: Kind.PANICKED,
}
_KINDS: Final = {
    EventKind.REBOOT: Kind.REBOOTED,
    EventKind.WATCHDOG: Kind.WATCHDOG,
    EventKind.IO_ERROR: Kind.IO_ERROR,
    EventKind.CONTROL_ERROR: Kind.CONTROL_ERROR,
    EventKind.MEMORY_FAILURE: Kind.MEMORY_FAILURE,
    EventKind.DISK_CHANGE: Kind.DISK_CHANGED,
    EventKind.BLOCK_THRESHOLD: Kind.BLOCK_THRESHOLD,
}
_ACTIONS: Final[Mapping[EventKind, Mapping[int, str]]] = {
    EventKind.WATCHDOG: {
        WatchdogAction.NONE: "none",
        WatchdogAction.PAUSE: "pause",
        WatchdogAction.RESET: "reset",
        WatchdogAction.POWEROFF: "poweroff",
        WatchdogAction.SHUTDOWN: "shutdown",
        WatchdogAction.DEBUG: "debug",
        WatchdogAction.INJECT_NMI: "inject-nmi",
    },
    EventKind.IO_ERROR: {IoErrorAction.PAUSE: "pause", IoErrorAction.REPORT: "report"},
    EventKind.MEMORY_FAILURE: {
        MemoryAction.IGNORE: "ignore",
        MemoryAction.INJECT: "inject",
        MemoryAction.FATAL: "fatal",
        MemoryAction.RESET: "reset",
    },
}
_RECIPIENTS: Final[Mapping[int, str]] = {
    MemoryRecipient.HYPERVISOR: "hypervisor",
    MemoryRecipient.GUEST: "guest",
}

_STOPPED_FOR: Final[Mapping[int, Kind]] = {
    ShutoffReason.CRASHED: Kind.STOPPED_CRASHED,
    ShutoffReason.DAEMON: Kind.STOPPED_CRASHED,  # killed by a libvirtd that could not go on with it
    ShutoffReason.SHUTDOWN: Kind.STOPPED_SHUTDOWN,
    ShutoffReason.DESTROYED: Kind.STOPPED_DESTROYED,
    ShutoffReason.MIGRATED: Kind.STOPPED_PLANNED,
    ShutoffReason.SAVED: Kind.STOPPED_PLANNED,
    ShutoffReason.FROM_SNAPSHOT: Kind.STOPPED_PLANNED,
}
_LOGGED: Final[Mapping[str, Kind]] = {
    "crashed": Kind.STOPPED_CRASHED,
    "daemon": Kind.STOPPED_CRASHED,
    "shutdown": Kind.STOPPED_SHUTDOWN,
    "destroyed": Kind.STOPPED_DESTROYED,
    "migrated": Kind.STOPPED_PLANNED,
    "saved": Kind.STOPPED_PLANNED,
    "from snapshot": Kind.STOPPED_PLANNED,
}
"""The same reasons, as libvirt writes them into the log of a domain."""
_PAUSED_FOR: Final[Mapping[int, Kind]] = {
    PausedReason.USER: Kind.PAUSED,
    PausedReason.IO_ERROR: Kind.PAUSED_IO_ERROR,
    PausedReason.WATCHDOG: Kind.PAUSED_WATCHDOG,
    PausedReason.CRASHED: Kind.PANICKED,
    PausedReason.POSTCOPY_FAILED: Kind.POSTCOPY_FAILED,
    PausedReason.API_ERROR: Kind.PAUSED_API_ERROR,
}
_PANIC_IS_KNOWN_BY: Final = (
    *CRASHES,
    IncidentType.HOST_OUT_OF_MEMORY,
    IncidentType.WATCHDOG,
    IncidentType.RECOVERY_EXHAUSTED,
)
"""What may have become of the incident of an instance that has panicked, and is kept as it is."""


def signal_of(event: DomainEvent) -> Signal | None:
    """The signal that an event is; None for one that the rules do not look at."""
    kind = _kind_of(event)
    if kind is None:
        return None
    memory = event.kind is EventKind.MEMORY_FAILURE
    return Signal(
        kind=kind,
        instance=event.uuid,
        name=clean(event.name),
        at=event.at,
        domain_id=event.domain_id,
        action=_ACTIONS.get(event.kind, {}).get(event.detail, ""),
        about=_RECIPIENTS.get(event.type, "") if memory else clean(event.path),
        reason=clean(event.reason) if event.kind is EventKind.IO_ERROR else "",
    )


def _kind_of(event: DomainEvent) -> Kind | None:
    if event.kind is EventKind.LIFECYCLE:
        return _LIFECYCLE.get((event.type, event.detail)) or _LIFECYCLE_TYPES.get(event.type)
    if event.kind is EventKind.AGENT_LIFECYCLE:
        if event.type == AgentState.CONNECTED:
            return Kind.AGENT_CONNECTED
        return Kind.AGENT_DISCONNECTED
    return _KINDS.get(event.kind)


def has_lost_its_reason(domain: Domain, known: InstanceRecord, *, same_boot: bool) -> bool:
    """Whether it has ended since it was remembered, and libvirt no longer has the reason."""
    ended = known.active and not domain.active and same_boot
    return ended and domain.reason not in _STOPPED_FOR


def found(
    domain: Domain, known: InstanceRecord, at: datetime, *, same_boot: bool, logged: str = ""
) -> tuple[Signal, ...]:
    """What a listing shows that was not known: the signals whose events were missed.

    Args:
        domain: as listed.
        known: what is remembered of it.
        at: before the listing began.
        same_boot: the host has not booted since that was remembered.
        logged: why it has ended, by its log; "" where that has nothing, or was not read.
    """
    kinds = tuple(_found(domain, known, same_boot=same_boot, logged=logged))
    by_log = has_lost_its_reason(domain, known, same_boot=same_boot) and logged in _LOGGED
    return tuple(
        Signal(
            kind=kind,
            instance=domain.uuid,
            name=clean(domain.name),
            at=at,
            domain_id=domain.id,
            reason="by its log" if by_log else "",
            missed=known.state is not State.UNKNOWN,
        )
        for kind in kinds
    )


def _found(domain: Domain, known: InstanceRecord, *, same_boot: bool, logged: str) -> list[Kind]:
    if not domain.active:
        if not known.active:
            return [Kind.FOUND_OFF] if known.state is not State.OFF else []
        if not same_boot:  # libvirt keeps no reason over a boot
            return [Kind.ENDED_BY_BOOT]
        by_libvirt = _STOPPED_FOR.get(domain.reason)
        return [by_libvirt or _LOGGED.get(logged, Kind.FOUND_OFF)]
    runs_here = known.active and domain.id == known.domain_id
    if domain.paused_by_migration:
        return [] if runs_here or known.state is State.INCOMING else [Kind.ARRIVING]
    kinds: list[Kind] = []
    if known.state is State.INCOMING:
        kinds.append(Kind.ARRIVED)
    elif not runs_here:
        kinds.append(Kind.STARTED)
        if not same_boot:
            kinds.append(Kind.RUNS_AFTER_BOOT)
    was_paused = known.state is State.PAUSED and not kinds
    if domain.state is DomainState.CRASHED:
        if kinds or known.case(*_PANIC_IS_KNOWN_BY) is None:
            kinds.append(Kind.PANICKED)
    elif domain.state is DomainState.PAUSED:
        if not was_paused:
            kinds.extend(filter(None, [_PAUSED_FOR.get(domain.reason)]))
    elif was_paused:
        kinds.append(Kind.RESUMED)
    return kinds


def state_of(domain: Domain | None) -> State:
    """The state that `holding.released` goes by; a guest that has panicked does not run."""
    if domain is None:
        return State.UNKNOWN
    if not domain.active or domain.state is DomainState.CRASHED:
        return State.OFF
    by_watchdog = domain.state is DomainState.PAUSED and domain.reason == PausedReason.WATCHDOG
    return State.PAUSED if by_watchdog else State.RUNNING


def is_as_remembered(domain: Domain | None, known: InstanceRecord) -> bool:
    """Whether libvirt lists the start that is remembered, and no resume that was not seen.

    A transient domain that has ended is listed no more.
    """
    if domain is None:
        return known.state is State.OFF
    if domain.id != known.domain_id:
        return False
    return known.state is not State.PAUSED or domain.state is not DomainState.RUNNING


def is_paused_by_errors(domain: Domain | None) -> bool:
    """Whether I/O errors pause it, and no client has resumed it, or paused it, since."""
    if domain is None or domain.state is not DomainState.PAUSED:
        return False
    return domain.reason in {PausedReason.IO_ERROR, PausedReason.UNKNOWN}
