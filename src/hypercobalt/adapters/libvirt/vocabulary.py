"""Numbers that libvirt gives with events and states; a newer libvirt has more of them.

They are compared with the plain integers of `DomainEvent` and `Domain`, so a number that is missing
here is no error.

Source: libvirt's include/libvirt/libvirt-domain.h.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Lifecycle(IntEnum):
    """virDomainEventType."""

    DEFINED = 0
    UNDEFINED = 1
    STARTED = 2
    SUSPENDED = 3
    RESUMED = 4
    STOPPED = 5
    SHUTDOWN = 6
    PMSUSPENDED = 7
    CRASHED = 8


class Started(IntEnum):
    """virDomainEventStartedDetailType."""

    BOOTED = 0
    MIGRATED = 1
    RESTORED = 2
    FROM_SNAPSHOT = 3
    WAKEUP = 4


class Suspended(IntEnum):
    """virDomainEventSuspendedDetailType."""

    PAUSED = 0
    MIGRATED = 1
    IO_ERROR = 2
    WATCHDOG = 3
    RESTORED = 4
    FROM_SNAPSHOT = 5
    API_ERROR = 6
    POSTCOPY = 7
    POSTCOPY_FAILED = 8


class Resumed(IntEnum):
    """virDomainEventResumedDetailType."""

    UNPAUSED = 0
    MIGRATED = 1
    FROM_SNAPSHOT = 2
    POSTCOPY = 3
    POSTCOPY_FAILED = 4


class Stopped(IntEnum):
    """virDomainEventStoppedDetailType."""

    SHUTDOWN = 0
    DESTROYED = 1
    CRASHED = 2
    MIGRATED = 3
    SAVED = 4
    FAILED = 5
    FROM_SNAPSHOT = 6


class Shutdown(IntEnum):
    """virDomainEventShutdownDetailType: who shuts it down."""

    FINISHED = 0
    GUEST = 1
    HOST = 2


class Crashed(IntEnum):
    """virDomainEventCrashedDetailType."""

    PANICKED = 0
    CRASHLOADED = 1


class WatchdogAction(IntEnum):
    """virDomainEventWatchdogAction."""

    NONE = 0
    PAUSE = 1
    RESET = 2
    POWEROFF = 3
    SHUTDOWN = 4
    DEBUG = 5
    INJECT_NMI = 6


class IoErrorAction(IntEnum):
    """virDomainEventIOErrorAction: what QEMU does after the error."""

    NONE = 0
    PAUSE = 1
    REPORT = 2


class DiskChange(IntEnum):
    """virConnectDomainEventDiskChangeReason: the disk's source was missing at the start."""

    CHANGED_MISSING_ON_START = 0
    DROPPED_MISSING_ON_START = 1


class AgentState(IntEnum):
    """virConnectDomainEventAgentLifecycleState."""

    CONNECTED = 1
    DISCONNECTED = 2


class AgentReason(IntEnum):
    """virConnectDomainEventAgentLifecycleReason."""

    UNKNOWN = 0
    DOMAIN_STARTED = 1
    CHANNEL = 2


class MemoryRecipient(IntEnum):
    """virDomainMemoryFailureRecipientType: whose memory failed."""

    HYPERVISOR = 0
    GUEST = 1


class MemoryAction(IntEnum):
    """virDomainMemoryFailureActionType: what QEMU did about it."""

    IGNORE = 0
    INJECT = 1
    FATAL = 2
    RESET = 3


class MemoryFlag(IntFlag):
    """virDomainMemoryFailureFlags."""

    ACTION_REQUIRED = 1
    RECURSIVE = 2


class RunningReason(IntEnum):
    """virDomainRunningReason."""

    UNKNOWN = 0
    BOOTED = 1
    MIGRATED = 2
    RESTORED = 3
    FROM_SNAPSHOT = 4
    UNPAUSED = 5
    MIGRATION_CANCELED = 6
    SAVE_CANCELED = 7
    WAKEUP = 8
    CRASHED = 9
    POSTCOPY = 10
    POSTCOPY_FAILED = 11


class PausedReason(IntEnum):
    """virDomainPausedReason."""

    UNKNOWN = 0
    USER = 1
    MIGRATION = 2
    SAVE = 3
    DUMP = 4
    IO_ERROR = 5
    WATCHDOG = 6
    FROM_SNAPSHOT = 7
    SHUTTING_DOWN = 8
    SNAPSHOT = 9
    CRASHED = 10
    STARTING_UP = 11
    POSTCOPY = 12
    POSTCOPY_FAILED = 13
    API_ERROR = 14


class ShutoffReason(IntEnum):
    """virDomainShutoffReason."""

    UNKNOWN = 0
    SHUTDOWN = 1
    DESTROYED = 2
    CRASHED = 3
    MIGRATED = 4
    SAVED = 5
    FAILED = 6
    FROM_SNAPSHOT = 7
    DAEMON = 8


class CrashedReason(IntEnum):
    """virDomainCrashedReason."""

    UNKNOWN = 0
    PANICKED = 1


class ControlState(IntEnum):
    """virDomainControlState: how the way from libvirt to an emulator is."""

    OK = 0
    JOB = 1
    OCCUPIED = 2
    ERROR = 3


class DiskFault(IntEnum):
    """virDomainDiskErrorCode."""

    NONE = 0
    UNSPECIFIED = 1
    NO_SPACE = 2
