"""A control group for each host, in the hierarchies that systemd uses and in that of memory.

Without one, systemd-nspawn puts every host into the same group, and their systemd instances take
each other's services for their own. That of memory has the kernel count the kills of a host's OOM
killer by themselves: else each host would count those of all labs. A host whose units have bounds
needs one in each hierarchy that bounds something, or its systemd bounds nothing there.

Source: cgroups(7); systemd, docs/CGROUP_DELEGATION.md.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_MOUNT_POINT, _AFTER = 4, " - "
_NEEDED: Final = frozenset({"name=systemd", "memory"})
BOUNDS: Final = frozenset({"cpu", "cpuacct", "cpuset", "devices", "pids"})
"""Hierarchies, besides that of memory, in which the units of a host that has bounds are."""
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
"""Files of a group that is empty without them, and takes no process."""
ALLOW_BOUNDS: Final = (
    "for one in memory cpu cpuacct cpuset devices pids; do"
    " [ ! -d /sys/fs/cgroup/$one ] || mount -o remount,bind,rw /sys/fs/cgroup/$one || exit; done;"
    " systemctl daemon-reexec"
)
"""A shell command in a host: its systemd, which has found those hierarchies read-only when it
booted, makes groups in them from now on."""
_KILLS: Final = "/sys/fs/cgroup/memory/memory.oom_control"
SHOW_OWN_KILLS: Final = f"! [ -e {_KILLS} ] || mount --bind {_KILLS} /proc/vmstat"
"""A shell command in a host whose memory has a hierarchy of its own: its agent reads the kills of
the host's group there, where the machine counts those of all labs."""


def hierarchies(mountinfo: str, more: frozenset[str] = frozenset()) -> tuple[Path, ...]:
    """Mount points of the unified hierarchy, of systemd's own and of memory's, once each.

    Args:
        mountinfo: content of /proc/self/mountinfo.
        more: names of further hierarchies.
    """
    wanted = _NEEDED | more
    found: list[Path] = []
    for line in mountinfo.splitlines():
        head, _, rest = line.partition(_AFTER)
        kind, _, options = rest.partition(" ")
        named = not wanted.isdisjoint(options.rpartition(" ")[2].split(","))
        if kind == "cgroup2" or (kind == "cgroup" and named):
            found.append(Path(head.split(" ")[_MOUNT_POINT]))
    return tuple(dict.fromkeys(found))


def here(more: frozenset[str] = frozenset()) -> tuple[Path, ...]:
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    return hierarchies(text, more)


def of_lab(membership: str, prefix: str) -> str:
    """The group of a host that a process is in; "" for a process of no host.

    Args:
        membership: content of /proc/PID/cgroup.
        prefix: of the names of the hosts' groups.
    """
    names = (line.split(":", 2)[2].split("/")[1] for line in membership.splitlines())
    return next((name for name in names if name.startswith(prefix)), "")


def make(name: str, *, bounds: bool = False) -> tuple[Path, ...]:
    """Make a group in each hierarchy, or find it; a process joins by its `cgroup.procs`.

    Args:
        name: of the groups.
        bounds: also in the hierarchies of `BOUNDS`.
    """
    groups = tuple(hierarchy / name for hierarchy in here(BOUNDS if bounds else frozenset()))
    for group in groups:
        group.mkdir(exist_ok=True)
        for file in _INHERITED:
            if (group / file).exists():
                (group / file).write_bytes((group.parent / file).read_bytes())
    return groups


def remove(name: str) -> None:
    """Take away the groups of that name with all groups below; those in use stay."""
    for hierarchy in here(BOUNDS):
        top = hierarchy / name
        below = sorted((d for d in top.rglob("*") if d.is_dir()), key=lambda d: -len(d.parts))
        for group in (*below, top):
            with contextlib.suppress(OSError):
                group.rmdir()


def writable() -> bool:
    """Whether groups can be made here."""
    return bool(found := here()) and all(os.access(group, os.W_OK) for group in found)
