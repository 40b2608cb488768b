"""What may be done to a server, by its state. Pure.

Source: Nova, nova/compute/api.py, the states that `live_migrate`, `resize` (a cold migration is
one) and `confirm_resize` allow; openstack-hypervisor-operator, internal/controller/
eviction_controller.go, for ERROR and `deleting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.operator.eviction.states import Mode


@dataclass(frozen=True, slots=True)
class Movable:
    """It can be moved now."""

    mode: Mode


@dataclass(frozen=True, slots=True)
class OnItsWay:
    """It is moved already, whoever began it."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Not now: something else is being done to it, which ends by itself."""

    why: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Not in this state, and the state does not end by itself; `why` says what to do about it."""

    why: str


@dataclass(frozen=True, slots=True)
class Absent:
    """There is nothing of it on a host."""

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
    "REVERT_RESIZE": Busy("goes back to its old size"),
    ServerStatus.VERIFY_RESIZE: Busy("waits for its owner to confirm or revert a resize"),
    "SHELVED": Busy("is shelved; it leaves when it is offloaded"),
    ServerStatus.SHELVED_OFFLOADED: Absent("is shelved and on no host"),
    "DELETED": Absent("is deleted"),
    ServerStatus.SUSPENDED: Blocked("is suspended and cannot be moved: resume or stop it"),
    ServerStatus.RESCUE: Blocked("is in rescue mode: unrescue it"),
    "SOFT_DELETED": Blocked("is soft-deleted: restore it, or delete it for good"),
}


def movability(server: Server) -> Movability:
    """What may be done to a server that is on the host that is emptied."""
    if server.task_state in _MOVING_TASKS:
        return OnItsWay()
    if server.task_state in {"deleting", "soft-deleting"}:
        return Busy("is being deleted")
    if server.status == ServerStatus.ERROR:
        fault = server.fault or "the compute service gives no reason"
        return Blocked(f"is in ERROR ({fault}): reset its state, or delete it")
    found = _BY_STATUS.get(server.status)
    if found is None:
        return Blocked(f"has the unknown status {server.status!r}")
    if not isinstance(found, Movable):
        return found
    if server.task_state:
        return Busy(f"is busy: {server.task_state}")
    if server.hindrance:
        return Blocked(f"cannot be moved: {server.hindrance}")
    return found
