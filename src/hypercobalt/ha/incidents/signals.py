"""Signals of an instance, in the words of the rules. Pure.

The agent makes signals from libvirt's events and from listings; `classify.py` judges them.
libvirt's own numbers stay with its adapter.

Source: libvirt-domain.h, virDomainEventID and the details of its events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

HOST: Final = ""
"""In place of an instance's UUID: the signal is about the host."""


class EventType(StrEnum):
    """Types of events that the configuration turns on and off."""

    LIFECYCLE = "lifecycle"
    REBOOT = "reboot"
    WATCHDOG = "watchdog"
    IO_ERROR = "ioError"
    CONTROL_ERROR = "controlError"
    AGENT_LIFECYCLE = "agentLifecycle"
    MEMORY_FAILURE = "memoryFailure"


class Kind(StrEnum):
    """Kind of a signal."""

    DEFINED = "Defined"
    UNDEFINED = "Undefined"
    STARTED = "Started"
    ARRIVING = "Arriving"  # here as the far end of a migration, not running yet
    ARRIVED = "Arrived"
    RESUMED = "Resumed"
    PAUSED = "Paused"  # by a client of libvirt, or on the way to another state
    PAUSED_PLANNED = "PausedPlanned"  # by a migration, a snapshot, the guest's own sleep
    PAUSED_IO_ERROR = "PausedIOError"
    PAUSED_WATCHDOG = "PausedWatchdog"
    PAUSED_API_ERROR = "PausedAPIError"
    POSTCOPY_FAILED = "PostcopyFailed"
    SHUTDOWN_BY_GUEST = "ShutdownByGuest"
    SHUTDOWN_BY_HOST = "ShutdownByHost"
    STOPPED_SHUTDOWN = "StoppedShutdown"
    STOPPED_DESTROYED = "StoppedDestroyed"
    STOPPED_CRASHED = "StoppedCrashed"
    STOPPED_FAILED = "StoppedFailed"
    STOPPED_PLANNED = "StoppedPlanned"  # migrated away, saved, or off by a snapshot
    FOUND_OFF = "FoundOff"  # by a listing; libvirt has no reason for it
    ENDED_BY_BOOT = "EndedByBoot"  # by a listing: it ran until the host went down
    ENDED_BY_AGENT = "EndedByAgent"  # which has fenced its host
    RUNS_AFTER_BOOT = "RunsAfterBoot"  # by a listing: the host has booted, and it runs already
    PANICKED = "Panicked"
    DUMPING = "Dumping"  # its kernel panicked, and a crash kernel saves its memory
    REBOOTED = "Rebooted"
    WATCHDOG = "Watchdog"
    IO_ERROR = "IOError"
    CONTROL_ERROR = "ControlError"
    MONITOR_OCCUPIED = "MonitorOccupied"  # by a probe: the emulator owes an answer
    AGENT_CONNECTED = "AgentConnected"
    AGENT_DISCONNECTED = "AgentDisconnected"
    MEMORY_FAILURE = "MemoryFailure"
    DISK_CHANGED = "DiskChanged"
    BLOCK_THRESHOLD = "BlockThreshold"


EVENT_TYPE: Final = {
    Kind.REBOOTED: EventType.REBOOT,
    Kind.WATCHDOG: EventType.WATCHDOG,
    Kind.PAUSED_WATCHDOG: EventType.WATCHDOG,
    Kind.IO_ERROR: EventType.IO_ERROR,
    Kind.PAUSED_IO_ERROR: EventType.IO_ERROR,
    Kind.DISK_CHANGED: EventType.IO_ERROR,
    Kind.BLOCK_THRESHOLD: EventType.IO_ERROR,
    Kind.CONTROL_ERROR: EventType.CONTROL_ERROR,
    Kind.MONITOR_OCCUPIED: EventType.CONTROL_ERROR,
    Kind.AGENT_CONNECTED: EventType.AGENT_LIFECYCLE,
    Kind.AGENT_DISCONNECTED: EventType.AGENT_LIFECYCLE,
    Kind.MEMORY_FAILURE: EventType.MEMORY_FAILURE,
}
"""Event type of each kind; the other kinds belong to the lifecycle."""

STARTS: Final = frozenset({Kind.STARTED, Kind.ARRIVED})
STOPS: Final = frozenset(
    {
        Kind.STOPPED_SHUTDOWN,
        Kind.STOPPED_DESTROYED,
        Kind.STOPPED_CRASHED,
        Kind.STOPPED_FAILED,
        Kind.STOPPED_PLANNED,
        Kind.FOUND_OFF,
        Kind.ENDED_BY_BOOT,
        Kind.ENDED_BY_AGENT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """An event of one instance.

    Args:
        kind: kind of event.
        instance: UUID; `HOST` for the host.
        name: of its domain.
        at: when this process learned of it, UTC.
        domain_id: libvirt's number of the instance's present start; -1 while it is off or unknown.
        action: QEMU's reaction: `pause`, `report`, `reset`, `poweroff`, `inject`, `fatal`.
        about: path of the disk, or owner of the failed memory (`hypervisor`, `guest`).
        reason: for an I/O error `enospc` or ""; for an end, a source of its cause other than
            libvirt.
        seconds: time for which a monitor has been occupied.
        missed: found by a listing; its event was missed.
    """

    kind: Kind
    instance: str
    name: str
    at: datetime
    domain_id: int = -1
    action: str = ""
    about: str = ""
    reason: str = ""
    seconds: float = 0
    missed: bool = False

    @property
    def text(self) -> str:
        """Return the signal as evidence, for a person."""
        extra = ", ".join(filter(None, (self.action, self.reason, self.about)))
        found = f"{self.kind} ({extra})" if extra else self.kind.value
        return f"{found}, found at a resync" if self.missed else found


def is_grave(signal: Signal) -> bool:
    """Whether a memory failure is fatal, or hits the hypervisor instead of a guest.

    One that QEMU itself could ignore is the hardware's all the same.
    """
    return signal.action == "fatal" or signal.about == "hypervisor"


def is_harmless(signal: Signal) -> bool:
    """Whether no process is affected by a memory failure."""
    return signal.action == "ignore" and not is_grave(signal)
