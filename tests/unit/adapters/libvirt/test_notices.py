"""Notices come in order, from any thread, in bounded memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from hypercobalt.adapters.libvirt.model import (
    Connected,
    Disconnected,
    DomainEvent,
    EventKind,
    Lost,
    Notice,
    Versions,
)
from hypercobalt.adapters.libvirt.notices import Notices

UP = Connected(Versions("9.0.0", "7.2.22"))
DOWN = Disconnected("gone")


def event(name: str) -> DomainEvent:
    return DomainEvent(EventKind.REBOOT, "u", name, datetime.now(UTC))


async def take(reader: AsyncIterator[Notice], count: int) -> list[Notice]:
    async with asyncio.timeout(2):
        return [await anext(reader) for _ in range(count)]


async def test_the_first_notice_is_the_present_state() -> None:
    notices = Notices()
    notices.put(DOWN)
    notices.put(UP)
    notices.put(event("before anybody read"))

    reader = notices.read()

    assert await take(reader, 1) == [UP]
    notices.put(one := event("after"))
    assert await take(reader, 1) == [one]
    await reader.aclose()


async def test_before_the_first_attempt_has_ended_nothing_is_said() -> None:
    notices = Notices()
    reader = notices.read()
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not first.done()

    notices.put(DOWN)

    assert await first == DOWN
    await reader.aclose()


async def test_events_that_fit_are_kept_in_order() -> None:
    notices = Notices(limit=4)
    notices.put(UP)
    reader = notices.read()
    await take(reader, 1)
    sent: list[Notice] = [event("a"), DOWN, UP, event("b")]

    for notice in sent:
        notices.put(notice)

    assert await take(reader, 4) == sent
    await reader.aclose()


async def test_too_many_events_become_one_lost() -> None:
    notices = Notices(limit=4)
    notices.put(UP)
    reader = notices.read()
    await take(reader, 1)

    for index in range(5):
        notices.put(event(str(index)))

    first, second = await take(reader, 2)
    assert first == Lost()
    assert isinstance(second, DomainEvent)
    assert second.name == "4"
    await reader.aclose()


@pytest.mark.parametrize("last", [UP, DOWN])
async def test_a_dropped_change_of_the_connection_is_still_told(
    last: Connected | Disconnected,
) -> None:
    notices = Notices(limit=4)
    notices.put(UP)
    reader = notices.read()
    await take(reader, 1)

    for notice in (DOWN, last, event("a"), event("b"), event("c")):
        notices.put(notice)

    assert (await take(reader, 2)) == [last, Lost()]
    await reader.aclose()


async def test_there_is_one_reader_at_a_time() -> None:
    notices = Notices()
    notices.put(UP)
    reader = notices.read()
    await take(reader, 1)

    with pytest.raises(RuntimeError, match="reader"):
        await anext(notices.read())

    await reader.aclose()
    assert await take(notices.read(), 1) == [notices.state]


async def test_every_notice_of_many_threads_arrives() -> None:
    notices = Notices()
    notices.put(UP)
    reader = notices.read()
    await take(reader, 1)

    def put_all(n: int) -> None:
        for i in range(100):
            notices.put(event(f"{n}-{i}"))

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
