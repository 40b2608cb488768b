"""Finds the disks, ports or UUID of a domain that another domain has as well. Pure.

A host defines any domain it likes, and a captured one names disks or ports of another host's
guests: started elsewhere, or bound in the network, its domain would take those from them. Which of
two definitions is the true one cannot be known from here. So neither is started on another host,
nor gets the ports, and the message names both; each may be started on its own host.

Names are compared as they are written, after `..` and double slashes: a link to another guest's
file is made on storage that a captured host writes anyway.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.errors import TransientError

Everywhere = Mapping[str, Iterable[Domain]]
"""Domains of each host by the host's name, as it answers or as its agent has stored."""


class ClaimedError(TransientError):
    """A domain is not started or bound; the message has the reason.

    Args:
        text: the reason.
        by: the host that has something of the domain as well; "" where that is not why.
    """

    def __init__(self, text: str, by: str = "") -> None:
        super().__init__(text)
        self.by = by


def claimant(error: TransientError) -> str:
    """Return the host that has something of the domain as well; "" where that is not why."""
    return error.by if isinstance(error, ClaimedError) else ""


class Taken(NamedTuple):
    """A thing that another domain has as well.

    Args:
        host: of that domain.
        text: the thing and the domain, for people.
    """

    host: str
    text: str


def disks_taken(domain: Domain, everywhere: Everywhere) -> Taken | None:
    """Return the disk that another domain has as well; None for none.

    Media that no domain writes to may have many readers.
    """
    own = {name: disk for disk in domain.devices.disks if (name := _name(disk))}
    nvram = _path(domain.devices.nvram)
    for host, other in _others(domain, everywhere):
        for disk in other.devices.disks:
            mine = own.get(_name(disk))
            if mine is not None and not (_is_only_read(mine) and _is_only_read(disk)):
                what = f"its disk {_name(disk)[:200]} is that of {_called(other, host)}"
                return Taken(host, what)
        if nvram and nvram == _path(other.devices.nvram):
            what = f"its firmware's variables are those of {_called(other, host)}"
            return Taken(host, what)
    return None


def ports_taken(domain: Domain, everywhere: Everywhere) -> Taken | None:
    """Return the port that another domain has as well; None for none."""
    own = frozenset(domain.devices.ports)
    for host, other in _others(domain, everywhere) if own else ():
        if taken := own.intersection(other.devices.ports):
            what = f"its port {min(taken)[:64]} is that of {_called(other, host)}"
            return Taken(host, what)
    return None


def _others(domain: Domain, everywhere: Everywhere) -> Iterator[tuple[str, Domain]]:
    for host, there in everywhere.items():
        for other in there:
            if other.uuid != domain.uuid:
                yield host, other


def _called(domain: Domain, host: str) -> str:
    return f"{domain.name} on {host}, too"


def _name(disk: Disk) -> str:
    """Return the identity of a disk, equal for every domain that has it; "" for an empty drive."""
    return _path(disk.path) or disk.volume


def _path(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}") if path else ""


def _is_only_read(disk: Disk) -> bool:
    return disk.readonly or disk.device in {"cdrom", "floppy"}
