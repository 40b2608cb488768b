"""What may be done to a server, by its state. Pure.

Source: Nova, nova/compute/api.py, the states that `live_migrate`, `resize` (a cold migration is
one) and `confirm_resize` allow; openstack-hypervisor-operator, internal/controller/
eviction_controller.go, for ERROR and `deleting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hypercobalt.compute.model import Server, ServerStatus


class Way(Enum):
    """What may be done to a server that is on the host."""

    LIVE = auto()
    COLD = auto()
    MOVING = auto()
    """It is on its way already, whoever began it."""
    WAIT = auto()
    """Not now: something else is being done to it, which ends by itself."""
    BLOCKED = auto()
    """Not in this state, and the state does not end by itself."""
    ABSENT = auto()
    """There is nothing of it on a host."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A way, and why.

    Args:
        way: what may be done.
        why: for people, with what to do about it; "" where there is nothing to say.
    """

    way: Way
    why: str = ""


_MOVING_TASKS: Final = frozenset(
    {"migrating", "resize_prep", "resize_migrating", "resize_migrated", "resize_finish"}
)

_BY_STATUS: Final = {
    ServerStatus.ACTIVE: Verdict(Way.LIVE),
    ServerStatus.PAUSED: Verdict(Way.LIVE),
    ServerStatus.SHUTOFF: Verdict(Way.COLD),
    ServerStatus.MIGRATING: Verdict(Way.MOVING),
    ServerStatus.RESIZE: Verdict(Way.MOVING),
    ServerStatus.BUILD: Verdict(Way.WAIT, "is being built"),
    ServerStatus.REBOOT: Verdict(Way.WAIT, "is being rebooted"),
    "HARD_REBOOT": Verdict(Way.WAIT, "is being rebooted"),
    "REBUILD": Verdict(Way.WAIT, "is being rebuilt"),
    "PASSWORD": Verdict(Way.WAIT, "gets a new password"),
    "REVERT_RESIZE": Verdict(Way.WAIT, "goes back to its old size"),
    ServerStatus.VERIFY_RESIZE: Verdict(
        Way.WAIT, "waits for its owner to confirm or revert a resize"
    ),
    "SHELVED": Verdict(Way.WAIT, "is shelved; it leaves when it is offloaded"),
    ServerStatus.SHELVED_OFFLOADED: Verdict(Way.ABSENT, "is shelved and on no host"),
    "DELETED": Verdict(Way.ABSENT, "is deleted"),
    ServerStatus.SUSPENDED: Verdict(
        Way.BLOCKED, "is suspended, which no compute service moves: resume it, or stop it"
    ),
    ServerStatus.RESCUE: Verdict(Way.BLOCKED, "is in rescue mode: unrescue it"),
    "SOFT_DELETED": Verdict(Way.BLOCKED, "is soft-deleted: restore it, or delete it for good"),
}


def verdict(server: Server) -> Verdict:
    """What may be done to a server that is on the host that is emptied."""
    if server.task_state in _MOVING_TASKS:
        return Verdict(Way.MOVING)
    if server.task_state in {"deleting", "soft-deleting"}:
        return Verdict(Way.WAIT, "is being deleted")
    found = _BY_STATUS.get(server.status)
    if server.status == ServerStatus.ERROR:
        fault = server.fault or "the compute service does not say why"
        found = Verdict(Way.BLOCKED, f"is in ERROR ({fault}): reset its state, or delete it")
    if found is None:
        found = Verdict(Way.BLOCKED, f"has status {server.status!r}, which is not known here")
    if found.way not in {Way.LIVE, Way.COLD}:
        return found
    if server.task_state:
        return Verdict(Way.WAIT, f"is busy: {server.task_state}")
    if server.hindrance:
        return Verdict(Way.BLOCKED, f"cannot be moved: {server.hindrance}")
    return found
