"""The agent's observer and judge on real daemons, without an API server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.ovs.central import SOUTHBOUND, Central
from tests.integration.ovs.conftest import daemons, running_daemons
from tests.integration.ovs.daemons import Daemons

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.ovs_agent import probes
from hypercobalt.ovs_agent.assess import Judgement
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import Observer
from hypercobalt.ovs_agent.settings import Settings
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import SystemClock

__all__ = ["daemons", "running_daemons"]

BOUND = 30.0


@pytest.fixture(scope="session")
def running_central(running_daemons: Daemons) -> Iterator[Central]:
    central = Central(Path(tempfile.mkdtemp(prefix="ovn-")), running_daemons)
    try:
        central.create()
        yield central
    finally:
        central.close()
        shutil.rmtree(central.folder)


@pytest.fixture
def central(running_central: Central, daemons: Daemons) -> Iterator[Central]:
    """With a controller that is connected; the southbound database runs afterwards."""
    del daemons
    running_central.join()
    yield running_central
    if SOUTHBOUND not in running_central.running:
        running_central.start(SOUTHBOUND)
    running_central.resume(SOUTHBOUND)
    running_central.leave()


class Watched:
    """What the agent judges of a switch, while it changes."""

    def __init__(self, board: Board, judge: Judge) -> None:
        self._board, self._judge = board, judge

    async def until(self, holds: Callable[[Judgement], bool], seconds: float = BOUND) -> Judgement:
        """The first judgement on the board that is so."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    parts, judged = self._board.parts, self._judge.latest
                    if judged is not None and holds(judged):
                        return judged
                    await self._board.changed(parts)
        except TimeoutError:
            raise AssertionError(f"not so in {seconds} s: {shown(self._judge.latest)}") from None

    async def condition(self, type_: str, expected: str, seconds: float = BOUND) -> Judgement:
        """The first judgement with this condition, as STATUS/REASON."""
        return await self.until(lambda judged: state(judged, type_) == expected, seconds)


def state(judged: Judgement, type_: str) -> str:
    stated = next(one for name, one in judged.conditions.items() if name == type_)
    return f"{stated.status}/{stated.reason}"


def codes(judged: Judgement) -> list[tuple[str | None, str | None]]:
    return [(one.code, one.object) for one in judged.status.issues]


def shown(judged: Judgement | None) -> object:
    if judged is None:
        return None
    return [(type_.value, one.status.value, one.reason) for type_, one in judged.conditions.items()]


@asynccontextmanager
async def judged(daemons: Daemons) -> AsyncIterator[Watched]:
    """Observe and judge a switch."""
    clock, switch = SystemClock(), HostSwitch(daemons.paths)
    board, observer = Board(clock, Parts()), Observer(switch, clock)
    judge = Judge(observer.facts, board, clock, counters=timedelta(minutes=5))
    settings = Settings("kvm-1", southbound_probe=timedelta(seconds=5))

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            probes.begin(tasks, switch, observer, settings, clock)
            tasks.create_task(judge.run())
            await observer.follow()

    task = asyncio.create_task(run())
    try:
        yield Watched(board, judge)
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait([task])
