"""Which of libvirt's domain events we ask for, and what each becomes.

libvirt has no event for a migration that failed or was cancelled, and its job shows which of the
two for some hundredths of a second only. QEMU has one, which libvirt passes on by request; it is
the sign to read the job at once.

Source: virDomainEventID and the callback types in libvirt-domain.h; QEMU's QMP event MIGRATION.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.refusals import UNSUPPORTED, unless
from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client, Listener
from hypercobalt.adapters.libvirt.rpc.event_types import EventType
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.rpc.xdr import codec
from hypercobalt.adapters.libvirt.statistics import ended_job_of
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle

Handler = Callable[[DomainEvent], None]
Payload = TypeVar("Payload", bound=tuple[Any, ...])

# After these a domain's document may differ.
_CHANGING = {Lifecycle.DEFINED, Lifecycle.UNDEFINED, Lifecycle.STARTED, Lifecycle.STOPPED}


class _Details(msgspec.Struct):
    status: str = ""


def _migration_status(bare: DomainEvent, event: event_types.QemuEvent) -> DomainEvent:
    with suppress(msgspec.DecodeError):
        status = msgspec.json.decode(event.details or "{}", type=_Details).status
        return replace(bare, reason=status)
    return bare


@dataclass(frozen=True, slots=True)
class _Source(Generic[Payload]):
    """An event of libvirt's, what it is to us, and how it gets what it carries besides."""

    event: EventType[Payload]
    kind: EventKind
    fill: Callable[[DomainEvent, Payload], DomainEvent] = lambda bare, _: bare


_SOURCES: Final[tuple[_Source[Any], ...]] = (
    _Source(
        event_types.LIFECYCLE,
        EventKind.LIFECYCLE,
        lambda bare, event: replace(bare, type=event.first, detail=event.second),
    ),
    _Source(event_types.REBOOT, EventKind.REBOOT),
    _Source(
        event_types.WATCHDOG,
        EventKind.WATCHDOG,
        lambda bare, event: replace(bare, detail=event.number),
    ),
    _Source(
        event_types.IO_ERROR,
        EventKind.IO_ERROR,
        lambda bare, event: replace(
            bare, detail=event.action, reason=event.reason, path=event.path, alias=event.alias
        ),
    ),
    _Source(event_types.CONTROL_ERROR, EventKind.CONTROL_ERROR),
    _Source(
        event_types.AGENT_LIFECYCLE,
        EventKind.AGENT_LIFECYCLE,
        lambda bare, event: replace(bare, type=event.first, detail=event.second),
    ),
    _Source(
        event_types.MIGRATION_ITERATION,
        EventKind.MIGRATION_ITERATION,
        lambda bare, event: replace(bare, detail=event.number),
    ),
    _Source(
        event_types.JOB_COMPLETED,
        EventKind.JOB_COMPLETED,
        lambda bare, event: replace(bare, stats=ended_job_of(dict(event.parameters))),
    ),
    _Source(
        event_types.MEMORY_FAILURE,
        EventKind.MEMORY_FAILURE,
        lambda bare, event: replace(
            bare, type=event.recipient, detail=event.action, flags=event.flags
        ),
    ),
    _Source(
        event_types.DISK_CHANGE,
        EventKind.DISK_CHANGE,
        lambda bare, event: replace(
            bare, detail=event.reason, path=event.old_path or "", alias=event.alias
        ),
    ),
    _Source(
        event_types.BLOCK_THRESHOLD,
        EventKind.BLOCK_THRESHOLD,
        lambda bare, event: replace(bare, path=event.path or "", alias=event.device),
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
        registered = client.call(protocol.EVENT_REGISTER, protocol.Subscribe(source.event.id))
        if await unless(UNSUPPORTED, registered) is None:
            missing[f"{source.kind} events"] = None
    # A daemon that does not pass QEMU's events on lacks nothing that is needed.
    if (await client.call(protocol.GET_TYPE, protocol.Void())).text == "QEMU":
        client.listen(_QEMU.event, _listener(_QEMU, handler))
        migration = protocol.SubscribeQemu(None, "MIGRATION")
        await unless(UNSUPPORTED, client.call(protocol.QEMU_EVENT_REGISTER, migration))
    return tuple(missing)


def _listener(source: _Source[Any], handler: Handler) -> Listener:
    payload = codec(source.event.payload)

    def listener(data: bytes) -> None:
        event = payload.decode(data)
        ref: DomainRef = event.domain
        bare = DomainEvent(
            kind=source.kind,
            uuid=ref.uuid_text,
            name=ref.readable_name,
            at=datetime.now(UTC),
            domain_id=ref.id,
        )
        handler(source.fill(bare, event))

    return listener
