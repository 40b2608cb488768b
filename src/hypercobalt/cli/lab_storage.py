"""`cobalt lab storage`: break and repair the disks that the hosts share, for some of the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.lab_command import HERE, Data, run
from hypercobalt.lab import shared_mount
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.storage.faults import StorageFault

storage_app = App(name="storage", help="Break and repair the shared disks of a host.")

Name = Annotated[str, Parameter(help="Names of hosts; every host when none is given.")]


def _set(data: Path, names: tuple[str, ...], fault: StorageFault | None, done: str) -> int:
    async def work() -> int:
        lab = Lab.find(data)
        hosts = tuple(lab.host(name) for name in names) or lab.hosts
        faults = shared_mount.faults(lab.layout)
        for host in hosts:
            faults.write(host.machine, fault)
        screen.show(f"shared disks of {', '.join(host.name for host in hosts)} {done}")
        return 0

    return run(work())


@storage_app.command
def cut(*names: Name, data: Data = HERE) -> int:
    """Answer nothing about a host's disks; `restore` does what has waited."""
    return _set(data, names, StorageFault.CUT, "do not answer")


@storage_app.command
def hang(*names: Name, data: Data = HERE) -> int:
    """Let a host's reads and writes wait, while disks can be looked up and opened."""
    return _set(data, names, StorageFault.HANG, "hang")


@storage_app.command
def deny(*names: Name, data: Data = HERE) -> int:
    """Refuse a host's reads and writes with EIO, as storage that has fenced it."""
    return _set(data, names, StorageFault.DENY, "refuse reads and writes")


@storage_app.command
def fill(*names: Name, data: Data = HERE) -> int:
    """Have no space left: what needs new blocks fails with ENOSPC."""
    return _set(data, names, StorageFault.FULL, "are full")


@storage_app.command
def restore(*names: Name, data: Data = HERE) -> int:
    """Repair the disks, and do what has waited."""
    return _set(data, names, None, "work")
