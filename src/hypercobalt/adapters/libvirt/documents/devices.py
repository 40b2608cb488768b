"""Reads from domain XML what decides whether and how a domain can migrate.

A disk counts as one that hosts may share by its path, or as one on the network, only if it is of a
kind that the table of portable definitions has. Whatever else there is ties the domain to its host.

Source: libvirt's formatdomain.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.documents.portable.judging import unportable
from hypercobalt.adapters.libvirt.documents.tree import Element
from hypercobalt.adapters.libvirt.model import Devices, Disk

_CHARACTERS: Final = ("serial", "parallel", "console", "channel")
WANTED: Final = frozenset(
    {"os", "devices/disk", "devices/interface", *(f"devices/{tag}" for tag in _CHARACTERS)}
)
"""The parts of a domain's document that are read in each case."""

_MAX_DEVICES: Final = 1024  # of a kind; QEMU has room for some 500, and each disk costs calls
_MAX_NAMED: Final = 16  # of the parts that tie it to its host
_MAX_LAYERS: Final = 64
_PLUGGED_BY_OTHERS: Final = frozenset({"ethernet", "vhostuser"})
_Device = TypeVar("_Device", Disk, str)


def of(root: Element, *, whole: bool) -> Devices:
    """The devices of one domain.

    Args:
        root: of the document.
        whole: it has all parts of the document; else what is left out ties the domain to its host.

    Raises:
        ValueError: more of them than any domain has.
    """
    return Devices(
        disks=_few("disks", (_disk(disk) for disk in root.all("devices/disk"))),
        ports=_few("ports", _ports(root)),
        plugged=_few("interfaces", _plugged(root)),
        bound=_bound(root) if whole else ("more parts than are read",),
        nvram=_nvram(root),
        kernels=tuple(filter(None, map(root.text_of, ("os/kernel", "os/initrd")))),
        logs=_few("logs", _logs(root)),
        sockets=_few("sockets", _sources(root, "unix")),
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
        backing=tuple(_layers(disk)),
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


def _bound(root: Element) -> tuple[str, ...]:
    found = tuple(islice(unportable(root), _MAX_NAMED + 1))
    return found if len(found) <= _MAX_NAMED else (*found[:_MAX_NAMED], "more of that kind")


def _nvram(root: Element) -> str:
    """File of the firmware's variables: the text of the element, or its source."""
    source = root.first("os/nvram/source")
    if source is None:
        return root.text_of("os/nvram")
    return source.get("file") or source.get("dev")


def _logs(root: Element) -> Iterator[str]:
    """Files that are written to for the ports: beside what each is, or as what it is."""
    for tag in _CHARACTERS:
        yield from (log.get("file") for log in root.all(f"devices/{tag}/log") if log.get("file"))
    yield from _sources(root, "file")


def _sources(root: Element, type_: str) -> Iterator[str]:
    """What is behind the ports of a type; that of a pseudoterminal is the host's alone."""
    for tag in _CHARACTERS:
        for port in root.all(f"devices/{tag}"):
            source = port.first("source") if port.get("type") == type_ else None
            if source is not None and (path := source.get("path")):
                yield path


def _layers(disk: Element) -> Iterator[str]:
    """Files that a disk's own is built upon; of another kind they tie the domain to its host."""
    layer = disk.first("backingStore")
    for _ in range(_MAX_LAYERS):
        if layer is None:
            return
        source = layer.first("source")
        if source is not None and (path := source.get("file")):
            yield path
        layer = layer.first("backingStore")
