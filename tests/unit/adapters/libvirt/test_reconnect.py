"""Events that arrive while a connection is being opened."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from tests.unit.adapters.libvirt.made_up import Answer, made_up

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected, DomainEvent
from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.framing import Message, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.rpc.xdr import codec


def started(number: int) -> Message:
    """A domain's start with that number."""
    event, ref = event_types.LIFECYCLE, DomainRef("a", UUID(int=7).bytes, number)
    data = codec(event.payload).encode(event_types.PairEvent(0, ref, 2, 0))
    return Message(
        event.program, protocol.VERSION, event.number, MessageKind.EVENT, 0, Status.OK, data
    )


@pytest.mark.parametrize("early", [3, 2500])
async def test_events_before_the_connection_stands_end_with_the_newest_without_a_gap(
    early: int,
) -> None:
    async with made_up() as daemon, asyncio.timeout(10):

        def flood(_payload: bytes) -> Answer:
            for number in range(early):
                daemon.send(started(number))
            return protocol.Text("CH")

        daemon.answers |= {
            protocol.EVENT_REGISTER.number: protocol.Number(0),
            protocol.GET_TYPE.number: flood,
            protocol.GET_LIB_VERSION.number: protocol.Version(10_000_000),
            protocol.GET_VERSION.number: protocol.Version(8_000_000),
            protocol.GET_ALL_DOMAIN_STATS.number: protocol.StatsRecords(()),
            protocol.GET_DOMAIN_CAPABILITIES.number: protocol.Text(""),
        }
        async with connect(daemon.uri) as subject:
            events = subject.events()
            assert isinstance(await anext(events), Connected)
            numbers = list[int]()
            while not numbers or numbers[-1] < early - 1:
                event = await anext(events)
                assert isinstance(event, DomainEvent)
                numbers.append(event.domain_id)
            await events.aclose()
    assert numbers == list(range(early))[-1000:]
