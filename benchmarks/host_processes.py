"""Processes of a lab that runs VirtualMachineInstances, by role: CPU time and memory.

Pods have PID namespaces of their own, so the processes of a host are those in its control group.

Source: proc_pid_stat(5), proc_pid_smaps(5), proc_pid_cgroup(5); cgroups(7).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab import cgroups, processes
from hypercobalt.lab.control import ROLE as API_SERVER
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.pods.actors import CONTROLLER, SCHEDULER
from hypercobalt.lab.pods.running.settings import HANDLER, SERVICE
from hypercobalt.lab.pods.running.unit import PREFIX

LAUNCHER, LIBVIRTD, QEMU = "launcher", "libvirtd", "QEMU"
VIRT_HANDLER, RUNTIME, REST = "virt-handler", "kubelet stand-in", "rest of the host"
OUTSIDE: Final = (API_SERVER, CONTROLLER, SCHEDULER)
"""Roles of the lab's processes outside of its hosts."""
_SERVICES: Final = {HANDLER: VIRT_HANDLER, SERVICE: RUNTIME}
_UNITS: Final = (".service", ".scope", ".socket", ".slice")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_UTIME, _CSTIME = 14 - 3, 17 - 3
"""First and last of four fields of proc_pid_stat(5), counted after the command's name."""
_MIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the lab.

    Attributes:
        pid: as the machine numbers it.
        role: see the names above.
        unit: its systemd unit in the host; "" outside of hosts.
        command: the first 15 characters of its program's name.
    """

    pid: int
    role: str
    unit: str = ""
    command: str = ""


def unit_of(membership: str, machine: str) -> str | None:
    """The unit of a process of a host; None for a process of no host or of another.

    Args:
        membership: content of /proc/PID/cgroup.
        machine: name of the host's groups.
    """
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        parts = path.split("/")[1:]
        if controllers in {"", "name=systemd"} and parts[0] == machine:
            return next((one for one in reversed(parts) if one.endswith(_UNITS)), "")
    return None


def role_of(unit: str, command: str) -> str:
    """What a process of a host is, by its unit and its program."""
    if not unit.startswith(PREFIX):
        return _SERVICES.get(unit, REST)
    if command.startswith("qemu-system"):
        return QEMU
    return LIBVIRTD if command == "libvirtd" else LAUNCHER


def lab_processes(lab: Lab) -> tuple[Process, ...]:
    """The processes of a lab of one host."""
    (host,) = lab.hosts
    outside = (one for one in processes.find(lab.state.id) if one.role in OUTSIDE)
    return (*(Process(one.pid, one.role) for one in outside), *_inside(host.machine))


def _inside(machine: str) -> Iterator[Process]:
    for pid in processes.pids():
        with suppress(OSError):  # it has ended meanwhile
            unit = unit_of(Path(f"/proc/{pid}/cgroup").read_text(), machine)
            if unit is not None:
                command = processes.command(pid)
                yield Process(pid, role_of(unit, command), unit, command)


def used_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended; 0 for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[_UTIME : _CSTIME + 1])) / _TICKS


def pss_mib(pid: int) -> float:
    """Memory of a process, shared pages counted in shares; 0 for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / _MIB for line in lines if line.startswith("Pss:")), 0.0)


def pss_by_role(found: tuple[Process, ...]) -> Mapping[str, float]:
    """Memory of all processes of each role, in MiB."""
    total: defaultdict[str, float] = defaultdict(float)
    for one in found:
        total[one.role] += pss_mib(one.pid)
    return total


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time until now.

    Attributes:
        by_process: seconds of each process that runs.
        host: seconds of all processes of the host, ended ones included; None where the kernel has
            no count of the host's own.
    """

    by_process: Mapping[Process, float]
    host: float | None

    def since(self, before: Usage) -> dict[str, float]:
        """Seconds by role; what has ended in the host is counted to its rest."""
        known = {one.pid: seconds for one, seconds in before.by_process.items()}
        total: defaultdict[str, float] = defaultdict(float)
        for one, seconds in self.by_process.items():
            total[one.role] += seconds - known.get(one.pid, 0.0)
        if self.host is not None and before.host is not None:
            named = sum(seconds for role, seconds in total.items() if role not in {*OUTSIDE, REST})
            total[REST] = max(self.host - before.host - named, 0.0)
        return dict(total)


def usage(lab: Lab) -> Usage:
    """CPU time of a lab of one host."""
    (host,) = lab.hosts
    whole = _host_seconds(host.machine)
    return Usage({one: used_seconds(one.pid) for one in lab_processes(lab)}, whole)


def _host_seconds(machine: str) -> float | None:
    for hierarchy in cgroups.here(cgroups.BOUNDS):
        group = hierarchy / machine
        with suppress(OSError):
            return int((group / "cpuacct.usage").read_text()) / 1e9
        with suppress(OSError):
            lines = (group / "cpu.stat").read_text().splitlines()
            found = dict(line.split() for line in lines)
            if "usage_usec" in found:
                return int(found["usage_usec"]) / 1e6
    return None
