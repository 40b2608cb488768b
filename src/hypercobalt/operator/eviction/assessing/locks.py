"""Decides which servers are locked while they are evacuated, and which no longer. Pure.

The lock's reason names its purpose, so that any process of the operator recognizes it. A
server that is locked for another reason is its owner's, or an administrator's, and left to them.

Source: OpenStack Compute API reference, "Lock Server", microversion 2.73.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.eviction import Eviction, EvictionMode, InstancePhase, has_ended
from hypercobalt.compute.model import Server

PREFIX: Final = "hypercobalt recovers this server, whose host has failed"
"""Beginning of every such reason. Owners see it, so it names no host."""

_REASON: Final = re.compile(rf"{PREFIX} \(eviction ([^ ,()]+), hypervisor ([^ ,()]+)\)")
_OVER: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.FAILED, InstancePhase.SKIPPED})


@dataclass(frozen=True, slots=True)
class Lock:
    """Purpose of a server's lock.

    Args:
        eviction: its uid.
        hypervisor: uid of the dead host's Hypervisor: other operators unlock for their own.
    """

    eviction: str
    hypervisor: str

    @property
    def reason(self) -> str:
        """Return the reason as Nova shows it."""
        return f"{PREFIX} (eviction {self.eviction}, hypervisor {self.hypervisor})"


def lock_of(reason: str) -> Lock | None:
    """Return the lock that has this reason; None for a lock of another owner."""
    parts = _REASON.fullmatch(reason)
    return Lock(parts[1], parts[2]) if parts else None


def is_to_be_locked(server: Server, lock: Lock) -> bool:
    """Whether to lock a server before its evacuation: not if another client has locked it."""
    if not server.locked:
        return True
    present = lock_of(server.locked_reason)
    return present is not None and present != lock


def outlived(
    locked: Iterable[Server], evictions: Iterable[Eviction], hypervisors: Collection[str]
) -> tuple[Server, ...]:
    """Return servers that are locked though their recovery is over, however it ended.

    Args:
        locked: servers that are locked, for whatever reason.
        evictions: all Evictions.
        hypervisors: uids of the Hypervisors that this operator manages.
    """
    running = {eviction.metadata.uid: eviction for eviction in evictions if is_running(eviction)}

    def is_over(server: Server) -> bool:
        lock = lock_of(server.locked_reason)
        if not server.locked or lock is None or lock.hypervisor not in hypervisors:
            return False
        eviction = running.get(lock.eviction)
        return eviction is None or server.id in recovered(eviction)

    return tuple(server for server in locked if is_over(server))


def is_running(eviction: Eviction) -> bool:
    """Whether the Eviction may still begin an action."""
    return eviction.metadata.deletionTimestamp is None and not has_ended(eviction.status)


def recovered(eviction: Eviction) -> frozenset[str]:
    """Return UUIDs of instances that the Eviction is done with, whatever the result."""
    return frozenset(entry.id for entry in eviction.status.instances if entry.phase in _OVER)


def has_recoveries(eviction: Eviction) -> bool:
    """Whether the Eviction has evacuated an instance."""
    return any(entry.mode == EvictionMode.EVACUATE for entry in eviction.status.instances)
