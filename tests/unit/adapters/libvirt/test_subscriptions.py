"""What each event of libvirt becomes; real ones are in tests/lab and tests/traces."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.unit.adapters.libvirt.made_up import connected

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.event_types import EventType
from hypercobalt.adapters.libvirt.rpc.framing import Message, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.rpc.xdr import codec
from hypercobalt.adapters.libvirt.subscriptions import subscribe
from hypercobalt.adapters.libvirt.vocabulary import (
    AgentReason,
    AgentState,
    DiskChange,
    IoErrorAction,
    MemoryAction,
    MemoryFlag,
    MemoryRecipient,
    WatchdogAction,
)

BOUND = 5.0
AT = datetime(2026, 11, 23, tzinfo=UTC)
DOMAIN = DomainRef("a", UUID(int=7).bytes, 3)


def event(kind: EventKind, *, detail: int = 0, **more: Any) -> DomainEvent:  # noqa: ANN401  fields
    return DomainEvent(kind, str(UUID(int=7)), "a", AT, detail=detail, domain_id=3, **more)


@pytest.mark.parametrize(
    ("source", "payload", "expected"),
    [
        pytest.param(
            event_types.WATCHDOG,
            event_types.NumberEvent(0, DOMAIN, 6),
            event(EventKind.WATCHDOG, detail=WatchdogAction.INJECT_NMI),
            id="watchdog",
        ),
        pytest.param(
            event_types.IO_ERROR,
            event_types.IoErrorEvent(0, DOMAIN, "/vms/a", "virtio-disk0", 1, "enospc"),
            event(
                EventKind.IO_ERROR,
                detail=IoErrorAction.PAUSE,
                reason="enospc",
                path="/vms/a",
                alias="virtio-disk0",
            ),
            id="io-error",
        ),
        pytest.param(
            event_types.CONTROL_ERROR,
            event_types.DomainEvent(0, DOMAIN),
            event(EventKind.CONTROL_ERROR),
            id="control-error",
        ),
        pytest.param(
            event_types.AGENT_LIFECYCLE,
            event_types.PairEvent(0, DOMAIN, 2, 1),
            event(
                EventKind.AGENT_LIFECYCLE,
                type=AgentState.DISCONNECTED,
                detail=AgentReason.DOMAIN_STARTED,
            ),
            id="agent",
        ),
        pytest.param(
            event_types.MEMORY_FAILURE,
            event_types.MemoryFailureEvent(0, DOMAIN, 1, 2, 3),
            event(
                EventKind.MEMORY_FAILURE,
                type=MemoryRecipient.GUEST,
                detail=MemoryAction.FATAL,
                flags=MemoryFlag.ACTION_REQUIRED | MemoryFlag.RECURSIVE,
            ),
            id="memory-failure",
        ),
        pytest.param(
            event_types.DISK_CHANGE,
            event_types.DiskChangeEvent(0, DOMAIN, "/vms/b", None, "virtio-disk1", 1),
            event(
                EventKind.DISK_CHANGE,
                detail=DiskChange.DROPPED_MISSING_ON_START,
                path="/vms/b",
                alias="virtio-disk1",
            ),
            id="disk-change",
        ),
        pytest.param(
            event_types.BLOCK_THRESHOLD,
            event_types.BlockThresholdEvent(0, DOMAIN, "vda", "/vms/a", 10, 1),
            event(EventKind.BLOCK_THRESHOLD, path="/vms/a", alias="vda"),
            id="block-threshold",
        ),
    ],
)
async def test_an_event_carries_all_that_libvirt_reports(
    source: EventType[Any], payload: tuple[Any, ...], expected: DomainEvent
) -> None:
    came: asyncio.Future[DomainEvent] = asyncio.get_running_loop().create_future()
    async with connected() as (daemon, client):
        daemon.answers |= {
            protocol.EVENT_REGISTER.number: protocol.Number(0),
            protocol.GET_TYPE.number: protocol.Text("CH"),
        }
        await subscribe(client, came.set_result)
        data = codec(source.payload).encode(payload)
        daemon.send(
            Message(
                source.program,
                protocol.VERSION,
                source.number,
                MessageKind.EVENT,
                0,
                Status.OK,
                data,
            )
        )
        async with asyncio.timeout(BOUND):
            assert replace(await came, at=AT) == expected
