"""Whether the kernel has killed a process of a pod at the pod's memory limit.

QEMU is the largest process of a pod, so it is the one that is killed: to libvirt the guest crashed.
The launcher lives on, and with it the pod's control group, which counts the kills.

Source: cgroups(7); Linux, Documentation/admin-guide/cgroup-v2.rst (memory.events) and
cgroup-v1/memory.rst (memory.oom_control).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_GROUPS: Final = Path("/sys/fs/cgroup")
_KILLS: Final = "oom_kill"
_FIELDS: Final = 3


def killed_at_limit(
    pod_uid: str, process: int, *, proc: Path = _PROC, groups: Path = _GROUPS
) -> bool:
    """Whether a process of a pod was killed since the pod began; False where that is not shown.

    Args:
        pod_uid: of the pod; runtimes have it in the name of the pod's control group.
        process: of the pod that lives; 0 if none is known.
        proc: where the processes of this PID namespace are.
        groups: where the control groups are mounted.
    """
    if not process:
        return False
    try:
        listed = (proc / str(process) / "cgroup").read_text()
    except OSError:
        return False
    for line in listed.splitlines():
        _, controllers, path = [*line.split(":", _FIELDS - 1), "", ""][:_FIELDS]
        if pod_uid not in path.replace("\\x2d", "-").replace("_", "-") or ".." in path:
            continue
        if "memory" in controllers.split(","):
            return _kills(groups / "memory" / path.lstrip("/") / "memory.oom_control") > 0
        if not controllers and (kills := _kills(groups / path.lstrip("/") / "memory.events")):
            return kills > 0
    return False


def _kills(file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    fields = (line.split() for line in lines)
    return next((int(one[1]) for one in fields if one[:1] == [_KILLS]), 0)
