"""The agent's observer and judge on real daemons, without an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.following import background
from tests.integration.ovs.conftest import central, daemons, running_central, running_daemons
from tests.integration.ovs.daemons import Daemons

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.ovs_agent import probes, suspicion
from hypercobalt.ovs_agent.assess import Judgement
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import SystemClock

__all__ = ["central", "daemons", "running_central", "running_daemons"]

BOUND = 30.0


class Watched:
    """What the agent judges of a switch, while it changes."""

    def __init__(self, board: Board, judge: Judge, observer: SwitchObserver) -> None:
        self._board, self._judge, self.observer = board, judge, observer

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

    @asynccontextmanager
    async def recorded(self, seen: list[Judgement]) -> AsyncIterator[None]:
        """Collect every judgement that gets onto the board."""

        async def collect() -> None:
            while True:
                parts = self._board.parts
                seen.extend([self._judge.latest] if self._judge.latest else ())
                await self._board.changed(parts)

        async with background(collect):
            yield

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
    board, observer = Board(clock, Parts()), SwitchObserver(switch, clock)
    judge = Judge(
        observer.facts,
        board,
        clock,
        counters=timedelta(minutes=5),
        read_at=observer.read_at,
        doubt=observer.doubt,
    )
    settings = OVSAgentSettings("kvm-1", southbound_probe=timedelta(seconds=5))

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            probes.begin(tasks, switch, observer, settings, clock)
            suspicion.begin(tasks, switch, observer)
            tasks.create_task(judge.run())
            await observer.follow()

    task = asyncio.create_task(run())
    try:
        yield Watched(board, judge, observer)
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait([task])
