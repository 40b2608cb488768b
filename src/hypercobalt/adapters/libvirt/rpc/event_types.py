"""The events of libvirt that we register for, and what each carries.

Fields that `events.DomainEvent` has, too, have its names.

Source: `remote_domain_event_…_msg` in libvirt's src/remote/remote_protocol.x, `qemu_…_msg` in its
qemu_protocol.x; virDomainEventID in libvirt-domain.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hypercobalt.adapters.libvirt.rpc.protocol import QEMU, REMOTE, DomainRef
from hypercobalt.adapters.libvirt.rpc.xdr import Hyper, Int, TypedParameter, UHyper, UInt

Payload = TypeVar("Payload", bound=tuple[Any, ...])


class DomainEvent(NamedTuple):
    callback: Int
    domain: DomainRef


class NumberEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    detail: Int


class PairEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    type: Int
    detail: Int


class IoErrorEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    path: str
    alias: str
    detail: Int  # action
    reason: str


class DiskChangeEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    path: str | None  # old
    new_path: str | None
    alias: str
    detail: Int  # reason


class BlockThresholdEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    alias: str  # device
    path: str | None
    threshold: UHyper
    excess: UHyper


class DeviceEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    device: str


class BalloonEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    kib: UHyper


class ParametersEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    parameters: tuple[TypedParameter, ...]


class MemoryFailureEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    type: Int  # recipient
    detail: Int  # action
    flags: UInt


class QemuEvent(NamedTuple):
    callback: Int
    domain: DomainRef
    event: str
    seconds: Hyper
    micros: UInt
    details: str | None


@dataclass(frozen=True, slots=True)
class EventType(Generic[Payload]):
    """An event that the daemon sends to clients that register for it.

    Args:
        id: virDomainEventID, by which it is registered for.
        number: of its message, in its program.
        payload: struct that it carries.
        program: REMOTE or QEMU.
    """

    id: int
    number: int
    payload: type[Payload]
    program: int = REMOTE


LIFECYCLE: Final = EventType(0, 318, PairEvent)
REBOOT: Final = EventType(1, 319, DomainEvent)
WATCHDOG: Final = EventType(3, 321, NumberEvent)
IO_ERROR: Final = EventType(6, 324, IoErrorEvent)  # …_IO_ERROR_REASON
CONTROL_ERROR: Final = EventType(7, 325, DomainEvent)
DISK_CHANGE: Final = EventType(9, 327, DiskChangeEvent)
BALLOON_CHANGE: Final = EventType(13, 331, BalloonEvent)
DEVICE_REMOVED: Final = EventType(15, 333, DeviceEvent)
TUNABLE: Final = EventType(17, 346, ParametersEvent)
AGENT_LIFECYCLE: Final = EventType(18, 348, PairEvent)
DEVICE_ADDED: Final = EventType(19, 354, DeviceEvent)
MIGRATION_ITERATION: Final = EventType(20, 359, NumberEvent)
JOB_COMPLETED: Final = EventType(21, 363, ParametersEvent)
BLOCK_THRESHOLD: Final = EventType(24, 385, BlockThresholdEvent)
MEMORY_FAILURE: Final = EventType(25, 423, MemoryFailureEvent)
QEMU_EVENT: Final = EventType(-1, 6, QemuEvent, QEMU)  # registered for by its name
