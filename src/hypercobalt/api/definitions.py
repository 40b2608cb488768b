"""The definitions of a host's domains, kept where they outlive the host: one Secret for each host.

Without OpenStack a host's libvirtd is the only record of what is on it. Its node agent writes the
definitions into the Secret whenever one of them changes, a domain starts or stops; the operator
reads it when the host is fenced, to start elsewhere what ran there. A definition has the passwords
of consoles and disks, so it is a Secret and not part of a status.

`mark` distinguishes shared disks from local ones when one of two hosts is dead: the agent leaves a
file of that name in each directory with disks of its domains, and another host that sees it there
has the same directory.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final, NamedTuple

import msgspec

from hypercobalt.api.core import Secret
from hypercobalt.api.meta import ObjectMeta

HOST_LABEL: Final = "kvm.cloud.sap/hypervisor"
"""Of the Secret: the name of the Hypervisor."""

MOST_BYTES: Final = 900 * 1024
"""A Secret holds 1 MiB at most (MaxSecretSize in k8s.io/api, core/v1/types.go)."""

_KEY: Final = "domains.json.gz"
_MOST_READ: Final = 64 * 1024**2  # a host of a thousand domains has about 10 MiB


class DomainDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A domain as it is on its host.

    Args:
        name: libvirt's.
        xml: the inactive document, with its passwords; never to be logged.
        active: a process of it exists, so it is to run again.
        autostart: it starts with its host, by libvirt or by libvirt-guests.
        saved: its memory lies in a file on the host, to be loaded at its next start.
    """

    name: str
    xml: str
    active: bool = False
    autostart: bool = False
    saved: bool = False

    def __repr__(self) -> str:
        return f"DomainDefinition({self.name}, active={self.active})"


class HostDefinitions(msgspec.Struct, frozen=True, omit_defaults=True):
    """All persistent domains of a host, and those of its running ones that are not persistent.

    Args:
        bootID: of the host when they were read.
        mark: name of the file that the host has left in the directories of their disks.
        domains: by UUID.
        left_out: names of those that the Secret has no room for, by UUID.
    """

    bootID: str = ""
    mark: str = ""
    domains: dict[str, DomainDefinition] = {}
    left_out: dict[str, str] = {}


class Packed(NamedTuple):
    """Definitions that fit into a Secret, and those that do not.

    Args:
        data: for the Secret.
        left_out: names of the domains that do not fit: idle ones before running ones, the largest
            first.
    """

    data: bytes
    left_out: tuple[str, ...]


def secret_name(host: str) -> str:
    """The name of a host's Secret, in the namespace of its agent."""
    return f"domains.{host}"


def secret(host: str, namespace: str, packed: Packed) -> Secret:
    """The Secret to write."""
    metadata = ObjectMeta(name=secret_name(host), namespace=namespace, labels={HOST_LABEL: host})
    return Secret(metadata=metadata, data={_KEY: packed.data}, type="Opaque")


def definitions(found: Secret) -> HostDefinitions:
    """Read the definitions in a Secret.

    Raises:
        ValueError: it cannot be read; the message names the Secret and nothing of its content.
    """
    name = f"Secret {found.metadata.namespace}/{found.metadata.name}"
    if _KEY not in found.data:
        raise ValueError(f"{name} has no {_KEY}")
    try:
        return unpack(found.data[_KEY])
    except ValueError as exc:
        raise ValueError(f"{name}: {exc}") from None


def pack(host: HostDefinitions, most: int = MOST_BYTES) -> Packed:
    """Compress them; the same definitions always give the same bytes."""
    everything = sorted(
        host.domains.items(), key=lambda one: (not one[1].active, len(one[1].xml), one[0])
    )

    def packed(count: int) -> Packed:
        kept = dict(sorted(everything[:count]))
        left_out = {uuid: one.name for uuid, one in sorted(everything[count:])}
        document = msgspec.structs.replace(host, domains=kept, left_out=left_out)
        data = gzip.compress(msgspec.json.encode(document), mtime=0)
        return Packed(data, tuple(sorted(left_out.values())))

    fits, too_many = 0, len(everything) + 1
    best = packed(0)
    probe = len(everything)  # mostly all of them fit
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
        ValueError: it is nothing of the kind.
    """
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = reader.decompress(data, _MOST_READ)
        if not reader.eof:
            raise ValueError("the definitions are cut off, or longer than any host's")
        return msgspec.json.decode(text, type=HostDefinitions)
    except zlib.error as exc:
        raise ValueError(f"the definitions are not gzip: {exc}") from None
    except msgspec.MsgspecError:  # its message may have a part of a definition
        raise ValueError("the definitions are not of the expected form") from None
