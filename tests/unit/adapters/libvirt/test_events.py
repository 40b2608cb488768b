"""Events of an EventQueue come in order, from any thread, in bounded memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from hypercobalt.adapters.libvirt.events import (
    Connected,
    Disconnected,
    DomainEvent,
    Event,
    EventKind,
    EventQueue,
    Lost,
)
from hypercobalt.adapters.libvirt.model import Versions

UP = Connected(Versions("9.0.0", "7.2.22"))
DOWN = Disconnected("gone")


def event(name: str) -> DomainEvent:
    return DomainEvent(EventKind.REBOOT, "u", name, datetime.now(UTC))


async def take(reader: AsyncIterator[Event], count: int) -> list[Event]:
    async with asyncio.timeout(2):
        return [await anext(reader) for _ in range(count)]


async def test_the_first_notice_is_the_present_state() -> None:
    events = EventQueue()
    events.put(DOWN)
    events.put(UP)
    events.put(event("before anybody read"))

    reader = events.read()

    assert await take(reader, 1) == [UP]
    events.put(one := event("after"))
    assert await take(reader, 1) == [one]
    await reader.aclose()


async def test_before_the_first_attempt_has_ended_nothing_is_reported() -> None:
    events = EventQueue()
    reader = events.read()
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not first.done()

    events.put(DOWN)

    assert await first == DOWN
    await reader.aclose()


async def test_events_that_fit_are_kept_in_order() -> None:
    events = EventQueue(limit=4)
    events.put(UP)
    reader = events.read()
    await take(reader, 1)
    sent: list[Event] = [event("a"), DOWN, UP, event("b")]

    for one in sent:
        events.put(one)

    assert await take(reader, 4) == sent
    await reader.aclose()


async def test_too_many_events_become_one_lost() -> None:
    events = EventQueue(limit=4)
    events.put(UP)
    reader = events.read()
    await take(reader, 1)

    for index in range(5):
        events.put(event(str(index)))

    first, second = await take(reader, 2)
    assert first == Lost()
    assert isinstance(second, DomainEvent)
    assert second.name == "4"
    await reader.aclose()


@pytest.mark.parametrize("last", [UP, DOWN])
async def test_a_dropped_change_of_the_connection_still_reaches_the_listener(
    last: Connected | Disconnected,
) -> None:
    events = EventQueue(limit=4)
    events.put(UP)
    reader = events.read()
    await take(reader, 1)

    for one in (DOWN, last, event("a"), event("b"), event("c")):
        events.put(one)

    assert (await take(reader, 2)) == [last, Lost()]
    await reader.aclose()


async def test_there_is_one_reader_at_a_time() -> None:
    events = EventQueue()
    events.put(UP)
    reader = events.read()
    await take(reader, 1)

    with pytest.raises(RuntimeError, match="reader"):
        await anext(events.read())

    await reader.aclose()
    assert await take(events.read(), 1) == [events.state]


async def test_every_notice_of_many_threads_arrives() -> None:
    events = EventQueue()
    events.put(UP)
    reader = events.read()
    await take(reader, 1)

    def put_all(n: int) -> None:
        for i in range(100):
            events.put(event(f"{n}-{i}"))

    threads = [threading.Thread(target=put_all, args=(n,)) for n in range(4)]

    for thread in threads:
        thread.start()
    got = await take(reader, 400)
    for thread in threads:
        thread.join()

    names = [one.name for one in got if isinstance(one, DomainEvent)]
    assert len(set(names)) == 400
    for n in range(4):
        mine = [name for name in names if name.startswith(f"{n}-")]
        assert mine == [f"{n}-{i}" for i in range(100)]
    await reader.aclose()
