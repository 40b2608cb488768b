"""Whether the kernel's OOM killer has acted just now, and what memory is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hypercobalt.ha.incidents.escalation import Memory
from hypercobalt.node_agent.incidents.memory import JUST_NOW, HostMemory
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first

pytestmark = pytest.mark.looptime


class Host:
    """The kernel's files, by the clock of the event loop."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self.has(kills=3)
        self.clock = FakeClock(source=asyncio.get_running_loop().time)
        self.memory = HostMemory(self.clock.now, proc)

    def has(self, *, kills: int) -> None:
        (self._proc / "vmstat").write_text(f"pgfault 9\noom_kill {kills}\nnuma_hit 1\n")
        (self._proc / "meminfo").write_text("MemTotal: 16 kB\nMemAvailable:    8 kB\n")


async def test_available_memory_is_read_and_no_kill_counts_at_the_start(
    tmp_path: Path,
) -> None:
    assert Host(tmp_path).memory.read() == Memory(8192, kills=False)


async def test_kill_counts_for_a_minute(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.has(kills=4)
    assert host.memory.read().kills
    await asyncio.sleep(JUST_NOW.total_seconds() - 1)
    assert host.memory.read().kills
    await asyncio.sleep(1)
    assert not host.memory.read().kills


async def test_kill_of_long_ago_is_not_one_of_just_now(tmp_path: Path) -> None:
    host = Host(tmp_path)

    async def pod_is_killed() -> None:
        host.has(kills=4)
        await asyncio.sleep(600)

    await first(host.memory.follow(), pod_is_killed())
    assert not host.memory.read().kills


async def test_host_without_the_files_has_no_memory_and_no_kills(tmp_path: Path) -> None:
    clock = FakeClock()
    assert HostMemory(clock.now, tmp_path / "none").read() == Memory(0, kills=False)
