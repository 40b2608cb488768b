"""Finds what keeps a domain on its host, and the disks that must be copied. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from hypercobalt.adapters.libvirt.model import Disk, Domain

IsShared = Callable[[Disk], bool]
"""Whether other hosts see a disk's file at the same path."""


def local_disks(domain: Domain, is_shared: IsShared) -> tuple[Disk, ...]:
    """Return the disks that lie on the host itself."""
    return tuple(disk for disk in domain.devices.disks if disk.path and not is_shared(disk))


def layers(domain: Domain) -> tuple[Disk, ...]:
    """Return the images under the domain's disks, each as a disk.

    Not as a medium: another host may have another image of that name, while the guest's own disk
    has only the changes to this one.
    """
    return tuple(
        Disk(disk.target, path=path) for disk in domain.devices.disks for path in disk.backing
    )


def hindrance(domain: Domain, is_shared: IsShared) -> str:
    """Return the first reason why the domain cannot be moved; "" when none is known."""
    local = local_disks(domain, is_shared)
    if tied := _tied(domain):
        return tied
    for disk in local:
        if disk.device in {"cdrom", "floppy"}:
            return f"the medium in its {disk.device} {disk.target} lies on the host: {disk.path}"
        if disk.readonly:
            return f"its read-only disk {disk.target} lies on the host: {disk.path}"
        if disk.block:
            return f"its disk {disk.target} is a device of the host: {disk.path}"
    for layer in layers(domain):
        if not is_shared(layer):
            return f"its disk {layer.target} is built upon an image on the host: {layer.path}"
    return "" if domain.active else _when_off(domain, local, is_shared)


def waits_for_host(
    domain: Domain,
    is_shared: IsShared,
    *,
    autostart: bool = False,
    one_word: str = "",
    not_carried: str = "",
) -> str:
    """Return why it cannot start elsewhere when its host is dead; "" when nothing prevents that.

    Args:
        domain: as it was on the host.
        is_shared: whether another host sees a disk that the domain had there.
        autostart: the domain starts with the host.
        one_word: the only source that proves the host dead, so that the domain may run on; "" for
            none.
        not_carried: why no other host is given its definition; "" when one may be.
    """
    if one_word and not has_lock(domain):
        return f"it writes to no disk, whose lock would stop a second copy, and {one_word}"
    if autostart:
        return (
            "it starts with its host, before any component can check whether it runs elsewhere: "
            f"virsh autostart --disable {shlex.quote(domain.name)}, and disable libvirt-guests"
        )
    if tied := _tied(domain):
        return tied
    if domain.saved:
        return "its memory is saved in a file on the host"
    if not_carried:
        return not_carried
    below = (layer for layer in layers(domain) if not is_shared(layer))
    if local := (*local_disks(domain, is_shared), *below):
        disks = ", ".join(f"{disk.target} ({disk.path})" for disk in local)
        return f"no other host is known to share its disks: {disks}"
    nvram = domain.devices.nvram
    if nvram and not is_shared(Disk(target="nvram", path=nvram)):
        return f"no other host is known to share its firmware's variables: {nvram}"
    return ""


def has_lock(domain: Domain) -> bool:
    """Whether a domain writes to a disk, whose lock stops a second copy of the domain."""
    return any(map(_is_written, domain.devices.disks))


def _is_written(disk: Disk) -> bool:
    """Whether a guest writes to the disk; a disk on the network, such as RBD, has no path."""
    return disk.device not in {"cdrom", "floppy"} and not disk.readonly


def _tied(domain: Domain) -> str:
    """Return why the domain cannot leave in any state; "" when no reason is known."""
    if domain.problem:
        return f"its definition cannot be read: {domain.problem}"
    if domain.devices.bound:
        return f"it is tied to its host by: {', '.join(domain.devices.bound)}"
    return ""


def _when_off(domain: Domain, local: tuple[Disk, ...], is_shared: IsShared) -> str:
    if domain.saved:
        return "it is off with its memory saved in a file on the host: start it, or discard that"
    if local:
        disks = ", ".join(f"{disk.target} ({disk.path})" for disk in local)
        return f"it is off and has disks on the host itself: {disks}; start it, then it can move"
    nvram = domain.devices.nvram
    if nvram and not is_shared(Disk(target="nvram", path=nvram)):
        return f"it is off and its firmware's variables lie on the host itself: {nvram}"
    return ""
