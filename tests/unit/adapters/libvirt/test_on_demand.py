"""A connection on demand is closed when it is not used, and blocks no caller meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import cast

import libvirt
import pytest

from hypercobalt.adapters.libvirt.on_demand import OnDemandConnection
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError

SECONDS = 5.0
IDLE = 0.05
NOT_YET = 0.2


class MadeUp:
    """A connection whose close takes as long as its test wants."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.alive = True
        self.closing, self.closed = threading.Event(), threading.Event()
        self.closed_again = threading.Event()
        self.closers: list[int] = []

    def setKeepAlive(self, _interval: int, _count: int) -> int:  # noqa: N802
        return 0

    def isAlive(self) -> int:  # noqa: N802
        return int(self.alive)

    def close(self) -> int:
        self.closers.append(threading.get_ident())
        (self.closed_again if self.closing.is_set() else self.closing).set()
        self.gate.wait(SECONDS)
        self.closed.set()
        return 0


class Dialled:
    """Every connection that was opened, and what those to come are like."""

    def __init__(self) -> None:
        self.connections: list[MadeUp] = []
        self.close_gate = threading.Event()
        self.close_gate.set()

    def open(self, _uri: str) -> libvirt.virConnect:
        self.connections.append(MadeUp(self.close_gate))
        return cast("libvirt.virConnect", self.connections[-1])


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Dialled:
    made = Dialled()
    monkeypatch.setattr(libvirt, "open", made.open)
    return made


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Something for a call to wait for, open at the end so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def session(dialled: Dialled) -> Iterator[OnDemandConnection]:
    made = OnDemandConnection("test:///default", idle=IDLE)
    yield made
    made.close()


def nothing(_connection: libvirt.virConnect) -> None:
    """Ask nothing."""


def waiting(gate: threading.Event, begun: threading.Event) -> Callable[[libvirt.virConnect], bool]:
    def ask(_connection: libvirt.virConnect) -> bool:
        begun.set()
        return gate.wait(SECONDS)

    return ask


async def happens(event: threading.Event) -> bool:
    return await asyncio.to_thread(event.wait, SECONDS)


async def stays_away(event: threading.Event) -> bool:
    return not await asyncio.to_thread(event.wait, NOT_YET)


async def test_questions_share_a_connection_that_is_closed_after_them(
    session: OnDemandConnection, dialled: Dialled
) -> None:
    for _ in range(3):
        await session.ask("something", nothing, SECONDS)

    (only,) = dialled.connections
    assert await happens(only.closed)
    await session.ask("something", nothing, SECONDS)
    assert len(dialled.connections) == 2


@pytest.mark.parametrize("by_hand", [False, True], ids=["idle", "close"])
async def test_a_close_that_is_not_answered_holds_up_nobody(
    session: OnDemandConnection, dialled: Dialled, by_hand: bool
) -> None:
    dialled.close_gate.clear()
    await session.ask("something", nothing, SECONDS)
    (first,) = dialled.connections

    if by_hand:
        session.close()

    assert await happens(first.closing)
    assert threading.get_ident() not in first.closers
    await session.ask("something", nothing, SECONDS)
    assert not first.closed.is_set()
    dialled.close_gate.set()


async def test_a_connection_is_closed_once_and_after_the_last_of_overlapping_questions(
    session: OnDemandConnection, dialled: Dialled, gate: threading.Event
) -> None:
    begun = [threading.Event(), threading.Event()]
    first_gate = threading.Event()
    first = asyncio.create_task(session.ask("first", waiting(first_gate, begun[0]), SECONDS))
    assert await happens(begun[0])
    last = asyncio.create_task(session.ask("last", waiting(gate, begun[1]), SECONDS))
    await asyncio.sleep(0)
    first_gate.set()
    await first
    assert await happens(begun[1])
    (only,) = dialled.connections

    assert await stays_away(only.closing)

    gate.set()
    await last
    assert await happens(only.closed)
    assert await stays_away(only.closed_again)


async def test_a_connection_is_not_closed_under_a_call_that_was_given_up(
    dialled: Dialled, gate: threading.Event
) -> None:
    session, begun = OnDemandConnection("test:///default", idle=IDLE), threading.Event()
    with pytest.raises(LibvirtError, match="did not answer"):
        await session.ask("stuck", waiting(gate, begun), IDLE)
    assert await happens(begun)
    (only,) = dialled.connections

    assert await stays_away(only.closing)

    gate.set()
    assert await happens(only.closed)
    assert not only.closed_again.is_set()


@pytest.mark.parametrize("alive", [True, False])
async def test_a_refusal_keeps_the_connection_and_a_break_ends_it(
    session: OnDemandConnection, dialled: Dialled, alive: bool
) -> None:
    def refuse(_connection: libvirt.virConnect) -> None:
        dialled.connections[0].alive = alive
        raise libvirt.libvirtError("no")

    with pytest.raises(LibvirtError) as caught:
        await session.ask("something", refuse, SECONDS)

    assert isinstance(caught.value, LibvirtRefusedError) is alive
    await session.ask("something", nothing, SECONDS)
    assert len(dialled.connections) == (1 if alive else 2)
    assert dialled.connections[0].closing.is_set() is not alive
