"""From a placed request to libvirt's document: pure."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from hypercobalt.lab.disk import CONSOLES, LOCAL
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest.image import COMMAND_LINE, Image
from hypercobalt.lab.guest.probe import Accelerators
from hypercobalt.lab.host import GUESTS, SHARED
from hypercobalt.lab.vms.domain import Domain, Kernel, Port, RawDisk
from hypercobalt.lab.vms.request import Placement, VMRequest
from hypercobalt.lab.vms.switch import Address


@dataclass(frozen=True, slots=True)
class Guests:
    """The parts that VMs are made from.

    Args:
        image: the Linux guest; None where it cannot be built.
        accelerators: how to run them.
        lack: why there is no Linux guest.
    """

    image: Image | None
    accelerators: Accelerators
    lack: str = ""


@dataclass(frozen=True, slots=True)
class VMIds:
    """A VM's ids: of its domain and of its port."""

    vm: uuid.UUID
    port: uuid.UUID


def domain(
    placement: Placement, identity: VMIds, address: Address | None, guests: Guests
) -> Domain:
    """Return the domain of a VM; its disks must be made where the domain names them.

    Args:
        placement: what was requested, and where it goes.
        identity: its ids.
        address: on the switch; None is no network.
        guests: what it is made from.

    Raises:
        LabError: it is a Linux guest, and there is none on this machine.
    """
    request, name = placement.request, placement.name
    linux = request.kind == "linux"
    what = "linux" if linux else f"boot {request.program}"
    return Domain(
        name=name,
        uuid=identity.vm,
        type=guests.accelerators.linux if linux else guests.accelerators.boot,
        title=f"{what} {address.ip}" if address else what,
        console=f"{CONSOLES}/{name}.sock",
        log=f"{SHARED}/consoles/{name}.log",
        memory_mib=request.memory,
        vcpus=request.vcpus,
        boots=_kernel(name, address, guests) if linux else None,
        disks=_disks(name, request),
        port=Port(identity.port, address.mac) if address else None,
        watchdog=request.watchdog,
        on_crash=request.on_crash,
        tuning=request.tuning,
        extra=request.extra,
    )


def disk_path(name: str, *, host_only: bool) -> str:
    """Where a VM's disk lies, in the host."""
    return f"{LOCAL if host_only else SHARED}/vms/{name}.img"


def _disks(name: str, request: VMRequest) -> tuple[RawDisk, ...]:
    if request.kind == "linux" and not request.disk:
        return ()
    path = disk_path(name, host_only=request.disk == "local")
    made = RawDisk(path, request.error_policy, readonly=request.readonly)
    return (replace(made, cache="writeback") if request.disk == "local" else made,)


def _kernel(name: str, address: Address | None, guests: Guests) -> Kernel:
    image = guests.image
    if image is None:
        raise LabError(f"VM {name}: {guests.lack}; a VM of the kind boot needs none")
    words = [COMMAND_LINE, f"guest.name={name}"]
    if address:
        words.append(f"guest.address={address.with_prefix}")
    folder = f"{GUESTS}/{image.key}"
    return Kernel(f"{folder}/{image.kernel.name}", f"{folder}/{image.initrd.name}", " ".join(words))
