"""The directory that the hosts share, for VM disks: one FUSE mount, bound into each."""

from __future__ import annotations

import sys
from pathlib import Path

from hypercobalt.lab import mounts, processes, rebind
from hypercobalt.lab.commands import run
from hypercobalt.lab.host import SHARED, Host
from hypercobalt.lab.state import Layout, State


async def share(layout: Layout, state: State) -> None:
    """Mount the directory that the hosts share.

    libvirt takes a disk for shared, and migrates without copying it, only on a network file system;
    a FUSE mount whose subtype is glusterfs counts as one. Names are not cached, or a file that was
    removed beside the mount could not be made again through it for a second.

    Raises:
        CommandError: it cannot be mounted.
    """
    if layout.shared in mounts.under(layout.data):
        if processes.find(state.id, "shared"):
            return
        await mounts.release(layout.shared)  # it died, and left a mount that answers nothing
    for folder in (layout.shared, layout.shared_files):
        folder.mkdir(exist_ok=True)
    options = "subtype=glusterfs,fsname=hypercobalt,allow_other,entry_timeout=0,attr_timeout=0"
    await run(
        *("env", processes.mark(state.id, "shared")),
        *("bindfs", "-o", options, str(layout.shared_files), str(layout.shared)),
    )


async def renew(host: Host, layout: Layout) -> None:
    """Give a host that runs the directory as it is now, where what it has of it is dead.

    Files that a guest has open stay dead: such a guest must be started anew.

    Raises:
        CommandError: the kernel refuses.
    """
    leader = host.leader_pid
    if leader is None or _same(Path(f"/proc/{leader}/root{SHARED}"), layout.shared):
        return
    command = (sys.executable, "-m", rebind.__name__)
    await run(*command, str(leader), str(layout.shared), SHARED)


def _same(there: Path, here: Path) -> bool:
    try:
        return there.stat().st_dev == here.stat().st_dev
    except FileNotFoundError:  # it was booted without
        return True
    except OSError:  # "transport endpoint is not connected"
        return False
