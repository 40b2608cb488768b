"""Which of libvirt's domain events we ask for, and what each becomes.

Callbacks run on libvirt's event thread; they take what they need out of libvirt's objects at once.

libvirt tells nobody that a migration failed or was cancelled, and its job says which of the two for
some hundredths of a second only. QEMU tells, and libvirt passes that on to whoever asks; it is the
sign to look at the job at once.

Source: virDomainEventID and the callback types in libvirt-domain.h; QEMU's QMP event MIGRATION.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import libvirt
import libvirt_qemu
import msgspec

from hypercobalt.adapters.libvirt.model import DomainEvent, EventKind, JobStats, JobValue, Lifecycle
from hypercobalt.adapters.libvirt.statistics import ended_job_of

Handler = Callable[[DomainEvent], None]

UNSUPPORTED = frozenset(
    {
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_INVALID_ARG,  # an event or flag that an older daemon does not know
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_RPC,  # a procedure that an older daemon does not know
    }
)

# After these a domain's document may differ.
_CHANGING = {Lifecycle.DEFINED, Lifecycle.UNDEFINED, Lifecycle.STARTED, Lifecycle.STOPPED}


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an event's own arguments say."""

    type: int = 0
    detail: int = 0
    reason: str = ""
    stats: JobStats | None = None


Reader = Callable[..., _Facts]


def _nothing(*_: object) -> _Facts:
    return _Facts()


def _lifecycle(type_: int, detail: int) -> _Facts:
    return _Facts(type=type_, detail=detail)


def _detail(detail: int, *_: object) -> _Facts:
    return _Facts(detail=detail)


def _io_error(_path: str, _alias: str, action: int, reason: object) -> _Facts:
    return _Facts(detail=action, reason=str(reason))


def _memory_failure(_recipient: int, action: int, _flags: int) -> _Facts:
    return _Facts(detail=action)


def _job_completed(values: dict[str, JobValue]) -> _Facts:
    return _Facts(stats=ended_job_of(values))


class _Details(msgspec.Struct):
    status: str = ""


def _migration_status(_event: str, _seconds: int, _micros: int, details: str | None) -> _Facts:
    with suppress(msgspec.DecodeError):
        return _Facts(reason=msgspec.json.decode(details or "{}", type=_Details).status)
    return _Facts()


# libvirt's event id, what it is to us, and the reader of the arguments between domain and context.
_EVENTS: tuple[tuple[int, EventKind, Reader], ...] = (
    (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, EventKind.LIFECYCLE, _lifecycle),
    (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, EventKind.REBOOT, _nothing),
    (libvirt.VIR_DOMAIN_EVENT_ID_WATCHDOG, EventKind.WATCHDOG, _detail),
    (libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON, EventKind.IO_ERROR, _io_error),
    (libvirt.VIR_DOMAIN_EVENT_ID_CONTROL_ERROR, EventKind.CONTROL_ERROR, _nothing),
    (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, EventKind.AGENT_LIFECYCLE, _detail),
    (libvirt.VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION, EventKind.MIGRATION_ITERATION, _detail),
    (libvirt.VIR_DOMAIN_EVENT_ID_JOB_COMPLETED, EventKind.JOB_COMPLETED, _job_completed),
    (libvirt.VIR_DOMAIN_EVENT_ID_MEMORY_FAILURE, EventKind.MEMORY_FAILURE, _memory_failure),
    (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, EventKind.DEVICE_CHANGED, _nothing),
    (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, EventKind.DEVICE_CHANGED, _nothing),
    (libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE, EventKind.DEVICE_CHANGED, _nothing),
    (libvirt.VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE, EventKind.DEVICE_CHANGED, _nothing),
)


def changes_definition(event: DomainEvent) -> bool:
    """After this event the domain's document may say something else."""
    if event.kind is EventKind.LIFECYCLE:
        return event.type in _CHANGING
    return event.kind is EventKind.DEVICE_CHANGED


class Subscriptions:
    """Subscriptions on one connection."""

    def __init__(self, connection: libvirt.virConnect) -> None:
        self._connection = connection
        self._callbacks: list[int] = []
        self._qemu: int | None = None

    def make(self, handler: Handler) -> tuple[str, ...]:
        """Ask for every event.

        Args:
            handler: called on libvirt's event thread; must neither block nor raise.

        Returns:
            What this driver does not offer, in words for a person.

        Raises:
            libvirt.libvirtError: the connection broke meanwhile.
        """
        missing: dict[str, None] = {}
        for number, kind, read in _EVENTS:
            try:
                callback = self._connection.domainEventRegisterAny(
                    None, number, _callback(kind, read, handler), None
                )
            except libvirt.libvirtError as exc:
                if exc.get_error_code() not in UNSUPPORTED or not self._connection.isAlive():
                    raise
                missing[f"{kind} events"] = None
            else:
                self._callbacks.append(callback)
        self._ask_qemu(handler)
        return tuple(missing)

    def _ask_qemu(self, handler: Handler) -> None:
        """A daemon that does not pass QEMU's events on lacks nothing that is needed."""
        if self._connection.getType() != "QEMU":
            return
        told = _callback(EventKind.MIGRATION_STATUS, _migration_status, handler)
        try:
            self._qemu = libvirt_qemu.qemuMonitorEventRegister(
                self._connection, None, "MIGRATION", told, None
            )
        except libvirt.libvirtError as exc:
            if exc.get_error_code() not in UNSUPPORTED or not self._connection.isAlive():
                raise

    def end(self) -> None:
        """Take the subscriptions back; each of them holds its connection in memory."""
        for callback in self._callbacks:
            # If the connection broke, the local side is gone all the same.
            with suppress(libvirt.libvirtError):
                self._connection.domainEventDeregisterAny(callback)
        self._callbacks.clear()
        if self._qemu is not None:
            with suppress(libvirt.libvirtError):
                libvirt_qemu.qemuMonitorEventDeregister(self._connection, self._qemu)
            self._qemu = None


def _callback(kind: EventKind, read: Reader, handler: Handler) -> Callable[..., None]:
    def callback(_: libvirt.virConnect, domain: libvirt.virDomain, *arguments: object) -> None:
        *own, _context = arguments
        facts = read(*own)
        handler(
            DomainEvent(
                kind=kind,
                uuid=domain.UUIDString(),
                name=name_of(domain),
                at=datetime.now(UTC),
                type=facts.type,
                detail=facts.detail,
                reason=facts.reason,
                stats=facts.stats,
            )
        )

    return callback


def name_of(domain: libvirt.virDomain) -> str:
    """The domain's name; its uuid if the name is not UTF-8."""
    try:
        return domain.name()
    except UnicodeDecodeError:
        return domain.UUIDString()
