"""Moves without OpenStack, between real hosts: from libvirt to libvirt."""

from __future__ import annotations

import pytest

from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.site import Lab
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Request, Storage
from tests.lab.conftest import TakeFleet
from tests.lab.direct import direct, ended, named

pytestmark = pytest.mark.timeout(300)


async def where(vms: Fleet) -> list[tuple[str, str, str]]:
    """Name, host and state of every domain on every host."""
    return [(vm.name, vm.host, vm.state) for vm in (await vms.inventory()).vms]


@pytest.mark.parametrize("disk", [None, "shared", "local"])
async def test_a_running_vm_goes_to_another_host_with_its_disk(
    fleet: TakeFleet, switched: Lab, disk: Storage | None
) -> None:
    vms = await fleet(2)
    await vms.add(Request(name="a", host="kvm-1", disk=disk))
    written = await vms.tell("a", "write-disk 4") if disk else ""

    async with direct(switched) as service:
        server = await named(service, "kvm-1", "a")
        await service.moves.live_migrate(server, "kvm-2")
        move = await ended(service, "kvm-1", server)

    assert (move.status, move.target, move.message) == ("completed", "kvm-2", "")
    assert await where(vms) == [("a", "kvm-2", "running")]
    if disk:
        assert await vms.tell("a", "read-disk 4") == written
    files = [switched.layout.root(host) / f"{LOCAL[1:]}/vms/a.img" for host in ("kvm-1", "kvm-2")]
    assert [file.exists() for file in files] == [False, disk == "local"]
    assert server.local_disk == (disk == "local")


async def test_a_stopped_vm_goes_by_its_definition(fleet: TakeFleet, switched: Lab) -> None:
    vms = await fleet(2)
    await vms.add(Request(name="a", host="kvm-1", disk="shared"))
    written = await vms.tell("a", "write-disk 4")
    await vms.stop("a")
    await vms.host("kvm-1").run("virsh", "autostart", "a")

    async with direct(switched) as service:
        server = await named(service, "kvm-1", "a")
        await service.moves.cold_migrate(server, "kvm-2")
        move = await ended(service, "kvm-1", server)

    assert (move.status, move.message) == ("confirmed", "")
    assert await where(vms) == [("a", "kvm-2", "shut off")]
    assert "a" in await vms.host("kvm-2").run("virsh", "list", "--all", "--autostart", "--name")
    await vms.start("a")
    assert await vms.tell("a", "read-disk 4") == written
