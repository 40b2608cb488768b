from __future__ import annotations

import ipaddress
import uuid
from pathlib import Path

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest.image import Image
from hypercobalt.lab.guest.probe import Accelerators
from hypercobalt.lab.vms import blueprint
from hypercobalt.lab.vms.blueprint import Guests, VMIds
from hypercobalt.lab.vms.domain import Domain, Port, RawDisk
from hypercobalt.lab.vms.request import Placement, VMRequest
from hypercobalt.lab.vms.switch import Address

IDS = VMIds(uuid.UUID(int=1), uuid.UUID(int=2))
GUESTS = Guests(
    Image("k1", Path("/cache/k1/vmlinux"), Path("/cache/k1/initrd.gz")),
    Accelerators("qemu", "kvm", "so it was found"),
)
ADDRESS = Address(ipaddress.IPv4Address("10.78.0.10"))


def domain(request: VMRequest, address: Address | None = ADDRESS) -> Domain:
    return blueprint.domain(Placement(request, "a", "kvm-1"), IDS, address, GUESTS)


def test_linux_guest_has_its_name_and_its_address() -> None:
    made = domain(VMRequest())

    assert made.type == "qemu"
    assert made.title == "linux 10.78.0.10"
    assert made.disks == ()
    assert made.port == Port(IDS.port, ADDRESS.mac)
    assert made.boots
    assert made.boots.kernel == "/var/lib/hypercobalt/guests/k1/vmlinux"
    assert made.boots.command_line.endswith(" guest.name=a guest.address=10.78.0.10/24")


def test_a_boot_sector_has_a_disk_and_no_kernel() -> None:
    made = domain(VMRequest(kind="boot", program="panic"), None)

    assert made.type == "kvm"
    assert made.title == "boot panic"
    assert made.boots is None
    assert made.port is None
    assert made.disks == (RawDisk("/var/lib/hypercobalt/shared/vms/a.img"),)


@pytest.mark.parametrize(
    ("request_", "disk"),
    [
        pytest.param(
            VMRequest(disk="shared", error_policy="report"),
            RawDisk("/var/lib/hypercobalt/shared/vms/a.img", "report", "none"),
            id="shared-without-the-hosts-cache",
        ),
        pytest.param(
            VMRequest(disk="local"),
            RawDisk("/var/lib/hypercobalt/local/vms/a.img", "stop", "writeback"),
            id="local",
        ),
    ],
)
def test_a_disk_is_at_the_path_requested(request_: VMRequest, disk: RawDisk) -> None:
    assert domain(request_).disks == (disk,)


def test_without_an_image_there_is_no_linux_guest() -> None:
    guests = Guests(None, GUESTS.accelerators, "apt has no kernel")
    placement = Placement(VMRequest(), "a", "kvm-1")
    with pytest.raises(LabError, match="VM a: apt has no kernel; a VM of the kind boot"):
        blueprint.domain(placement, IDS, ADDRESS, guests)
