"""Finds the files or ports of a domain that another domain has as well. Pure.

A host defines any domain it likes, and a captured one names files or ports of another host's
guests: started elsewhere, or bound in the network, its domain would take those from them. Which of
two definitions is the true one cannot be known from here. So neither is started on another host,
nor gets the ports, and the message names both; each may be started on its own host.

Names are compared as they are written, after `..` and double slashes: a link to another guest's
file is made on storage that a captured host writes anyway.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from hypercobalt.adapters.libvirt.documents.portable.paths import is_own
from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.compute.direct.obstacles import layers
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


class _Use(NamedTuple):
    """What a domain uses a file for.

    Args:
        what: for people.
        written: the guest, its QEMU or libvirt writes to it, or replaces it.
    """

    what: str
    written: bool = True


_VARIABLES: Final = _Use("file of firmware variables")
_LOG: Final = _Use("console log")
_SOCKET: Final = _Use("socket")
_BACKUPS: Final = 10
"""Files that virtlogd renames a full log to: `.0` and so on, three by default (`max_backups`)."""
_NAMED: Final = frozenset({_VARIABLES, _LOG, _SOCKET})
"""What is named after its domain: `documents.portable`."""


def files_taken(
    domain: Domain, everywhere: Everywhere, *, only_named: bool = False
) -> Taken | None:
    """Return the file of a domain that is another's as well, whatever either uses it for.

    What neither writes to may have many readers: media, images under disks, kernels.

    Args:
        domain: as the other host gets it.
        everywhere: the other domains.
        only_named: only of what is named after the domain; disks may be shared on purpose.
    """
    own = _own(domain, only_named=only_named)
    written = [path for path, use in own.items() if use.written]
    places = {part: path for path in written for part in path.split("/")}
    by_name = _named_by_name(domain)
    for host, other in _others(domain, everywhere):
        called = f"{other.name} on {host}"
        if other.uuid in places:
            path = places[other.uuid]
            return Taken(host, f"it would write to {path[:200]}, by its UUID a file of {called}")
        if by_name and other.name == domain.name:
            what = f"its name, after which {by_name[:200]} is named"
            return Taken(host, f"{what}, is that of {called}, too")
        for path, theirs in _files(other):
            mine = own.get(path)
            if mine is not None and (mine.written or theirs.written):
                same = f"that of {called}, too"
                whose = same if mine.what == theirs.what else f"the {theirs.what} of {called}"
                return Taken(host, f"its {mine.what} {path[:200]} is {whose}")
    return None


def _own(domain: Domain, *, only_named: bool) -> dict[str, _Use]:
    """Return the files of a domain, each with the use that writes to it if one does."""
    own = dict[str, _Use]()
    for path, use in _files(domain):
        if (use.written or path not in own) and (use in _NAMED or not only_named):
            own[path] = use
    full = (f"{path}.{old}" for path, use in own.items() if use == _LOG for old in range(_BACKUPS))
    return dict.fromkeys(full, _LOG) | own


def _named_by_name(domain: Domain) -> str:
    """Return a file that is a domain's own by its name alone; "" for none."""
    named = (path for path, use in _files(domain) if use in _NAMED)
    return next((path for path in named if not is_own(path, (domain.uuid,))), "")


def _files(domain: Domain) -> Iterator[tuple[str, _Use]]:
    """Yield all files that a definition names, and volumes on the network."""
    devices = domain.devices
    for disk in devices.disks:
        if name := _name(disk):
            yield name, _Use("disk", not _is_only_read(disk))
    for layer in layers(domain):
        yield _path(layer.path), _Use("backing image", written=False)
    for kernel in devices.kernels:
        yield _path(kernel), _Use("kernel", written=False)
    if devices.nvram:
        yield _path(devices.nvram), _VARIABLES
    for log in devices.logs:
        yield _path(log), _LOG
    for socket in devices.sockets:
        yield _path(socket), _SOCKET


def ports_taken(domain: Domain, everywhere: Everywhere) -> Taken | None:
    """Return the port that another domain has as well; None for none."""
    own = frozenset(domain.devices.ports)
    for host, other in _others(domain, everywhere):
        if taken := own.intersection(other.devices.ports):
            what = f"its port {min(taken)[:64]} is that of {other.name} on {host}, too"
            return Taken(host, what)
    return None


def _others(domain: Domain, everywhere: Everywhere) -> Iterator[tuple[str, Domain]]:
    for host, there in everywhere.items():
        for other in there:
            if other.uuid != domain.uuid:
                yield host, other


def _name(disk: Disk) -> str:
    """Return the identity of a disk, equal for every domain that has it; "" for an empty drive."""
    return _path(disk.path) or disk.volume


def _path(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}") if path else ""


def _is_only_read(disk: Disk) -> bool:
    return disk.readonly or disk.device in {"cdrom", "floppy"}
