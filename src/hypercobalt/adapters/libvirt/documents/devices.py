"""Reads from domain XML the devices that decide whether and how a domain can migrate.

Source: libvirt's formatdomain.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.documents.tree import Element
from hypercobalt.adapters.libvirt.model import Devices, Disk

WANTED: Final = frozenset(
    {
        "os",
        "devices/disk",
        "devices/interface",
        "devices/hostdev",
        "devices/tpm",
        "devices/filesystem",
    }
)
"""The parts of a domain's document that `of` reads."""

_MAX_DEVICES: Final = 1024  # of a kind; QEMU has room for some 500, and each disk costs calls
_PLUGGED_BY_OTHERS: Final = frozenset({"ethernet", "vhostuser"})
_ADDRESS: Final = ("domain", "bus", "slot", "function")
_Device = TypeVar("_Device", Disk, str)


def of(root: Element) -> Devices:
    """The devices of one domain.

    Raises:
        ValueError: more of them than any domain has.
    """
    return Devices(
        disks=_few("disks", (_disk(disk) for disk in root.all("devices/disk"))),
        ports=_few("ports", _ports(root)),
        plugged=_few("interfaces", _plugged(root)),
        bound=_few("devices of the host", _bound(root)),
        nvram=root.text_of("os/nvram"),
    )


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
        volume=_volume(source) if source is not None else "",
    )


def _volume(source: Element) -> str:
    """A disk on the network, or of a storage pool."""
    kind, name = source.get("protocol"), source.get("name")
    if not kind:
        kind, name = source.get("pool"), source.get("volume")
    return f"{kind}:{name}" if kind and name else ""


def _ports(root: Element) -> Iterator[str]:
    for port in root.all("devices/interface/virtualport"):
        if port.get("type") == "openvswitch":
            for parameters in port.all("parameters"):
                if found := parameters.get("interfaceid"):
                    yield found


def _plugged(root: Element) -> Iterator[str]:
    """Devices of which libvirt does not name the switch, as Nova's os-vif has them with OVN."""
    for interface in root.all("devices/interface"):
        target = interface.first("target")
        name = target.get("dev") if target is not None else ""
        if name and interface.get("type") in _PLUGGED_BY_OTHERS:
            yield name


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
