"""Watches every QEMU of every host of a lab, and reports an instance that runs twice.

Neither hosts nor API are called: processes are read from the machine's kernel. A QEMU runs its
guest while the threads of its virtual CPUs are woken up again and again; those of one that waits
for an incoming migration, is paused, or is stopped with its host, are not. Two QEMUs of one UUID
whose guests both run for several looks in a row have run at the same time; a migration's two never
do.

Source: proc(5), proc_pid_cgroup(5); QEMU, accel/ (names of threads, with debug-threads=on).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab import cgroups, processes

LOOK_SECONDS: Final = 0.5
"""Between two looks: the kernel counts how often a thread is switched to, and sends no event."""
_WAKES: Final = 3
"""Least in one look: a paused virtual CPU is woken once when its state is read."""
_LOOKS: Final = 3
_PROC: Final = Path("/proc")
_VCPU: Final = ("CPU ", "ALL CPUs/")


@dataclass(frozen=True, slots=True)
class Emulator:
    """A QEMU as the machine sees it.

    Args:
        machine: its host, by the name that the lab has given to its control group.
        wakes: how often its virtual CPUs have been switched to since they began.
    """

    pid: int
    uuid: str
    machine: str
    wakes: int


@dataclass(frozen=True, slots=True)
class DoubleRun:
    """One instance that runs in two QEMUs."""

    uuid: str
    machines: tuple[str, ...]
    pids: tuple[int, ...]

    def __str__(self) -> str:
        where = " and ".join(self.machines)
        return f"instance {self.uuid} runs twice: on {where} (processes {self.pids})"


class Overlaps:
    """Finds double runs in looks that follow each other. Pure."""

    def __init__(self) -> None:
        self._wakes: dict[int, int] = {}
        self._streaks: dict[int, int] = {}
        self.found: dict[str, DoubleRun] = {}

    def look(self, seen: Sequence[Emulator]) -> None:
        """Take what is seen now; `found` has what follows, the first for each instance."""
        streaks = {one.pid: self._streak(one) for one in seen}
        self._streaks, self._wakes = streaks, {one.pid: one.wakes for one in seen}
        running: dict[str, list[Emulator]] = {}
        for one in seen:
            if streaks[one.pid] >= _LOOKS:
                running.setdefault(one.uuid, []).append(one)
        for uuid, twice in running.items():
            if len(twice) > 1:
                machines, pids = tuple(one.machine for one in twice), tuple(o.pid for o in twice)
                self.found.setdefault(uuid, DoubleRun(uuid, machines, pids))

    def _streak(self, one: Emulator) -> int:
        before = self._wakes.get(one.pid)
        if before is None or one.wakes - before < _WAKES:
            return 0
        return self._streaks.get(one.pid, 0) + 1


class Witness:
    """Looks at the QEMUs of a lab.

    Args:
        prefix: of the lab's names on the machine.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._overlaps = Overlaps()
        self._first_seen: dict[int, float] = {}

    @property
    def double_runs(self) -> tuple[DoubleRun, ...]:
        return tuple(self._overlaps.found.values())

    def emulators(self) -> tuple[Emulator, ...]:
        """Every QEMU of the lab now."""
        return tuple(emulators(self._prefix))

    def first_seen(self, pid: int) -> float:
        """When a process was first seen, by the monotonic clock; now if it has not been yet."""
        return self._first_seen.get(pid, time.monotonic())

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            seen = await asyncio.to_thread(self.emulators)
            self._overlaps.look(seen)
            for one in seen:
                self._first_seen.setdefault(one.pid, time.monotonic())
            await asyncio.sleep(LOOK_SECONDS)


def emulators(prefix: str) -> Iterator[Emulator]:
    """The QEMUs of the lab with that prefix."""
    for pid in processes.pids():
        with suppress(OSError):  # it has ended meanwhile
            if not processes.command(pid).startswith("qemu-system"):
                continue
            folder = _PROC / str(pid)
            machine = cgroups.of_lab((folder / "cgroup").read_text(), f"{prefix}-")
            uuid = _uuid((folder / "cmdline").read_bytes())
            if machine and uuid:
                yield Emulator(pid, uuid, machine, _wakes(folder))


def _uuid(cmdline: bytes) -> str:
    words = cmdline.decode(errors="replace").split("\0")
    return words[words.index("-uuid") + 1] if "-uuid" in words[:-1] else ""


def _wakes(folder: Path) -> int:
    total = 0
    for thread in (folder / "task").iterdir():
        with suppress(OSError):
            if (thread / "comm").read_text().startswith(_VCPU):
                lines = (thread / "status").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return total
