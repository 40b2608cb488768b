"""Which boot of the host this is, and when it began.

Source: proc_sys_kernel(5), random/boot_id; proc_stat(5), btime. systemd-nspawn gives each boot of a
container an id of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypercobalt.adapters.host.incarnation import start_of


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of a host.

    Args:
        id: differs from boot to boot; "" when the kernel does not give it.
        at: when it began, to the second; None when the kernel does not give it.
    """

    id: str = ""
    at: datetime | None = None


def this_boot(proc: Path = Path("/proc")) -> Boot:
    """The boot that this process runs in.

    A systemd as PID 1 has started with its host, which may be a container of the machine.
    """
    return Boot(_read(proc / "sys/kernel/random/boot_id").strip(), _at(proc))


def _at(proc: Path) -> datetime | None:
    for line in _read(proc / "stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.isascii() and value.isdigit():
            return datetime.fromtimestamp(int(value), UTC) + _later(proc)
    return None


def _later(proc: Path) -> timedelta:
    if _read(proc / "1/comm").strip() != "systemd":
        return timedelta(0)
    return timedelta(seconds=(start_of(1, proc) or 0) // os.sysconf("SC_CLK_TCK"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
