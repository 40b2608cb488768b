"""Lists the kernel's mounts, and unmounts them.

Source: proc_pid_mountinfo(5).
"""

from __future__ import annotations

import re
from pathlib import Path

from hypercobalt.lab.commands import run

_MOUNT_POINT = 4  # field of a line
_ESCAPE = re.compile(r"\\([0-7]{3})")


def parse(mountinfo: str) -> tuple[Path, ...]:
    """The mount points of a mountinfo file, in the order in which they were mounted."""
    lines = (line.split(" ") for line in mountinfo.splitlines())
    return tuple(
        Path(_ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), fields[_MOUNT_POINT]))
        for fields in lines
        if len(fields) > _MOUNT_POINT
    )


def under(folder: Path) -> tuple[Path, ...]:
    """The mount points at or below a directory."""
    points = parse(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace"))
    return tuple(point for point in points if point.is_relative_to(folder))


async def release(folder: Path) -> None:
    """Unmount everything at or below a directory, the newest first.

    A mount whose users are gone but whose last file is being closed is detached lazily; nothing
    else of ours can hold one.

    Raises:
        CommandError: one cannot be unmounted.
    """
    for point in reversed(under(folder)):
        await run("umount", "--lazy", str(point))
