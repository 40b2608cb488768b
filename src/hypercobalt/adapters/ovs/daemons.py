"""Finds a daemon of Open vSwitch or OVN, and shows which process it is.

After a crash both the pid file and the control socket stay behind, and the start after it makes
others: what counts is the process that accepts the connection. Its start time distinguishes a
restarted daemon from the one before even if the kernel gave it the same process id.

Source: ovs-appctl(8), "Target"; unix(7), SO_PEERCRED; proc_pid_stat(5).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs import unixctl
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_STALE: Final = (ProducerFault.CONNECTION_REFUSED, ProducerFault.SOCKET_MISSING)
_START_TIME: Final = 22 - 3  # of proc_pid_stat(5), counted after the command's name
_VERSION: Final = re.compile(r"^\S+(?: \(Open vSwitch\))? (\d\S*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Process:
    """One run of a daemon.

    Attributes:
        pid: as this process sees it, else as the name of the control socket has it.
        ticks: between the machine's boot and the process's start; None if unreadable. Unlike a
            time of day, they do not change when the clock is set.
    """

    pid: int
    ticks: int | None


@dataclass(frozen=True, slots=True)
class DaemonSocket:
    """Where a daemon's control socket is.

    Args:
        name: such as `ovs-vswitchd`.
        rundir: its run directory.
        proc: of the kernel.
    """

    name: str
    rundir: Path
    proc: Path = Path("/proc")

    async def connect(
        self, *, deadline: float = unixctl.DEADLINE, limit: int = unixctl.LIMIT
    ) -> tuple[unixctl.UnixControl, Process]:
        """Connect to the daemon that runs; left-over sockets of killed ones are passed over.

        Args:
            deadline: seconds for each attempt to connect.
            limit: bytes of the largest reply that is read.

        Raises:
            SwitchError: SOCKET_MISSING when there is no control socket, CONNECTION_REFUSED when all
                are left over, or why the one that is listened on gives no connection.
        """
        refused = SwitchError(
            ProducerFault.SOCKET_MISSING,
            f"{self.name}: no control socket {self.rundir}/{self.name}.PID.ctl",
        )
        for pid, path in self._candidates():  # a folder in memory
            try:
                control = await unixctl.connect(path, deadline=deadline, limit=limit)
            except SwitchError as exc:
                refused = SwitchError(exc.fault, f"{self.name}: {exc}")
                if exc.fault not in _STALE:
                    break
            else:
                return control, self._process(control.process or pid)
        raise refused

    def _candidates(self) -> list[tuple[int, Path]]:
        """Control sockets by process id: the pid file's first, then the newest."""
        found = [(pid, path) for path in self._sockets() if (pid := self._pid_of(path))]
        recorded = self.recorded()
        return sorted(found, key=lambda one: (one[0] != recorded, -_made(one[1])))

    def _sockets(self) -> list[Path]:
        return list(self.rundir.glob(f"{self.name}.*.ctl"))

    def _pid_of(self, path: Path) -> int | None:
        text = path.name.removeprefix(f"{self.name}.").removesuffix(".ctl")
        return int(text) if text.isascii() and text.isdigit() else None

    def recorded(self) -> int | None:
        """The process that the pid file has, which may be gone."""
        with suppress(OSError, ValueError):
            return int((self.rundir / f"{self.name}.pid").read_text())
        return None

    def _process(self, pid: int) -> Process:
        try:
            fields = (self.proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            return Process(pid, int(fields[_START_TIME]))
        except (OSError, ValueError, IndexError):
            return Process(pid, None)


def version_of(text: str) -> str | None:
    """The version in a daemon's reply to `version`, such as `3.1.0`; None if it has none.

    ovsdb-server and ovs-vswitchd reply `NAME (Open vSwitch) 3.1.0`, ovn-controller `NAME 23.03.1`
    and further lines on its libraries.
    """
    found = _VERSION.search(text)
    return found.group(1) if found else None


def started_at(stat: Path, ticks: int | None) -> datetime | None:
    """The time that is so many clock ticks after the boot."""
    if ticks is None:
        return None
    try:
        lines = stat.read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, StopIteration, IndexError):
        return None
    since_boot = timedelta(seconds=ticks / os.sysconf("SC_CLK_TCK"))
    return datetime.fromtimestamp(boot, UTC) + since_boot


def _made(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
