"""The directory that the hosts share, for VM disks: one FUSE mount, bound into each."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import mounts, processes, rebind
from hypercobalt.lab.commands import run
from hypercobalt.lab.host import SHARED, Host
from hypercobalt.lab.notify import spawn_ready
from hypercobalt.lab.state import LabState, Layout
from hypercobalt.lab.storage import server
from hypercobalt.lab.storage.faults import FaultFiles

ROLE = "shared"
"""Role of the process that serves the directory."""
_START = timedelta(seconds=20)  # a tenth of a second on an idle machine


async def share(layout: Layout, state: LabState, oldest: processes.Oldest) -> None:
    """Mount the directory that the hosts share.

    Raises:
        LabError: it cannot be mounted.
    """
    if layout.shared in mounts.under(layout.data):
        if oldest.find(ROLE):
            return
        await mounts.release(layout.shared)  # it died, and left a mount that answers nothing
    for folder in (layout.shared, layout.shared_files, layout.storage_faults):
        folder.mkdir(exist_ok=True)
    log = layout.log / "storage.log"
    layout.log.mkdir(exist_ok=True)
    folders = (layout.shared_files, layout.shared, layout.storage_faults)
    await spawn_ready(
        (sys.executable, "-m", server.__name__, *map(str, folders)),
        lab_id=state.id,
        role=ROLE,
        log=log,
        within=_START,
    )


def faults(layout: Layout) -> FaultFiles:
    """Faults of the hosts' shared disks."""
    return FaultFiles(layout.storage_faults)


async def renew(host: Host, layout: Layout) -> None:
    """Mount the directory again in a running host whose mount of it is dead.

    Files that a guest has open stay dead: such a guest must be stopped and started.

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
