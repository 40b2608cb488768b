"""Which of libvirt's domain events are subscribed to, and what each becomes.

libvirt has no event for a migration that failed or was cancelled, and its job shows which of the
two for some hundredths of a second only. QEMU has one, which libvirt passes on by request; it is
the sign to read the job at once.

Source: virDomainEventID and the callback types in libvirt-domain.h; QEMU's QMP event MIGRATION.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

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

# After these a domain's document may differ.
_CHANGING = {Lifecycle.DEFINED, Lifecycle.UNDEFINED, Lifecycle.STARTED, Lifecycle.STOPPED}

_KINDS: Final[Mapping[EventType[Any], EventKind]] = {
    event_types.LIFECYCLE: EventKind.LIFECYCLE,
    event_types.REBOOT: EventKind.REBOOT,
    event_types.WATCHDOG: EventKind.WATCHDOG,
    event_types.IO_ERROR: EventKind.IO_ERROR,
    event_types.CONTROL_ERROR: EventKind.CONTROL_ERROR,
    event_types.AGENT_LIFECYCLE: EventKind.AGENT_LIFECYCLE,
    event_types.MIGRATION_ITERATION: EventKind.MIGRATION_ITERATION,
    event_types.JOB_COMPLETED: EventKind.JOB_COMPLETED,
    event_types.MEMORY_FAILURE: EventKind.MEMORY_FAILURE,
    event_types.DISK_CHANGE: EventKind.DISK_CHANGE,
    event_types.BLOCK_THRESHOLD: EventKind.BLOCK_THRESHOLD,
    event_types.DEVICE_ADDED: EventKind.DEVICE_CHANGED,
    event_types.DEVICE_REMOVED: EventKind.DEVICE_CHANGED,
    event_types.TUNABLE: EventKind.DEVICE_CHANGED,
    event_types.BALLOON_CHANGE: EventKind.DEVICE_CHANGED,
}
_CARRIED: Final = ("type", "detail", "reason", "path", "alias", "flags")  # as libvirt has them


class _Details(msgspec.Struct):
    status: str = ""


def changes_definition(event: DomainEvent) -> bool:
    """After this event the domain's document may differ."""
    if event.kind is EventKind.LIFECYCLE:
        return event.type in _CHANGING
    return event.kind is EventKind.DEVICE_CHANGED


async def subscribe(client: Client, handler: Handler) -> tuple[str, ...]:
    """Subscribe to every event, for as long as the connection is open.

    Args:
        client: the connection.
        handler: called with each, also before this returns.

    Returns:
        What this driver does not offer, in words for a person.

    Raises:
        RpcError: the connection broke meanwhile.
    """
    missing: dict[str, None] = {}
    for event, kind in _KINDS.items():
        client.listen(event, _listener(event, kind, handler))
        registered = client.call(protocol.EVENT_REGISTER, protocol.Subscribe(event.id))
        if await unless(UNSUPPORTED, registered) is None:
            missing[f"{kind} events"] = None
    # A daemon that does not pass QEMU's events on lacks nothing that is needed.
    if (await client.call(protocol.GET_TYPE, protocol.Void())).text == "QEMU":
        qemu = event_types.QEMU_EVENT
        client.listen(qemu, _listener(qemu, EventKind.MIGRATION_STATUS, handler))
        migration = protocol.SubscribeQemu(None, "MIGRATION")
        await unless(UNSUPPORTED, client.call(protocol.QEMU_EVENT_REGISTER, migration))
    return tuple(missing)


def _listener(event: EventType[Any], kind: EventKind, handler: Handler) -> Listener:
    payload = codec(event.payload)

    def listener(data: bytes) -> None:
        found = payload.decode(data)
        ref: DomainRef = found.domain
        carried: dict[str, Any] = {
            name: value for name in _CARRIED if (value := getattr(found, name, None)) is not None
        }
        if kind is EventKind.JOB_COMPLETED:
            carried["stats"] = ended_job_of(dict(found.parameters))
        elif kind is EventKind.MIGRATION_STATUS:
            carried["reason"] = _status(found.details or "{}")
        at = datetime.now(UTC)
        handler(
            DomainEvent(kind, ref.uuid_text, ref.readable_name, at, domain_id=ref.id, **carried)
        )

    return listener


def _status(details: str) -> str:
    """QEMU's status of a migration."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(details, type=_Details).status
    return ""
