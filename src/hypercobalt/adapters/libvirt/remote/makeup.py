"""Reads from domain XML what decides whether and how a guest can move. Never raises.

Source: libvirt's formatdomain.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from hypercobalt.adapters.libvirt.documents.scaled import memory_bytes, number
from hypercobalt.adapters.libvirt.documents.tree import DocumentError, Element, read
from hypercobalt.adapters.libvirt.remote.model import Disk, Makeup

_WANTED = frozenset({"memory", "vcpu", "os", "devices"})
_MAX_VCPUS = 16 * 1024
_MAX_DEVICES = 1024  # disks, and ports; QEMU has room for some 500 of both, and each costs calls
_Device = TypeVar("_Device", Disk, str)
_ADDRESS = ("domain", "bus", "slot", "function")


def parse(document: str) -> Makeup:
    """Read one domain's document."""
    try:
        root = read(document, root="domain", wanted=_WANTED)
        memory = root.first("memory")
        return Makeup(
            memory_bytes=memory_bytes(memory.text, memory.get("unit")) if memory else 0,
            vcpus=number(root.text_of("vcpu") or "1", _MAX_VCPUS),
            disks=_few("disks", (_disk(disk) for disk in root.all("devices/disk"))),
            ports=_few("ports", _ports(root)),
            bound=tuple(_bound(root)),
            nvram=root.text_of("os/nvram"),
        )
    except (DocumentError, ValueError) as exc:
        return Makeup(problem=f"its definition cannot be read: {exc}")


def _few(what: str, devices: Iterable[_Device]) -> tuple[_Device, ...]:
    found = tuple(devices)
    if len(found) > _MAX_DEVICES:
        raise ValueError(f"it has {len(found)} {what}, more than {_MAX_DEVICES}")
    return found


def _disk(disk: Element) -> Disk:
    source, target = disk.first("source"), disk.first("target")
    block = source is not None and bool(source.get("dev"))
    return Disk(
        target=target.get("dev") if target else "",
        device=disk.get("device", "disk"),
        path=(source.get("file") or source.get("dev")) if source else "",
        block=block,
        readonly=disk.first("readonly") is not None,
    )


def _ports(root: Element) -> Iterator[str]:
    for port in root.all("devices/interface/virtualport"):
        if port.get("type") == "openvswitch":
            for parameters in port.all("parameters"):
                if found := parameters.get("interfaceid"):
                    yield found


def _bound(root: Element) -> Iterator[str]:
    for device in root.all("devices/hostdev"):
        yield f"host device {device.get('type')} {_where(device)}".rstrip()
    for interface in root.all("devices/interface"):
        if interface.get("type") == "hostdev":
            yield f"network interface passed through {_where(interface)}".rstrip()
    for tpm in root.all("devices/tpm"):
        for backend in tpm.all("backend"):
            yield f"TPM of the type {backend.get('type')}"
    for shared in root.all("devices/filesystem"):
        target = shared.first("target")
        yield f"directory of the host {target.get('dir') if target else ''}".rstrip()


def _where(device: Element) -> str:
    address = device.first("source/address")
    if address is None:
        return ""
    domain, bus, slot, function = (address.get(key).removeprefix("0x") for key in _ADDRESS)
    return f"{domain or '0000'}:{bus}:{slot}.{function}" if bus else address.get("uuid")
