"""Which of libvirt's domain events we ask for, and what each becomes.

libvirt has no event for a migration that failed or was cancelled, and its job shows which of the
two for some hundredths of a second only. QEMU has one, which libvirt passes on by request; it is
the sign to read the job at once.

Source: virDomainEventID and the callback types in libvirt-domain.h; QEMU's QMP event MIGRATION.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import JobStats
from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client, Listener
from hypercobalt.adapters.libvirt.rpc.errors import RemoteError
from hypercobalt.adapters.libvirt.rpc.event_types import EventType
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.rpc.xdr import codec
from hypercobalt.adapters.libvirt.statistics import ended_job_of
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle

Handler = Callable[[DomainEvent], None]
Payload = TypeVar("Payload", bound=tuple[Any, ...])

UNSUPPORTED: Final = frozenset(
    {
        ErrorCode.NO_SUPPORT,
        ErrorCode.INVALID_ARG,  # an event or flag that an older daemon does not know
        ErrorCode.ARGUMENT_UNSUPPORTED,
        ErrorCode.OPERATION_UNSUPPORTED,
        ErrorCode.CONFIG_UNSUPPORTED,
        ErrorCode.RPC,  # a procedure that an older daemon does not know
    }
)

# After these a domain's document may differ.
_CHANGING = {Lifecycle.DEFINED, Lifecycle.UNDEFINED, Lifecycle.STARTED, Lifecycle.STOPPED}


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an event carries besides its domain, by the names of `DomainEvent`."""

    type: int = 0
    detail: int = 0
    reason: str = ""
    stats: JobStats | None = None
    path: str = ""
    alias: str = ""
    flags: int = 0


class _Details(msgspec.Struct):
    status: str = ""


def _migration_status(event: event_types.QemuEvent) -> _Facts:
    with suppress(msgspec.DecodeError):
        return _Facts(reason=msgspec.json.decode(event.details or "{}", type=_Details).status)
    return _Facts()


@dataclass(frozen=True, slots=True)
class _Source(Generic[Payload]):
    """An event of libvirt's, what it is to us, and how its facts are read."""

    event: EventType[Payload]
    kind: EventKind
    facts: Callable[[Payload], _Facts] = lambda _: _Facts()


_SOURCES: Final[tuple[_Source[Any], ...]] = (
    _Source(
        event_types.LIFECYCLE,
        EventKind.LIFECYCLE,
        lambda event: _Facts(type=event.first, detail=event.second),
    ),
    _Source(event_types.REBOOT, EventKind.REBOOT),
    _Source(event_types.WATCHDOG, EventKind.WATCHDOG, lambda event: _Facts(detail=event.number)),
    _Source(
        event_types.IO_ERROR,
        EventKind.IO_ERROR,
        lambda event: _Facts(
            detail=event.action, reason=event.reason, path=event.path, alias=event.alias
        ),
    ),
    _Source(event_types.CONTROL_ERROR, EventKind.CONTROL_ERROR),
    _Source(
        event_types.AGENT_LIFECYCLE,
        EventKind.AGENT_LIFECYCLE,
        lambda event: _Facts(type=event.first, detail=event.second),
    ),
    _Source(
        event_types.MIGRATION_ITERATION,
        EventKind.MIGRATION_ITERATION,
        lambda event: _Facts(detail=event.number),
    ),
    _Source(
        event_types.JOB_COMPLETED,
        EventKind.JOB_COMPLETED,
        lambda event: _Facts(stats=ended_job_of(dict(event.parameters))),
    ),
    _Source(
        event_types.MEMORY_FAILURE,
        EventKind.MEMORY_FAILURE,
        lambda event: _Facts(type=event.recipient, detail=event.action, flags=event.flags),
    ),
    _Source(
        event_types.DISK_CHANGE,
        EventKind.DISK_CHANGE,
        lambda event: _Facts(detail=event.reason, path=event.old_path or "", alias=event.alias),
    ),
    _Source(
        event_types.BLOCK_THRESHOLD,
        EventKind.BLOCK_THRESHOLD,
        lambda event: _Facts(path=event.path or "", alias=event.device),
    ),
    _Source(event_types.DEVICE_ADDED, EventKind.DEVICE_CHANGED),
    _Source(event_types.DEVICE_REMOVED, EventKind.DEVICE_CHANGED),
    _Source(event_types.TUNABLE, EventKind.DEVICE_CHANGED),
    _Source(event_types.BALLOON_CHANGE, EventKind.DEVICE_CHANGED),
)
_QEMU: Final = _Source(event_types.QEMU_EVENT, EventKind.MIGRATION_STATUS, _migration_status)


def changes_definition(event: DomainEvent) -> bool:
    """After this event the domain's document may differ."""
    if event.kind is EventKind.LIFECYCLE:
        return event.type in _CHANGING
    return event.kind is EventKind.DEVICE_CHANGED


async def subscribe(client: Client, handler: Handler) -> tuple[str, ...]:
    """Ask for every event; they come for as long as the connection stands.

    Args:
        client: the connection.
        handler: called with each, also before this returns.

    Returns:
        What this driver does not offer, in words for a person.

    Raises:
        RpcError: the connection broke meanwhile.
    """
    missing: dict[str, None] = {}
    for source in _SOURCES:
        client.listen(source.event, _listener(source, handler))
        if not await _offered(
            client.call(protocol.EVENT_REGISTER, protocol.Subscribe(source.event.id))
        ):
            missing[f"{source.kind} events"] = None
    # A daemon that does not pass QEMU's events on lacks nothing that is needed.
    if (await client.call(protocol.GET_TYPE, protocol.Void())).text == "QEMU":
        client.listen(_QEMU.event, _listener(_QEMU, handler))
        migration = protocol.SubscribeQemu(None, "MIGRATION")
        await _offered(client.call(protocol.QEMU_EVENT_REGISTER, migration))
    return tuple(missing)


async def _offered(call: Awaitable[object]) -> bool:
    try:
        await call
    except RemoteError as exc:
        if exc.code not in UNSUPPORTED:
            raise
        return False
    return True


def _listener(source: _Source[Any], handler: Handler) -> Listener:
    payload = codec(source.event.payload)

    def listener(data: bytes) -> None:
        event = payload.decode(data)
        ref: DomainRef = event.domain
        facts = source.facts(event)
        handler(
            DomainEvent(
                kind=source.kind,
                uuid=ref.uuid_text,
                name=ref.readable_name,
                at=datetime.now(UTC),
                type=facts.type,
                detail=facts.detail,
                reason=facts.reason,
                stats=facts.stats,
                domain_id=ref.id,
                path=facts.path,
                alias=facts.alias,
                flags=facts.flags,
            )
        )

    return listener
