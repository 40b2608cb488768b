"""Names a process so that a later one on the same machine can see whether it still runs.

A pid alone does not do: it is given again, after a reboot in the same order. So the name has the
process's start as well, and the start of the machine's systemd. Without a systemd as PID 1, as in
most containers, a process cannot find that out, and the name has no machine.

Source: proc(5), machine-id(5).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PARTS: Final = 5
_START: Final = 22 - 3  # field 22 of /proc/PID/stat, counted after the name in brackets


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One process of one boot of one machine.

    Args:
        host: name of the machine, for people.
        machine: its machine-id; "" when no process could find out whether this one runs.
        boot: differs from boot to boot.
        pid: of the process.
        started: clock ticks from the kernel's start to the process's.
    """

    host: str
    machine: str
    boot: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.host}_{self.pid}_{self.started}_{self.boot}_{self.machine}"


def parse(text: str) -> Incarnation | None:
    """Read what `str` of an incarnation wrote; None if it was something else."""
    parts = text.rsplit("_", _PARTS - 1)
    if len(parts) != _PARTS:
        return None
    host, pid, started, boot, machine = parts
    if not (pid.isdecimal() and started.isdecimal()):
        return None
    return Incarnation(host, machine, boot, int(pid), int(started))


def is_over(other: Incarnation, here: Incarnation, start_of: Callable[[int], int | None]) -> bool:
    """Whether it is certain that `other` does not run any more.

    Args:
        other: a process.
        here: one that runs now.
        start_of: `Incarnation.started` of the process that has a pid now; None if none has.
    """
    if not other.machine or other.machine != here.machine:
        return False
    return other.boot != here.boot or start_of(other.pid) != other.started


def this_process(proc: Path = Path("/proc"), etc: Path = Path("/etc")) -> Incarnation:
    """The process that calls."""
    pid, machine = os.getpid(), ""
    if _read(proc / "1/comm").strip() == "systemd":
        machine = _read(etc / "machine-id").strip()
    boot = _read(proc / "sys/kernel/random/boot_id").strip()
    return Incarnation(
        host=socket.gethostname(),
        machine=machine,
        boot=f"{boot}-{start_of(1, proc) or 0}",
        pid=pid,
        started=start_of(pid, proc) or 0,
    )


def start_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Start of the process that has this pid, in ticks since the kernel's; None: none has."""
    _, _, fields = _read(proc / f"{pid}/stat").rpartition(")")
    with suppress(IndexError, ValueError):
        return int(fields.split()[_START])
    return None


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""
