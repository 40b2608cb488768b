"""Carries bytes between a source that floods and a person who may be slow, one person at a time.

What the source sends is never held up by a person: it goes into a backlog of a fixed size, whose
oldest bytes give way, and the person is told how many. What a person sends waits until it is taken.
A second person takes the place of the first, who is told by whom.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

BACKLOG: Final = 256 * 1024
"""Bytes of a source that wait for a person."""
CHUNK: Final = 16 * 1024
"""Bytes that are handed on at once, at most."""

_FAREWELL: Final = 2.0  # seconds for the last word to a person
_SMALL: Final = 1024  # bytes; shorter pieces are joined, so that each byte is not an object


class Bytes(Protocol):
    """One end of a relay."""

    async def read(self) -> bytes:
        """Some bytes, at least one; b"" at the end.

        Raises:
            OSError: the connection broke.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Return when the bytes are taken, or few enough wait.

        Raises:
            OSError: the connection broke.
        """
        ...


class StreamBytes:
    """A connected socket as an end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class RelayEnd(Enum):
    """Why a relay is over."""

    SOURCE_ENDED = "source-ended"
    PERSON_LEFT = "person-left"
    TAKEN_OVER = "taken-over"


class Backlog:
    """The last bytes of a source that nobody has taken yet.

    Args:
        most: bytes that are kept.
    """

    def __init__(self, most: int = BACKLOG) -> None:
        self._most, self._pieces, self._size = most, deque[bytearray](), 0
        self._skipped, self._closed, self._changed = 0, False, asyncio.Event()

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        return self._size

    def put(self, data: bytes) -> None:
        """Add bytes; the oldest give way."""
        if self._pieces and len(self._pieces[-1]) < _SMALL:
            self._pieces[-1] += data
        elif data:
            self._pieces.append(bytearray(data))
        self._size += len(data)
        while self._size > self._most:
            first = self._pieces[0]
            surplus = min(self._size - self._most, len(first))
            del first[:surplus]
            self._size -= surplus
            self._skipped += surplus
            if not first:
                self._pieces.popleft()
        self._changed.set()

    def close(self) -> None:
        """There comes no more: what is kept can still be taken."""
        self._closed = True
        self._changed.set()

    async def take(self) -> bytes:
        """The oldest bytes, after a line about skipped ones; b"" when it is closed and empty."""
        while not (self._size or self._closed):
            self._changed.clear()
            await self._changed.wait()
        skipped, self._skipped = self._skipped, 0
        if skipped:
            return f"\r\n[{skipped} bytes of output were skipped]\r\n".encode()
        if not self._pieces:
            return b""
        first = self._pieces[0]
        taken = bytes(first[:CHUNK])
        del first[:CHUNK]
        if not first:
            self._pieces.popleft()
        self._size -= len(taken)
        return taken


@dataclass(slots=True, eq=False)
class Seat:
    """The place of one person.

    Attributes:
        lost: set when another has taken it.
        successor: who that is.
    """

    lost: asyncio.Event = field(default_factory=asyncio.Event)
    successor: str = ""
    _before: Seat | None = None
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self) -> None:
        """Wait until everyone before has left, also those that gave up waiting."""
        if self._before is not None:
            await self._before.gone()
            self._before = None

    async def gone(self) -> None:
        """Wait until this person has left, and everyone before."""
        await self._left.wait()
        await self.ready()

    def leave(self) -> None:
        """Make room for the successor."""
        self._left.set()


class Seats:
    """One seat for each source; who comes later gets it."""

    def __init__(self) -> None:
        self._held: dict[str, Seat] = {}

    @asynccontextmanager
    async def take(self, source: str, person: str) -> AsyncGenerator[Seat]:
        """Take the seat of a source, and wait until who had it has left."""
        before = self._held.get(source)
        seat = Seat(_before=before)
        self._held[source] = seat
        try:
            if before is not None:
                before.successor = person
                before.lost.set()
            await seat.ready()
            yield seat
        finally:
            seat.leave()
            if self._held.get(source) is seat:
                del self._held[source]


async def carry(source: Bytes, person: Bytes, seat: Seat, most: int = BACKLOG) -> RelayEnd:
    """Carry bytes both ways until one end is over, or the seat is lost.

    Args:
        source: such as the serial port of a guest.
        person: who reads it and types.
        seat: of the person.
        most: bytes of the source that wait for the person.
    """
    backlog = Backlog(most)
    async with _running(
        filled=_fill(source, backlog),
        shown=_show(backlog, person),
        typed=_type(person, source),
        lost=_lost(seat),
    ) as tasks:
        # Until the end of the source is shown, it is not over: `filled` alone ends nothing.
        waited = {task for name, task in tasks.items() if name != "filled"}
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        end = RelayEnd.PERSON_LEFT
        if tasks["lost"] in done:
            end = RelayEnd.TAKEN_OVER
        elif tasks["filled"].done() and not _failed(tasks["shown"]):
            end = RelayEnd.SOURCE_ENDED
    if end is RelayEnd.TAKEN_OVER:
        await _tell(person, f"\r\n[this console was taken over by {seat.successor}]\r\n")
    return end


@asynccontextmanager
async def _running(
    **works: Coroutine[None, None, None],
) -> AsyncGenerator[dict[str, asyncio.Task[None]]]:
    tasks = {name: asyncio.create_task(work, name=name) for name, work in works.items()}
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


async def _fill(source: Bytes, backlog: Backlog) -> None:
    try:
        while data := await source.read():
            backlog.put(data)
    finally:
        backlog.close()


async def _show(backlog: Backlog, person: Bytes) -> None:
    while data := await backlog.take():
        await person.write(data)


async def _type(person: Bytes, source: Bytes) -> None:
    while data := await person.read():
        await source.write(data)


async def _lost(seat: Seat) -> None:
    await seat.lost.wait()


async def _tell(person: Bytes, word: str) -> None:
    with suppress(OSError):  # a time-out is one
        async with asyncio.timeout(_FAREWELL):
            await person.write(word.encode())
