"""A process that does not lead reads from hosts and the network, and changes nothing."""

from __future__ import annotations

from typing import cast

import pytest

from hypercobalt.adapters.libvirt.fake import FakeDaemons
from hypercobalt.adapters.libvirt.model import DomainDocument, MigrationOptions
from hypercobalt.adapters.libvirt.port import Control, Daemon, Marks, Observe, Power
from hypercobalt.compute.direct.guarded import GuardedDaemons, GuardedPorts
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.errors import TransientError

URI = "qemu+tcp://192.0.2.1/system"
READS = {
    "capabilities",
    "domain_capabilities",
    "domains",
    "job_stats",
    "stats",
    "document",
    "has_file",
    "close",
}
CHANGES = {
    "migrate": ("uuid", cast("MigrationOptions", None)),
    "abort": ("uuid",),
    "force_complete": ("uuid",),
    "resume": ("uuid",),
    "destroy": ("uuid",),
    "boot": ("uuid",),
    "define": (cast("DomainDocument", None),),
    "undefine": ("uuid",),
    "make_directory": ("/disks",),
    "mark": ("/disks", "mark"),
    "delete_file": ("/disks", "mark"),
}


def lost() -> None:
    raise TransientError("the lease is another process's")


def test_every_call_is_known_as_a_read_or_a_change() -> None:
    declared = {name for part in (Observe, Power, Marks, Control, Daemon) for name in vars(part)}
    public = {name for name in declared if not name.startswith("_")}
    assert public == READS | CHANGES.keys()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_not_requested(change: str) -> None:
    daemons = FakeDaemons()
    guarded = GuardedDaemons(daemons, lost).at(URI)
    with pytest.raises(TransientError, match="another process's"):
        await getattr(guarded, change)(*CHANGES[change])
    assert not daemons.at(URI).calls


async def test_reads_are_made_all_the_same() -> None:
    daemons = FakeDaemons()
    guarded = GuardedDaemons(daemons, lost).at(URI)
    assert await guarded.domains() == ()
    assert await guarded.capabilities() == daemons.at(URI).host
    assert not await guarded.has_file("/disks", "mark")


async def test_ports_stay_where_they_are() -> None:
    ports = GuardedPorts(NoPorts(), lost)
    assert await ports.between_hosts() == {}
    with pytest.raises(TransientError):
        await ports.bind(("port",), ("kvm-1",))
