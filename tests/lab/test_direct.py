"""Moves without OpenStack, between real hosts: from libvirt to libvirt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from hypercobalt.compute.errors import RefusedError
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import SHARED
from hypercobalt.lab.lab import Lab
from tests.contracts.direct import CONTRACTS, A, B, World, ended, named
from tests.lab.conftest import TakeFleet
from tests.lab.kit.direct import LabWorld

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_direct_adapter_keeps_the_contract(
    fleet: TakeFleet, switched: Lab, contract: Callable[[World], Awaitable[None]]
) -> None:
    await contract(LabWorld(await fleet(2), switched))


async def test_disk_and_network_are_whole_after_a_move(fleet: TakeFleet, switched: Lab) -> None:
    world = LabWorld(await fleet(2), switched)
    await world.add("a", disk="local")
    written = await world.vms.order("a", "write-disk 4")

    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await ended(service, server)

    assert await world.vms.order("a", "read-disk 4") == written
    assert await world.bound_to("a") == (B,)


CRON: Final = "/etc/cron.d/captured"
_SERIAL: Final = f"<serial type='file'><source path='{CRON}'/><target port='1'/></serial></devices>"
_QEMU: Final = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"
_ARGUMENTS: Final = f"<qemu:arg value='-D'/><qemu:arg value='{CRON}'/>"
HOSTILE: Final[dict[str, tuple[str, str, str]]] = {
    "serial": ("<devices/serial>", "</devices>", _SERIAL),
    "dots": ("<devices/disk/source>", f"{SHARED}/vms/", f"{SHARED}/../../../../etc/"),
    "backing": ("<devices/disk/driver>", "type='raw'", "type='qcow2'"),
    "nvram": ("<os/nvram>", "</os>", f"<nvram template='/etc/shadow'>{CRON}</nvram></os>"),
    "kernel": ("<os/kernel>", "</os>", "<kernel>/etc/shadow</kernel></os>"),
    "arguments": (
        "<qemu:commandline>",
        "</domain>",
        f"<qemu:commandline {_QEMU}>{_ARGUMENTS}</qemu:commandline></domain>",
    ),
}
"""What is put into a stored definition, and where; what the refusal names."""


async def test_stored_definition_does_nothing_to_another_host(
    fleet: TakeFleet, switched: Lab
) -> None:
    """The token of a host's agent stores what it likes; another host must not start it."""
    world = LabWorld(await fleet(2), switched)
    await world.add("a", disk="shared")
    there, link = world.vms.host(B), f"{SHARED}/vms/link"
    for command in (f"ln -s /etc/shadow {link}", f"mknod {link} b 8 0"):
        with pytest.raises(LabError):  # nor can a disk's path lead elsewhere on this storage
            await world.vms.host(A).run(*command.split())
    await world.lose(A)
    kept = world.stored(A)
    async with world.service() as service:
        for names, old, new in HOSTILE.values():
            assert old in kept
            world.store(A, kept.replace(old, new))
            server = await named(service, A, "a")
            assert names in server.waits_for_host
            with pytest.raises(RefusedError, match="waits for"):
                await service.recovery.evacuate(server, B)
        assert await world.where() == []
        assert (await there.run("ls", "-A", "/etc/cron.d")).split() == []
        world.store(A, re.sub("<emulator>.*?</emulator>", "<emulator>/tmp/qemu</emulator>", kept))
        server = await named(service, A, "a")
        await service.recovery.evacuate(server, B)
        assert (await ended(service, server)).status == "done"
