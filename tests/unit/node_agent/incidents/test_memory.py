"""Whether the kernel's OOM killer has acted just now, and what memory is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hypercobalt.ha.incidents.escalation import AvailableMemory
from hypercobalt.node_agent.incidents.memory import JUST_NOW, HostMemory
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first

pytestmark = pytest.mark.looptime


class Host:
    """The kernel's files, by the clock of the event loop."""

    def __init__(self, root: Path, *, guests: int | None = None) -> None:
        self._proc, self._group = root / "proc", root / "sys/fs/cgroup/machine.slice"
        self._proc.mkdir()
        self.has(kills=3, guests=guests)
        self.clock = FakeClock(source=asyncio.get_running_loop().time)
        self.memory = HostMemory(self.clock.now, root, self._proc)

    def has(self, *, kills: int, guests: int | None = None) -> None:
        """Set the counts of all kills and, where the kernel has it, of those of guests."""
        events = self._group / "memory.events"
        if events.is_dir():
            events.rmdir()
        if guests is not None:
            self._group.mkdir(parents=True, exist_ok=True)
            text = f"low 0\nhigh 0\nmax 4\noom 4\noom_kill {guests}\noom_group_kill 0\n"
            events.write_text(text)
        for name in ("vmstat", "meminfo"):
            if (self._proc / name).is_dir():
                (self._proc / name).rmdir()
        (self._proc / "vmstat").write_text(f"pgfault 9\noom_kill {kills}\nnuma_hit 1\n")
        (self._proc / "meminfo").write_text("MemTotal: 16 kB\nMemAvailable:    8 kB\n")

    def make_unreadable(self, name: str) -> None:
        """Have a file of proc, and with the counts that of the guests as well, fail when read."""
        events = self._group / "memory.events"
        files = [self._proc / name]
        files += [events] if name == "vmstat" and events.exists() else []
        for file in files:
            file.unlink()
            file.mkdir()


async def test_available_memory_is_read_and_no_kill_counts_at_the_start(
    tmp_path: Path,
) -> None:
    assert Host(tmp_path).memory.read() == AvailableMemory(8192, kills=False)


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


async def test_only_kills_of_guests_count_where_their_group_counts_them(tmp_path: Path) -> None:
    host = Host(tmp_path, guests=2)
    host.has(kills=4, guests=2)  # a pod has exceeded its limit
    assert not host.memory.read().kills
    host.has(kills=5, guests=3)
    assert host.memory.read().kills


async def test_first_kill_in_a_group_that_has_come_with_the_first_guest_counts(
    tmp_path: Path,
) -> None:
    host = Host(tmp_path)
    host.has(kills=3, guests=0)
    assert not host.memory.read().kills
    host.has(kills=4, guests=1)
    assert host.memory.read().kills


async def test_host_without_the_files_has_unknown_memory_and_no_kills(tmp_path: Path) -> None:
    memory = HostMemory(FakeClock().now, tmp_path, tmp_path / "none")
    assert memory.read() == AvailableMemory(None, kills=False)


async def test_memory_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.make_unreadable("meminfo")
    assert host.memory.read() == AvailableMemory(None, kills=False)
    host.has(kills=3)
    assert host.memory.read().available_bytes == 8192


@pytest.mark.parametrize("guests", [None, 2])
async def test_count_that_could_not_be_read_once_is_no_kill_afterwards(
    tmp_path: Path, guests: int | None
) -> None:
    host = Host(tmp_path, guests=guests)
    host.make_unreadable("vmstat")
    assert not host.memory.read().kills
    host.has(kills=3, guests=guests)
    assert not host.memory.read().kills
    host.make_unreadable("vmstat")
    assert not host.memory.read().kills
    host.has(kills=4, guests=guests and 3)  # meanwhile the killer has acted
    assert host.memory.read().kills


@pytest.mark.parametrize("guests", [None, 2])
async def test_count_that_could_not_be_read_at_the_start_begins_with_its_first_value(
    tmp_path: Path, guests: int | None
) -> None:
    host = Host(tmp_path, guests=guests)
    host.make_unreadable("vmstat")
    host.memory = HostMemory(host.clock.now, tmp_path, tmp_path / "proc")
    host.has(kills=3, guests=guests)
    assert not host.memory.read().kills
    host.has(kills=4, guests=guests and 3)
    assert host.memory.read().kills
