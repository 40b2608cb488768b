"""What a domain names that another domain has: its disks, its ports, its own UUID. Pure.

A host defines what it likes, and one that is captured names what another host's guests have:
started elsewhere, or bound in the network, its domain would take that from them. Which of two
definitions is the true one cannot be known from here. So neither is started on another host, nor
gets the ports, and the message names both; each may be started on its own host.

Names are compared as they are written, after `..` and double slashes: a link to another guest's
file is made on storage that a captured host writes anyway.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from hypercobalt.adapters.libvirt.model import Disk, Domain

Everywhere = Mapping[str, Iterable[Domain]]
"""What each host has, by its name: as it answers, or as its agent has stored."""


def disks_taken(domain: Domain, everywhere: Everywhere) -> str:
    """Which disk of another domain this one has, too; "" for none.

    Media that no domain writes to may have many readers.
    """
    own = {name: disk for disk in domain.devices.disks if (name := _name(disk))}
    nvram = _path(domain.devices.nvram)
    for host, other in _others(domain, everywhere):
        for disk in other.devices.disks:
            mine = own.get(_name(disk))
            if mine is not None and not (_is_only_read(mine) and _is_only_read(disk)):
                return f"its disk {_name(disk)[:200]} is that of {_called(other, host)}"
        if nvram and nvram == _path(other.devices.nvram):
            return f"its firmware's variables are those of {_called(other, host)}"
    return ""


def ports_taken(domain: Domain, everywhere: Everywhere) -> str:
    """Which port of another domain this one has, too; "" for none."""
    own = frozenset(domain.devices.ports)
    for host, other in _others(domain, everywhere) if own else ():
        if taken := own.intersection(other.devices.ports):
            return f"its port {min(taken)[:64]} is that of {_called(other, host)}"
    return ""


def _others(domain: Domain, everywhere: Everywhere) -> Iterator[tuple[str, Domain]]:
    for host, there in everywhere.items():
        for other in there:
            if other.uuid != domain.uuid:
                yield host, other


def _called(domain: Domain, host: str) -> str:
    return f"{domain.name} on {host}, too"


def _name(disk: Disk) -> str:
    """What the disk is, the same for every domain that has it; "" for an empty drive."""
    return _path(disk.path) or disk.volume


def _path(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}") if path else ""


def _is_only_read(disk: Disk) -> bool:
    return disk.readonly or disk.device in {"cdrom", "floppy"}
