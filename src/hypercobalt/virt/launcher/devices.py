"""Devices of a running domain that the VMI shows: its machine type and its NICs. Pure.

Source: libvirt, formatdomain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.libvirt.documents.tree import DocumentError, Element, read
from hypercobalt.virt.wire.messages import DomainInterface

_WANTED: Final = frozenset({"os", "devices/interface"})
_ALIAS: Final = "ua-"
"""Prefix of the aliases that we give: the rest is the name in the VMI."""


@dataclass(frozen=True, slots=True)
class RunningDevices:
    """Parts of a domain's document.

    Args:
        machine: expanded, such as `pc-q35-7.2`.
        emulated: it runs without KVM.
        interfaces: its NICs.
    """

    machine: str = ""
    emulated: bool = False
    interfaces: tuple[DomainInterface, ...] = ()


def running_devices(document: str) -> RunningDevices:
    """Read a running domain's document; one that cannot be read has nothing to show."""
    try:
        root = read(document, root="domain", wanted=_WANTED)
    except DocumentError:
        return RunningDevices()
    kind = root.first("os/type")
    return RunningDevices(
        kind.get("machine") if kind else "",
        root.get("type") == "qemu",
        tuple(map(_interface, root.all("devices/interface"))),
    )


def _interface(nic: Element) -> DomainInterface:
    def value(tag: str, attribute: str) -> str:
        found = nic.first(tag)
        return found.get(attribute) if found else ""

    name = value("alias", "name").removeprefix(_ALIAS)
    return DomainInterface(name, value("mac", "address"), value("target", "dev"))
