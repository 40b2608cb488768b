"""A domain as a server of the compute port. Pure."""

from __future__ import annotations

from hypercobalt.adapters.libvirt.model import DomainState
from hypercobalt.adapters.libvirt.remote.model import Guest
from hypercobalt.compute.direct.obstacles import IsShared, hindrance, local_disks
from hypercobalt.compute.model import Server, ServerStatus, Size

_MIB = 1024 * 1024
_STATUS = {
    DomainState.PAUSED: ServerStatus.PAUSED,
    DomainState.SHUTOFF: ServerStatus.SHUTOFF,
    DomainState.CRASHED: ServerStatus.ERROR,
    DomainState.PMSUSPENDED: ServerStatus.SUSPENDED,
}


def size(guest: Guest) -> Size:
    """What it takes of its host."""
    return Size(guest.makeup.vcpus, -(-guest.makeup.memory_bytes // _MIB))


def server(guest: Guest, host: str, is_shared: IsShared) -> Server:
    """The server that a domain on a host is."""
    return Server(
        id=guest.uuid,
        name=guest.name,
        host=host,
        status=_status(guest),
        task_state="migrating" if guest.job else "",
        running=guest.active and guest.state in {DomainState.RUNNING, DomainState.BLOCKED},
        paused=guest.active and guest.state is DomainState.PAUSED,
        size=size(guest),
        local_disk=bool(local_disks(guest, is_shared)),
        fault="its emulator has crashed" if guest.state is DomainState.CRASHED else "",
        hindrance=hindrance(guest, is_shared),
    )


def _status(guest: Guest) -> ServerStatus:
    if guest.job:
        return ServerStatus.MIGRATING
    if guest.saved:
        return ServerStatus.SHUTOFF
    return _STATUS.get(guest.state, ServerStatus.ACTIVE)
