"""What is in the cloud from its start: flavors, images, a network; by name, in `Names`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab.commands import run
from hypercobalt.lab.guest import image as guest
from hypercobalt.lab.openstack.catalogue import administrator
from hypercobalt.lab.openstack.client import Json, Session
from hypercobalt.lab.openstack.place import OpenStackPlace


@dataclass(frozen=True, slots=True)
class Names:
    """Things that are there before the first server.

    Args:
        flavor: 192 MiB, one vCPU, a disk of 1 GiB.
        large_flavor: 1 GiB, one vCPU, a disk of 1 GiB.
        empty: an image without an operating system.
        guest: an image with one, that writes a line a second to its console, and its UUID once it
            has an address by DHCP and an answer of the metadata service.
        network: in which every project may have ports.
    """

    flavor: str
    large_flavor: str
    empty: str
    guest: str
    network: str


NAMES: Final = Names(
    flavor="tiny", large_flavor="large", empty="empty", guest="guest", network="net"
)
_DISK = "empty.qcow2"
_CIDR = "192.168.50.0/24"


async def write(place: OpenStackPlace) -> None:
    """Make it all, at once; Nova, Glance and Neutron listen.

    Raises:
        LabError: there is no guest image and none can be made, or a service refuses.
    """
    async with Session(administrator(place)) as cloud, asyncio.TaskGroup() as group:
        # 160 MiB is the least that the guest boots with.
        group.create_task(_flavor(cloud, NAMES.flavor, ram=192, disk=1))
        group.create_task(_flavor(cloud, NAMES.large_flavor, ram=1024, disk=1))
        group.create_task(_images(cloud, place))
        group.create_task(_network(cloud))


async def write_zones(place: OpenStackPlace, names: Collection[str]) -> None:
    """Make availability zones, which get their hosts from the operator.

    Raises:
        LabError: Nova refuses.
    """
    async with Session(administrator(place)) as cloud, asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(_zone(cloud, name))


async def _flavor(cloud: Session, name: str, *, ram: int, disk: int) -> None:
    flavor = {"name": name, "ram": ram, "vcpus": 1, "disk": disk}
    (await cloud("compute", "POST", "/flavors", {"flavor": flavor})).ok()


async def _zone(cloud: Session, name: str) -> None:
    aggregate = {"name": name, "availability_zone": name}
    (await cloud("compute", "POST", "/os-aggregates", {"aggregate": aggregate})).ok()


async def _images(cloud: Session, place: OpenStackPlace) -> None:
    disk = place.folder / _DISK
    await run("qemu-img", "create", "-q", "-f", "qcow2", str(disk), "10M")
    linux = await guest.ready()
    # The guest ignores a request to stop.
    await _image(cloud, NAMES.empty, disk, "qcow2", os_shutdown_timeout="1")
    kernel = await _image(cloud, "kernel", linux.kernel, "aki")
    initrd = await _image(cloud, "initrd", linux.initrd, "ari")
    await _image(
        *(cloud, NAMES.guest, disk, "qcow2"),
        kernel_id=kernel,
        ramdisk_id=initrd,
        os_command_line=f"{guest.COMMAND_LINE} guest.dhcp",
    )


async def add_image(place: OpenStackPlace, name: str, words: str) -> None:
    """An image like the guest's, but whose lines on the console have some words, without DHCP.

    Nova takes 255 characters of command line.

    Raises:
        LabError: Glance refuses.
    """
    async with Session(administrator(place)) as cloud:
        found = (await cloud("image", "GET", f"/v2/images?name={NAMES.guest}")).ok()["images"][0]
        await _image(
            *(cloud, name, place.folder / _DISK, "qcow2"),
            kernel_id=found["kernel_id"],
            ramdisk_id=found["ramdisk_id"],
            os_command_line=f"{guest.COMMAND_LINE} guest.name={words}",
        )


async def _image(cloud: Session, name: str, file: Path, form: str, **properties: str) -> str:
    container = form if form in {"aki", "ari"} else "bare"
    meta = {"name": name, "disk_format": form, "container_format": container, **properties}
    made: Json = (await cloud("image", "POST", "/v2/images", meta | {"visibility": "public"})).ok()
    (
        await cloud(
            *("image", "PUT", f"/v2/images/{made['id']}/file"),
            headers={"Content-Type": "application/octet-stream"},
            content=await asyncio.to_thread(file.read_bytes),
        )
    ).ok()
    return str(made["id"])


async def _network(cloud: Session) -> None:
    wanted = {"name": NAMES.network, "shared": True}
    made = (await cloud("network", "POST", "/v2.0/networks", {"network": wanted})).ok()["network"]
    subnet = {"network_id": made["id"], "ip_version": 4, "cidr": _CIDR, "gateway_ip": None}
    (await cloud("network", "POST", "/v2.0/subnets", {"subnet": subnet})).ok()
