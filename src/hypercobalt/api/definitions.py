"""The definitions of a host's domains, kept where they outlive the host: one object for each host.

Without OpenStack a host's libvirtd is the only record of what is on it. Its node agent stores the
definitions whenever one of them changes, a domain starts or stops; the operator reads them when the
host is fenced, to start elsewhere what ran there. A definition has the passwords of consoles and
disks, so the object has it sealed for the operator (`sealing`, `sealed_definitions`).

`mark` distinguishes shared disks from local ones when one of two hosts is dead: the agent leaves a
file of that name in each directory with disks of its domains, and another host that sees it there
has the same directory.

The form: lines of JSON, compressed. The first is of the host, each other one of a domain. So a
reader can stop at any line: whoever has taken a host over may seal what it likes, and the size of
a document says nothing about what it becomes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

HOST_LABEL: Final = "kvm.cloud.sap/hypervisor"
"""Label of the stored object: the name of the Hypervisor."""

MOST_PACKED: Final = 896 * 1024
"""Bytes of packed definitions, before they are sealed: see `sealed_definitions.MOST_BYTES`."""
MOST_TEXT: Final = 16 * 1024**2
"""Bytes of all lines; a host of a thousand domains has about 10 MiB."""
MOST_LINE: Final = 512 * 1024
"""Bytes of the line of one domain; libvirt's documents of 100 disks have 60 KiB."""
MOST_DOMAINS: Final = 4096

_MOST_NAME: Final = 255  # characters; libvirt makes file names of it
_CHUNK: Final = 64 * 1024
_PAD: Final = 4096  # the size of what is sealed does not follow a password byte by byte


class DomainDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A domain as it is on its host.

    Args:
        name: libvirt's.
        xml: the inactive document, with its passwords; never to be logged.
        active: a process of it exists, so it is to run again.
        autostart: it starts with its host, by libvirt or by libvirt-guests.
        saved: its memory lies in a file on the host, to be loaded at its next start.
        halted: its owner has suspended it, so it stays off once its memory is gone.
        crashed: its process has ended by itself, so it is to run again, too.
    """

    name: str
    xml: str
    active: bool = False
    autostart: bool = False
    saved: bool = False
    halted: bool = False
    crashed: bool = False

    @property
    def is_to_run(self) -> bool:
        """Whether another host starts it once its own is dead."""
        return (self.active or self.crashed) and not self.halted

    def __repr__(self) -> str:
        return f"DomainDefinition({self.name}, active={self.active})"


class HostDefinitions(msgspec.Struct, frozen=True, omit_defaults=True):
    """All persistent domains of a host, and those of its running ones that are not persistent.

    Args:
        bootID: of the host when they were read.
        mark: name of the file that the host has left in the directories of their disks.
        domains: by UUID.
        left_out: names of those without a definition here, by UUID: the object has no room for it,
            or libvirt has refused it.
        version: distinguishes what was read from each other state of any such object; "" where
            that is not known. Never stored.
    """

    bootID: str = ""
    mark: str = ""
    domains: dict[str, DomainDefinition] = {}
    left_out: dict[str, str] = {}
    version: str = ""


class Packed(NamedTuple):
    """Definitions that fit into the object, and those that do not.

    Args:
        data: to be sealed.
        left_out: names of the domains that do not fit: idle ones before running ones, the largest
            first.
    """

    data: bytes
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Packed({len(self.data)} bytes, left_out={self.left_out})"


class _HostLine(msgspec.Struct, frozen=True, omit_defaults=True):
    bootID: str = ""
    mark: str = ""


class _DomainLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A domain; without its document it is left out."""

    uuid: str
    name: str
    xml: str = ""
    active: bool = False
    autostart: bool = False
    saved: bool = False
    halted: bool = False
    crashed: bool = False


class _Entry(NamedTuple):
    """A domain to be packed: its line, and the one that only names it."""

    uuid: str
    definition: DomainDefinition
    line: bytes
    named: bytes


def pack(host: HostDefinitions, most: int = MOST_PACKED) -> Packed:
    """Compress them; the same definitions always give the same bytes.

    Raises:
        ValueError: there are more domains than anything reads.
    """
    if len(host.domains) > MOST_DOMAINS:
        raise ValueError(f"{len(host.domains)} domains: at most {MOST_DOMAINS} are stored")
    entries = sorted(
        (_entry(uuid, one) for uuid, one in host.domains.items()),
        key=lambda one: (not one.definition.is_to_run, len(one.line), one.uuid),
    )
    whole = [one for one in entries if len(one.line) <= MOST_LINE and one.definition.xml]
    head = msgspec.json.encode(_HostLine(host.bootID, host.mark))

    def packed(count: int) -> Packed:
        kept = {one.uuid for one in whole[:count]}
        lines = (one.line if one.uuid in kept else one.named for one in sorted(entries))
        data = gzip.compress(b"\n".join((head, *lines)), mtime=0)
        left_out = sorted(one.definition.name for one in entries if one.uuid not in kept)
        return Packed(data + bytes(-len(data) % _PAD), tuple(left_out))

    fits, too_many = 0, _within(whole, MOST_TEXT - sum(len(one.named) + 1 for one in entries)) + 1
    best = packed(0)
    probe = too_many - 1  # mostly all of them fit
    while fits + 1 < too_many:
        tried = packed(probe)
        if len(tried.data) <= most:
            fits, best = probe, tried
        else:
            too_many = probe
        probe = (fits + too_many) // 2
    return best


def unpack(data: bytes) -> HostDefinitions:
    """Read what `pack` has written.

    Raises:
        ValueError: it is nothing of the kind, or more than any host's.
    """
    lines = _lines(data)
    domains, left_out = dict[str, DomainDefinition](), dict[str, str]()
    try:
        head = msgspec.json.decode(next(lines, b""), type=_HostLine)
        for line in lines:
            one = msgspec.json.decode(line, type=_DomainLine)
            if one.uuid in domains or one.uuid in left_out:
                raise ValueError("the definitions have a domain twice")
            if len(domains) + len(left_out) == MOST_DOMAINS or len(one.name) > _MOST_NAME:
                raise ValueError("the definitions are longer than any host's")
            if one.xml:
                domains[one.uuid] = DomainDefinition(
                    one.name, one.xml, one.active, one.autostart, one.saved, one.halted, one.crashed
                )
            else:
                left_out[one.uuid] = one.name
    except zlib.error as exc:
        raise ValueError(f"the definitions are not gzip: {exc}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Its message may have a part of a definition.
        raise ValueError("the definitions are not of the expected form") from None
    return HostDefinitions(head.bootID, head.mark, domains, left_out)


def _entry(uuid: str, one: DomainDefinition) -> _Entry:
    name = one.name[:_MOST_NAME]
    line = _DomainLine(
        uuid, name, one.xml, one.active, one.autostart, one.saved, one.halted, one.crashed
    )
    named = _DomainLine(uuid, name)
    return _Entry(uuid, one, msgspec.json.encode(line), msgspec.json.encode(named))


def _within(entries: list[_Entry], most: int) -> int:
    """How many of them have so many bytes together."""
    for count, one in enumerate(entries):
        most -= len(one.line) - len(one.named)
        if most < 0:
            return count
    return len(entries)


def _lines(data: bytes) -> Iterator[bytes]:
    """Decompress line by line, within the bounds."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    rest, left, fed = b"", MOST_TEXT, data
    while True:
        chunk = reader.decompress(fed, _CHUNK)
        fed, left = reader.unconsumed_tail, left - len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        if left < 0 or any(len(one) > MOST_LINE for one in (*lines, rest)):
            raise ValueError("the definitions are longer than any host's")
        yield from lines
        if reader.eof:
            break
        if not chunk and not fed:
            raise ValueError("the definitions are cut off")
    if reader.unused_data.strip(b"\0"):
        raise ValueError("the definitions have something after their end")
    yield rest
