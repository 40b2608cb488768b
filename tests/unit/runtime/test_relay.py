"""A flood, a slow reader and a second person: what a relay keeps, skips, and tells whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hypercobalt.runtime.relay import (
    CHUNK,
    Backlog,
    RelayEnd,
    Seat,
    Seats,
    carry,
)


class Pipe:
    """An end whose reads are the test's, and whose writes wait while it is shut."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.open = asyncio.Event()
        self.open.set()
        self.written = bytearray()
        self.seen = asyncio.Event()

    async def read(self) -> bytes:
        data = await self.incoming.get()
        if data == b"broken":
            raise ConnectionResetError
        return data

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        self.written += data
        self.seen.set()

    async def until(self, good: Callable[[bytes], bool]) -> None:
        async with asyncio.timeout(1):
            while not good(bytes(self.written)):
                self.seen.clear()
                await self.seen.wait()


class Flood(Pipe):
    """A guest that never stops sending."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.much = 0, asyncio.Event()

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        self.sent += CHUNK
        if self.sent > 1000 * CHUNK:
            self.much.set()
        return b"x" * CHUNK


async def taken(backlog: Backlog) -> bytes:
    backlog.close()
    found = b""
    while piece := await backlog.take():
        found += piece
    return found


async def test_backlog_keeps_the_last_bytes_and_counts_the_others() -> None:
    backlog = Backlog(10)
    for piece in (b"abcdef", b"", b"ghij", b"klm"):
        backlog.put(piece)
        assert backlog.size <= 10
    assert await taken(backlog) == b"\r\n[3 bytes of output were skipped]\r\ndefghijklm"


async def test_backlog_of_single_bytes_is_no_heap_of_objects() -> None:
    backlog = Backlog(100_000)
    for _ in range(50_000):
        backlog.put(b"a")
    assert len(backlog._pieces) < 60
    assert await taken(backlog) == b"a" * 50_000


async def test_bytes_go_both_ways_until_the_person_leaves() -> None:
    guest, person = Pipe(), Pipe()
    running = asyncio.create_task(carry(guest, person, Seat()))
    guest.incoming.put_nowait(b"login: ")
    person.incoming.put_nowait(b"root\n")
    await person.until(lambda seen: seen == b"login: ")
    await guest.until(lambda seen: seen == b"root\n")
    person.incoming.put_nowait(b"")
    assert await running is RelayEnd.PERSON_LEFT


@pytest.mark.parametrize("last", [b"", b"broken"])
async def test_last_words_of_a_guest_are_shown_before_the_end(last: bytes) -> None:
    guest, person = Pipe(), Pipe()
    person.open.clear()
    running = asyncio.create_task(carry(guest, person, Seat()))
    guest.incoming.put_nowait(b"System halted")
    guest.incoming.put_nowait(last)
    await asyncio.sleep(0)
    person.open.set()
    assert await running is RelayEnd.SOURCE_ENDED
    assert person.written == b"System halted"


async def test_connection_of_a_person_that_breaks_ends_the_session() -> None:
    guest, person = Pipe(), Pipe()
    person.incoming.put_nowait(b"broken")
    assert await carry(guest, person, Seat()) is RelayEnd.PERSON_LEFT


async def test_unread_flood_costs_the_backlog_and_ends_no_session() -> None:
    guest, person = Flood(), Pipe()
    person.open.clear()
    running = asyncio.create_task(carry(guest, person, Seat(), most=4 * CHUNK))
    await guest.much.wait()
    assert not running.done()
    person.open.set()
    await person.until(lambda seen: b"bytes of output were skipped" in seen)
    person.incoming.put_nowait(b"still here")
    await guest.until(lambda seen: seen == b"still here")
    person.incoming.put_nowait(b"")
    assert await running is RelayEnd.PERSON_LEFT


async def test_second_person_takes_over_with_a_word_to_the_first() -> None:
    seats, guest, first, second = Seats(), Pipe(), Pipe(), Pipe()
    ends: list[RelayEnd] = []

    async def session(who: str, person: Pipe) -> None:
        async with seats.take("ns/vm", who) as seat:
            ends.append(await carry(guest, person, seat))

    one = asyncio.create_task(session("alice", first))
    guest.incoming.put_nowait(b"a")
    await first.until(lambda seen: seen == b"a")
    two = asyncio.create_task(session("bob", second))
    await one
    assert ends == [RelayEnd.TAKEN_OVER]
    assert first.written.endswith(b"\r\n[this console was taken over by bob]\r\n")
    guest.incoming.put_nowait(b"b")
    await second.until(lambda seen: seen == b"b")
    second.incoming.put_nowait(b"")
    await two
    assert seats._held == {}


async def test_of_many_who_come_at_once_the_last_stays() -> None:
    seats, order = Seats(), list[str]()

    async def session(who: str) -> None:
        async with seats.take("ns/vm", who) as seat:
            order.append(who)
            if who != "e":
                await seat.lost.wait()

    async with asyncio.timeout(1):
        await asyncio.gather(*(session(who) for who in "abcde"))
    assert order == list("abcde")
    assert seats._held == {}


async def test_one_who_gives_up_waiting_leaves_the_seat_to_who_came_after() -> None:
    seats, held = Seats(), asyncio.Event()

    async def stays() -> None:
        async with seats.take("ns/vm", "a"):
            await held.wait()

    async def waits(who: str) -> str:
        async with seats.take("ns/vm", who):
            return who

    first = asyncio.create_task(stays())
    await asyncio.sleep(0)
    gives_up, last = asyncio.create_task(waits("b")), asyncio.create_task(waits("c"))
    await asyncio.sleep(0)
    gives_up.cancel()
    assert await asyncio.wait({last}, timeout=0.01) == (set(), {last})
    held.set()
    async with asyncio.timeout(1):
        assert await last == "c"
        await first
    assert seats._held == {}


async def test_seats_of_two_guests_are_two() -> None:
    seats = Seats()
    async with seats.take("ns/a", "alice") as one, seats.take("ns/b", "bob") as two:
        assert not one.lost.is_set()
        assert not two.lost.is_set()
