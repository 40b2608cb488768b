"""The directory that the hosts share, for VM disks: one FUSE mount, bound into each."""

from __future__ import annotations

from hypercobalt.lab import mounts, processes
from hypercobalt.lab.commands import run
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
