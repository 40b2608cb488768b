"""What a process that may not act still asks of hosts and of the network."""

from __future__ import annotations

from typing import cast

import pytest

from hypercobalt.adapters.libvirt.remote.fake import FakeDaemons
from hypercobalt.adapters.libvirt.remote.model import Definition, Way
from hypercobalt.adapters.libvirt.remote.port import Daemon
from hypercobalt.compute.direct.guarded import GuardedDaemons, GuardedPorts
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.errors import TransientError

URI = "qemu+tcp://192.0.2.1/system"
READS = {"host_uuid", "guests", "definition", "has_file", "close"}
CHANGES = {
    "migrate": ("uuid", cast("Way", None)),
    "abort": ("uuid",),
    "hurry": ("uuid",),
    "resume": ("uuid",),
    "define": (cast("Definition", None),),
    "undefine": ("uuid",),
    "make_directory": ("/disks",),
    "mark": ("/disks", "mark"),
    "delete_file": ("/disks", "mark"),
}


def lost() -> None:
    raise TransientError("the lease is somebody else's")


def test_every_call_is_known_as_a_read_or_a_change() -> None:
    assert {name for name in vars(Daemon) if not name.startswith("_")} == READS | CHANGES.keys()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_not_asked_for(change: str) -> None:
    daemons = FakeDaemons()
    fenced = GuardedDaemons(daemons, lost).at(URI)
    with pytest.raises(TransientError, match="somebody else's"):
        await getattr(fenced, change)(*CHANGES[change])
    assert not daemons.at(URI).calls


async def test_reads_are_made_all_the_same() -> None:
    daemons = FakeDaemons()
    fenced = GuardedDaemons(daemons, lost).at(URI)
    assert await fenced.guests() == ()
    assert await fenced.host_uuid() == daemons.at(URI).uuid
    assert not await fenced.has_file("/disks", "mark")


async def test_ports_stay_where_they_are() -> None:
    ports = GuardedPorts(NoPorts(), lost)
    assert await ports.between_hosts() == {}
    with pytest.raises(TransientError):
        await ports.bind(("port",), ("kvm-1",))
