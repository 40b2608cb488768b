"""The host's memory, as far as it explains why a QEMU ended.

The control group of all guests counts the kills among its members, whoever ran out of memory: a pod
that exceeds its limit is not among them. A host without that count is judged by the one of all its
kills: the older hierarchies count for each group by itself, and the group of a guest ends with it.
What cannot be read is unknown: it is neither a kill nor want of memory.

Source: proc(5), meminfo and vmstat; Linux, Documentation/admin-guide/cgroup-v2.rst, memory.events;
libvirt.org/cgroups.html (systemd's `machine.slice`; `machine` without systemd).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.ha.incidents.escalation import AvailableMemory

JUST_NOW: Final = timedelta(seconds=60)
_EVERY: Final = timedelta(seconds=30)
"""The kernel counts kills, and has no time of them."""
_GUESTS: Final = ("machine.slice", "machine")
_GROUPS: Final = "sys/fs/cgroup"


class HostMemory:
    """Reads it; while `follow` runs, an old kill is not taken for a new one.

    Args:
        now: the time.
        root: where the host's control groups are: its file system, `/` but in a container.
        proc: where the kernel's files are.
    """

    def __init__(
        self, now: Callable[[], datetime], root: Path = Path("/"), proc: Path = Path("/proc")
    ) -> None:
        self._now, self._proc = now, proc
        groups = (root / _GROUPS / name / "memory.events" for name in _GUESTS)
        self._guests = frozenset(groups)
        self._kills: dict[Path, int | None] = {}
        self._kills = self._count()
        self._killed_at: datetime | None = None

    async def follow(self) -> None:
        """Note when the OOM killer acts, until cancelled."""
        while True:
            self._killed_lately()
            await asyncio.sleep(_EVERY.total_seconds())

    def read(self) -> AvailableMemory:
        """What is available now, and whether the OOM killer has just acted."""
        kills = self._killed_lately()
        with suppress(OSError):
            if (available_kib := _read(self._proc / "meminfo", "MemAvailable:")) is not None:
                return AvailableMemory(available_kib * 1024, kills=kills)
        return AvailableMemory(None, kills=kills)

    def _killed_lately(self) -> bool:
        kills, now = self._count(), self._now()
        judged = kills.keys() & self._guests or kills.keys()
        if any(_rose(self._kills.get(file, 0), kills[file]) for file in judged):
            self._killed_at = now
        self._kills = kills
        return self._killed_at is not None and now - self._killed_at < JUST_NOW

    def _count(self) -> dict[Path, int | None]:
        """Return the kills so far, by the file that counts them; a new group begins at 0.

        One that cannot be read has its last count; None: it was never read.
        """
        counts: dict[Path, int | None] = {}
        for file in (*self._guests, self._proc / "vmstat"):
            try:
                count = _read(file, "oom_kill")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                count = None
            counts[file] = self._kills.get(file) if count is None else count
        return counts


def _rose(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now > before


def _read(file: Path, key: str) -> int | None:
    """Return the number of a key; None without it.

    Raises:
        OSError: the file cannot be read.
    """
    fields = (line.split() for line in file.read_text().splitlines())
    return next((int(line[1]) for line in fields if line[:1] == [key]), None)
