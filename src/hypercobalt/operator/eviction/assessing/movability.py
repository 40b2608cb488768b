"""Decides which actions a server's state allows. Pure.

Source: Nova, nova/compute/api.py, the states that `live_migrate`, `resize` (a cold migration is
one) and `confirm_resize` allow; openstack-hypervisor-operator, internal/controller/
eviction_controller.go, for ERROR and `deleting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.operator.eviction.model.states import Mode


@dataclass(frozen=True, slots=True)
class Movable:
    """The instance can be moved now."""

    mode: Mode


@dataclass(frozen=True, slots=True)
class Restartable:
    """The instance can be restarted where it is."""


@dataclass(frozen=True, slots=True)
class OnItsWay:
    """The instance is already moving, on any client's request."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Not now: something else is being done to it, which ends by itself."""

    why: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Not in this state, and the state does not end by itself; `why` has what to do about it."""

    why: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The host has no such server."""

    why: str


Movability = Movable | OnItsWay | Busy | Blocked | Absent

_MOVING_TASKS: Final = frozenset(
    {"migrating", "resize_prep", "resize_migrating", "resize_migrated", "resize_finish"}
)

_BY_STATUS: Final[dict[str, Movability]] = {
    ServerStatus.ACTIVE: Movable(Mode.LIVE),
    ServerStatus.PAUSED: Movable(Mode.LIVE),
    ServerStatus.SHUTOFF: Movable(Mode.COLD),
    ServerStatus.MIGRATING: OnItsWay(),
    ServerStatus.RESIZE: OnItsWay(),
    ServerStatus.BUILD: Busy("is being built"),
    ServerStatus.REBOOT: Busy("is being rebooted"),
    "HARD_REBOOT": Busy("is being rebooted"),
    "REBUILD": Busy("is being rebuilt"),
    "PASSWORD": Busy("gets a new password"),
    "REVERT_RESIZE": Busy("is being reverted to its old size"),
    ServerStatus.VERIFY_RESIZE: Busy("waits for its owner to confirm or revert a resize"),
    "SHELVED": Busy("is shelved; it leaves when it is offloaded"),
    ServerStatus.SHELVED_OFFLOADED: Absent("is shelved and on no host"),
    "DELETED": Absent("is deleted"),
    ServerStatus.SUSPENDED: Blocked("is suspended and cannot be moved: resume or stop it"),
    ServerStatus.RESCUE: Blocked("is in rescue mode: unrescue it"),
    "SOFT_DELETED": Blocked("is soft-deleted: restore it, or delete it for good"),
}


def movability(server: Server) -> Movability:
    """Return the action that a server's state allows on the host that is emptied."""
    if server.task_state in _MOVING_TASKS:
        return OnItsWay()
    if server.task_state in {"deleting", "soft-deleting"}:
        return Busy("is being deleted")
    if server.status == ServerStatus.ERROR:
        fault = server.fault or "the compute service gives no reason"
        return Blocked(f"is in ERROR ({fault}): reset its state, or delete it")
    movability = _by_status(server)
    if not isinstance(movability, Movable):
        return movability
    if server.task_state:
        return Busy(f"is busy: {server.task_state}")
    if server.hindrance:
        return Blocked(f"cannot be moved: {server.hindrance}")
    return movability


_RESTARTED: Final = frozenset(
    {ServerStatus.ACTIVE, ServerStatus.SHUTOFF, ServerStatus.PAUSED, ServerStatus.ERROR}
)


def restartability(server: Server) -> Restartable | Busy | Blocked | Absent:
    """Return the action that a server's state allows for a restart on its host.

    Source: nova/compute/api.py, `start`, and `reboot` with `HARD`, which ERROR allows.
    """
    if server.task_state:
        return Busy(f"is busy: {server.task_state}")
    if server.status in _RESTARTED:
        return Restartable()
    movability = _by_status(server)
    if isinstance(movability, Movable | OnItsWay):
        return Busy(f"is {server.status}")
    if isinstance(movability, Blocked):
        return Blocked(f"is {server.status} and cannot be restarted: check it")
    return movability


REBUILDING: Final = frozenset(
    {"rebuilding", "rebuild_block_device_mapping", "rebuild_spawning", "rebuilding_error"}
)
_STOPPED_IN: Final = frozenset(
    {
        ServerStatus.ACTIVE,
        ServerStatus.ERROR,
        ServerStatus.MIGRATING,
        ServerStatus.PAUSED,
        ServerStatus.REBOOT,
        ServerStatus.SHUTOFF,
        "HARD_REBOOT",
        "PASSWORD",
        "REBUILD",
        ServerStatus.RESIZE,
    }
)
"""States in which the host's death ends any operation on the server."""


def evacuability(server: Server) -> Movability:
    """Return the action that a server's state allows while its host is proven dead.

    Source: nova/compute/api.py, `evacuate`: vm_state active, stopped or error; Nova 2023.1 and
    later look at no task.
    """
    if server.task_state in REBUILDING:
        return OnItsWay()
    if server.task_state in {"deleting", "soft-deleting"}:
        return Busy("is being deleted")
    if server.waits_for_host:
        what_to_do = f"start {server.host or 'the host'} again"
        return Blocked(f"waits for its host: {server.waits_for_host}; {what_to_do}")
    if server.status in _STOPPED_IN:
        return Movable(Mode.EVACUATE)
    movability = _by_status(server)
    if isinstance(movability, Absent):
        return movability
    return Blocked(
        f"was {server.status} when its host died: bring the host back, or reset its state"
    )


def _by_status(server: Server) -> Movability:
    return _BY_STATUS.get(server.status) or Blocked(f"has the unknown status {server.status!r}")
