"""Run targets of the Makefile side by side: `python -m tests.side_by_side TARGET…`.

Two at a time, in their order, and a third while CPUs are idle, for most rings of tests wait more
than they compute. Each target is shown whole when it has ended. A failure interrupts the others,
which are shown as far as they came, is shown last, and ends it all: `make --jobs` would wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ALWAYS: Final = 2
MOST: Final = 3
IDLE: Final = 0.3
"""Share of the CPUs' time that has to be idle before more than `ALWAYS` targets run."""
LOOK_SECONDS: Final = 30.0
"""Over which idle time is measured: the labs of a ring that begins boot for most of a minute."""
_IDLE, _WAITING = 3, 4  # columns of /proc/stat


@dataclass(frozen=True, slots=True)
class Ticks:
    """What all CPUs together have done since the machine was started (proc_stat(5))."""

    idle: int
    all: int

    @classmethod
    def parse(cls, stat: str) -> Ticks:
        columns = [int(column) for column in stat.splitlines()[0].split()[1:9]]
        return cls(columns[_IDLE] + columns[_WAITING], sum(columns))

    @classmethod
    def now(cls) -> Ticks:
        return cls.parse(Path("/proc/stat").read_text(encoding="ascii"))

    def idle_until(self, later: Ticks) -> float:
        """The share of the time until `later` in which the CPUs were idle."""
        return (later.idle - self.idle) / max(1, later.all - self.all)


def may_begin(running: int, idle: float) -> bool:
    """Whether one target more may begin beside those that run. Pure."""
    return running < ALWAYS or (running < MOST and idle >= IDLE)


@dataclass(slots=True)
class Target:
    """A target that runs."""

    name: str
    process: Process
    output: Path
    began: float

    def show(self) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(self.output.read_bytes())
        sys.stdout.buffer.flush()

    async def interrupt(self) -> None:
        """End it as Ctrl-C does, and its whole group: pytest takes its hosts and servers down."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, which is not known yet
                os.killpg(self.process.pid, signal.SIGINT)
        await self.process.wait()


class SideBySide:
    """Targets of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[asyncio.Task[int], Target] = {}
        self._began = time.monotonic()

    async def run(self, names: Sequence[str]) -> int:
        """Run them all.

        Returns:
            The exit code of the first that failed; 0 when none did.
        """
        waiting, whole = list(names), Ticks.now()
        try:
            idle = 0.0
            while waiting or self._running:
                while waiting and may_begin(len(self._running), idle):
                    await self._begin(waiting.pop(0))
                    idle = 0.0  # until it is known what this one takes
                since = Ticks.now()
                if code := await self._look():
                    return code
                idle = since.idle_until(Ticks.now())
            self._say(f"all done; {whole.idle_until(Ticks.now()):.0%} of the CPUs' time was idle")
            return 0
        finally:
            await asyncio.shield(self._interrupt())

    async def _look(self) -> int:
        """Wait until a target has ended, or for one look; the exit code of one that failed."""
        wait = asyncio.wait(
            self._running, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (await wait)[0]:
            target = self._running.pop(task)
            if code := task.result():
                await self._interrupt()
            target.show()
            took = _minutes(time.monotonic() - target.began)
            self._say(f"{target.name} has {'failed after' if code else 'taken'} {took}")
            if code:
                return code
        return 0

    async def _begin(self, name: str) -> None:
        """Begin a target; an interrupt waits until its process is known, and so can be ended."""
        beginning = asyncio.create_task(self._start(name))
        try:
            await asyncio.shield(beginning)
        finally:
            await beginning

    async def _start(self, name: str) -> None:
        output = self._folder / name
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *("make", "--no-print-directory", name),
                stdin=DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        target = Target(name, process, output, time.monotonic())
        self._running[asyncio.create_task(process.wait(), name=name)] = target
        self._say(f"{name} begins")

    async def _interrupt(self) -> None:
        while self._running:
            task, target = self._running.popitem()
            self._say(f"{target.name} is interrupted")
            await target.interrupt()
            await task
            target.show()

    def _say(self, text: str) -> None:
        sys.stdout.write(f"=== {_minutes(time.monotonic() - self._began)}: {text}\n")
        sys.stdout.flush()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


async def main(names: Sequence[str]) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with TemporaryDirectory() as folder:
        return await SideBySide(Path(folder)).run(names)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(128 + signal.SIGINT)
