"""Servers as Nova shows them to an administrator. Pure.

Source: OpenStack Compute API reference, "Show Server Details", microversion 2.98; Nova,
compute/api.py and conductor/tasks/live_migrate.py for what cannot be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hypercobalt.compute.model import Server, ServerGroup, Size
from hypercobalt.compute.nova import recovering
from hypercobalt.compute.nova.claims import claim
from hypercobalt.compute.nova.pages import Link

RUNNING: Final = 1
"""Value of `power_state` for a running server."""
PAUSED: Final = 3
"""Value of `power_state` for a paused server."""
_MIB = 1024
_YES: Final = frozenset({"true", "1", "yes", "on", "t", "y"})
_MOVABLE_SECRETS: Final = frozenset({"host", "deployment"})
"""Kinds of a virtual TPM's secret that allow moves; others only the owner may read."""


class Flavor(msgspec.Struct, frozen=True):
    """Flavor embedded in a server: memory in MiB, disk and ephemeral in GiB, swap in MiB."""

    vcpus: int = 0
    ram: int = 0
    disk: int = 0
    ephemeral: int = 0
    swap: int = 0
    extra_specs: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class ServerFault(msgspec.Struct, frozen=True):
    """Why a server is in ERROR."""

    message: str = ""


class NovaServer(msgspec.Struct, frozen=True):
    """Fields that are read of a server."""

    id: str
    status: str
    name: str | None = ""
    host: str | None = msgspec.field(default=None, name="OS-EXT-SRV-ATTR:host")
    vm_state: str = msgspec.field(default="active", name="OS-EXT-STS:vm_state")
    task_state: str | None = msgspec.field(default=None, name="OS-EXT-STS:task_state")
    power_state: int | None = msgspec.field(default=None, name="OS-EXT-STS:power_state")
    locked: bool = False
    locked_reason: str | None = None
    fault: ServerFault | None = None
    flavor: Flavor = Flavor()
    image: msgspec.Raw = msgspec.Raw(b'""')
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class NovaServers(msgspec.Struct, frozen=True):
    """A page of servers."""

    servers: tuple[NovaServer, ...]
    links: tuple[Link, ...] = msgspec.field(default=(), name="servers_links")


class OneServer(msgspec.Struct, frozen=True):
    """One server."""

    server: NovaServer


class _Image(msgspec.Struct, frozen=True):
    """`properties` come with microversion 2.98."""

    id: str = ""
    properties: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict[str, msgspec.Raw])


ToServer = Callable[[NovaServer, Mapping[str, ServerGroup]], Server]
"""`to_server`, by the choices of a site."""


def to_server(
    found: NovaServer,
    groups: Mapping[str, ServerGroup],
    *,
    local_disks: bool = False,
    devices: bool = True,
) -> Server:
    """Return a server in the form of the port.

    Args:
        found: as Nova shows it.
        groups: of servers, by the UUID of each member.
        local_disks: servers with disks on their host may be evacuated.
        devices: see `hindrance`.
    """
    image, flavor = _image(found.image), found.flavor
    from_image = image is not None  # a server that booted from a volume has none
    local_disk = from_image or bool(flavor.ephemeral or flavor.swap)
    specs, properties = flavor.extra_specs, _words(image.properties) if image else {}
    disk = (flavor.disk if from_image else 0) + flavor.ephemeral + -(-flavor.swap // _MIB)
    return Server(
        id=found.id,
        name=found.name or "",
        host=found.host or "",
        status=found.status,
        task_state=found.task_state or "",
        running=found.power_state == RUNNING,
        paused=found.power_state == PAUSED,
        size=Size(flavor.vcpus, flavor.ram, disk),
        local_disk=local_disk,
        locked=found.locked,
        locked_reason=found.locked_reason or "",
        fault=found.fault.message if found.fault else "",
        hindrance=hindrance(
            specs,
            properties,
            live=found.power_state in {RUNNING, PAUSED},
            devices=devices,
        ),
        group=groups.get(found.id),
        metadata=found.metadata,
        priority=recovering.priority(found.metadata, specs, properties),
        recovers=recovering.recovers(found.metadata, specs, properties),
        waits_for_host=recovering.waits_for_host(
            found.vm_state, specs, properties, local_disk=local_disk and not local_disks
        ),
        claim=claim(flavor.vcpus, flavor.ram, disk, specs),
    )


def hindrance(
    specs: Mapping[str, str], image: Mapping[str, str], *, live: bool, devices: bool = True
) -> str:
    """Return why a server cannot be moved, as far as its flavor and image show; "" otherwise.

    A stopped server leaves its devices behind and gets others, but for a virtual TPM.

    Args:
        specs: extra specs of the flavor.
        image: properties of the image.
        live: the server runs or is paused, so that it has to be moved live.
        devices: a live move with a device of the host is tried. Nova moves virtual GPUs since
            2024.1, and PCI devices with a live-migratable alias since 2025.1; only its answer shows
            whether it can, and where it cannot, the server stays as it is.
    """
    tpm = specs.get("hw:tpm_version") or image.get("hw_tpm_version")
    if tpm and specs.get("hw:tpm_secret_security", "user") not in _MOVABLE_SECRETS:
        return f"it has a virtual TPM {tpm}, whose secret only its owner may read"
    if not live:
        return ""
    if not devices and (device := _device(specs)):
        return device
    encrypted = specs.get("hw:mem_encryption") or image.get("hw_mem_encryption", "")
    if encrypted.lower() in _YES:
        return "its memory is encrypted by a key of its host"
    return f"it has persistent memory of its host: {pmem}" if (pmem := specs.get("hw:pmem")) else ""


def _device(specs: Mapping[str, str]) -> str:
    """Return the device of its host that a server has, by its flavor; "" for none."""
    if alias := specs.get("pci_passthrough:alias"):
        return f"it has a device of its host: pci_passthrough:alias={alias}"
    for spec in specs:
        if spec.startswith("resources") and spec.endswith(":VGPU"):
            return f"it has a virtual GPU of its host: {spec}={specs[spec]}"
    return ""


def _image(raw: msgspec.Raw) -> _Image | None:
    """Return a server's image; Nova shows "" for a server that booted from a volume."""
    try:
        return msgspec.json.decode(raw, type=_Image)
    except msgspec.ValidationError:
        return None


def _words(properties: Mapping[str, msgspec.Raw]) -> dict[str, str]:
    """Return properties as text: Nova shows some as numbers, lists or truth values."""
    return {key: bytes(raw).decode().strip('"') for key, raw in properties.items()}
