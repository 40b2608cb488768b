"""The host's memory, as far as it explains why a QEMU ended.

Source: proc(5), meminfo and vmstat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.ha.incidents.escalation import Memory

JUST_NOW: Final = timedelta(seconds=60)
_EVERY: Final = timedelta(seconds=30)
"""The kernel counts kills, and has no time of them; a pod that exceeds its limit counts, too."""


class HostMemory:
    """Reads it; while `follow` runs, an old kill is not taken for a new one.

    Args:
        now: the time.
        proc: where the kernel's files are.
    """

    def __init__(self, now: Callable[[], datetime], proc: Path = Path("/proc")) -> None:
        self._now, self._proc = now, proc
        self._kills = self._read("vmstat", "oom_kill")
        self._killed_at: datetime | None = None

    async def follow(self) -> None:
        """Note when the OOM killer acts, until cancelled."""
        while True:
            self._killed_lately()
            await asyncio.sleep(_EVERY.total_seconds())

    def read(self) -> Memory:
        """What is available now, and whether the OOM killer has just acted."""
        kills = self._killed_lately()
        return Memory(self._read("meminfo", "MemAvailable:") * 1024, kills=kills)

    def _killed_lately(self) -> bool:
        kills, now = self._read("vmstat", "oom_kill"), self._now()
        if kills > self._kills:
            self._kills, self._killed_at = kills, now
        return self._killed_at is not None and now - self._killed_at < JUST_NOW

    def _read(self, name: str, key: str) -> int:
        try:
            lines = (self._proc / name).read_text().splitlines()
        except OSError:
            return 0
        fields = (line.split() for line in lines)
        return next((int(line[1]) for line in fields if line[:1] == [key]), 0)
