"""When a daemon counts as silent, and when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from tests.unit.adapters.libvirt.made_up import MadeUpDaemon, connected

from hypercobalt.adapters.libvirt.heartbeat import Heartbeat
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.framing import Message

BOUND = 10.0
VERSION = protocol.Version(9_000_000)
PATIENCE = 0.1


class Beating:
    """A heartbeat, and what it reports."""

    def __init__(self, daemon: MadeUpDaemon, client: Client) -> None:
        self.daemon, self.client = daemon, client
        self.reports: list[str] = []
        self._reported = asyncio.Event()
        self.heartbeat = Heartbeat(
            client,
            PATIENCE / 10,
            PATIENCE,
            silent=lambda: self._report("silent"),
            alive=lambda: self._report("alive"),
        )

    @property
    def calls(self) -> list[Message]:
        return self.daemon.of(protocol.GET_LIB_VERSION)

    def answer(self) -> None:
        """Answer the last call, and each that follows."""
        self.daemon.answer(self.calls[-1], VERSION)
        self.daemon.answers[protocol.GET_LIB_VERSION.number] = VERSION

    async def until(self, good: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND):
            while not good():
                self._reported.clear()
                await self._reported.wait()

    def _report(self, what: str) -> None:
        self.reports.append(what)
        self._reported.set()


@asynccontextmanager
async def beating(*, answers: bool) -> AsyncGenerator[Beating]:
    async with connected() as (daemon, client):
        if answers:
            daemon.answers[protocol.GET_LIB_VERSION.number] = VERSION
        found = Beating(daemon, client)
        yield found
        found.heartbeat.stop()


async def test_daemon_that_answers_is_called_again_and_again() -> None:
    async with beating(answers=True) as subject:
        await subject.daemon.until(lambda: len(subject.calls) >= 5)
        assert subject.reports == []


async def test_late_answer_is_reported_once_and_so_is_its_arrival() -> None:
    async with beating(answers=False) as subject:
        await subject.until(lambda: subject.reports == ["silent"])
        assert len(subject.calls) == 1, "no further call while one is unanswered"
        subject.answer()
        await subject.until(lambda: subject.reports == ["silent", "alive"])
        await subject.daemon.until(lambda: len(subject.calls) >= 3)
        assert subject.reports == ["silent", "alive"]


async def test_refusal_is_an_answer() -> None:
    async with beating(answers=False) as subject:
        await subject.until(lambda: subject.reports == ["silent"])
        subject.daemon.answer(
            subject.calls[0], protocol.Error(38, 10, "", 2, None, None, None, None, 0, 0, None)
        )
        await subject.until(lambda: subject.reports[:2] == ["silent", "alive"])


async def test_event_of_a_silent_daemon_gives_it_the_same_time_once_more() -> None:
    async with beating(answers=False) as subject:
        await subject.until(lambda: subject.reports == ["silent"])
        subject.heartbeat.sign()
        subject.heartbeat.sign()
        assert subject.reports == ["silent", "alive"]
        await subject.until(lambda: subject.reports == ["silent", "alive", "silent"])
        assert len(subject.calls) == 1


async def test_time_in_which_the_process_was_held_up_does_not_count() -> None:
    async with beating(answers=True) as subject:
        await subject.daemon.until(lambda: len(subject.calls) >= 1)
        loop = asyncio.get_running_loop()
        until = loop.time() + 2 * PATIENCE
        while loop.time() < until:  # busy: neither daemon nor client has its turn
            pass
        seen = len(subject.calls)
        await subject.daemon.until(lambda: len(subject.calls) >= seen + 2)
        assert subject.reports == []


async def test_connection_that_ends_is_neither_silent_nor_alive() -> None:
    async with beating(answers=False) as subject:
        await subject.until(lambda: subject.reports == ["silent"])
        subject.client.close()
        subject.heartbeat.sign()
        await asyncio.sleep(0)  # what the end of the call has scheduled
        assert subject.reports == ["silent"]
