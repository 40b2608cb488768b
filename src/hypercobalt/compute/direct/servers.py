"""A domain as a server of the compute port. Pure."""

from __future__ import annotations

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct.obstacles import IsShared, hindrance, local_disks, waits_for_host
from hypercobalt.compute.model import Server, ServerStatus, Size

_MIB = 1024 * 1024
_STATUS = {
    DomainState.PAUSED: ServerStatus.PAUSED,
    DomainState.SHUTOFF: ServerStatus.SHUTOFF,
    DomainState.CRASHED: ServerStatus.ERROR,
    DomainState.PMSUSPENDED: ServerStatus.SUSPENDED,
}
_DIED = frozenset({ShutoffReason.UNKNOWN, ShutoffReason.CRASHED, ShutoffReason.FAILED})
"""Reasons of a domain that has died; after a boot of its host libvirt reports no reason."""


def size(domain: Domain) -> Size:
    """Return what the domain takes of its host."""
    return Size(domain.vcpus, -(-domain.memory_bytes // _MIB))


def called(server: Server) -> str:
    """Return the server's name and id, for messages."""
    return f"server {server.name} ({server.id})"


def server(
    domain: Domain,
    host: str,
    is_shared: IsShared,
    *,
    autostart: bool = False,
    one_word: str = "",
    not_carried: str = "",
) -> Server:
    """Return the server that a domain on a host is.

    Args:
        domain: as the host has it, or had it.
        host: its name.
        is_shared: whether other hosts see a disk.
        autostart: the domain is known to start with its host.
        one_word: the only source that proves its host dead; "" where there is more proof.
        not_carried: see `waits_for_host`.
    """
    return Server(
        id=domain.uuid,
        name=domain.name,
        host=host,
        status=_status(domain),
        task_state="migrating" if domain.moving_out else "",
        running=domain.active and domain.state in {DomainState.RUNNING, DomainState.BLOCKED},
        paused=domain.active and domain.state is DomainState.PAUSED,
        died=not domain.active and not domain.saved and domain.reason in _DIED,
        size=size(domain),
        local_disk=bool(local_disks(domain, is_shared)),
        fault="its emulator has crashed" if domain.state is DomainState.CRASHED else "",
        hindrance=hindrance(domain, is_shared),
        waits_for_host=waits_for_host(
            domain, is_shared, autostart=autostart, one_word=one_word, not_carried=not_carried
        ),
    )


def _status(domain: Domain) -> ServerStatus:
    if domain.moving_out:
        return ServerStatus.MIGRATING
    if domain.saved:
        return ServerStatus.SHUTOFF
    return _STATUS.get(domain.state, ServerStatus.ACTIVE)
