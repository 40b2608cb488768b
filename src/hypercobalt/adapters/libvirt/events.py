"""What libvirt reports as it happens, and its way to one reader, in bounded memory.

A reader first gets the present state of the connection, once there is one, then everything after
it, in order. A reader that falls too far behind gets `Lost` in place of what was dropped.

Source: libvirt-domain.h, virDomainEventID and the callback types.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from hypercobalt.adapters.libvirt.model import JobStats, Versions

_LIMIT: Final = 4096


class EventKind(StrEnum):
    """The domain events that we subscribe to, where the driver has them (virDomainEventID)."""

    LIFECYCLE = "lifecycle"
    REBOOT = "reboot"
    WATCHDOG = "watchdog"
    IO_ERROR = "io-error"  # VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON
    CONTROL_ERROR = "control-error"
    AGENT_LIFECYCLE = "agent-lifecycle"
    MIGRATION_ITERATION = "migration-iteration"
    JOB_COMPLETED = "job-completed"  # from QEMU's driver only of jobs that succeeded
    MEMORY_FAILURE = "memory-failure"
    DISK_CHANGE = "disk-change"
    BLOCK_THRESHOLD = "block-threshold"
    MIGRATION_STATUS = "migration-status"  # QEMU's own status; reports failed ends as well
    DEVICE_CHANGED = "device-changed"  # added, removed, tunable, balloon: the inventory may differ


@dataclass(frozen=True, slots=True)
class DomainEvent:
    """An event of a domain.

    Args:
        kind: the subscription that it came by.
        uuid: of the domain.
        name: of the domain.
        at: when this process received it, UTC.
        type: number of `Lifecycle`, `AgentState` or `MemoryRecipient`, by the kind; else 0.
        detail: of a lifecycle event the number of the enum that belongs to its type; else of
            `WatchdogAction`, `IoErrorAction`, `AgentReason`, `MemoryAction` or `DiskChange`, by the
            kind; the iteration's number.
        reason: text of an I/O error (`enospc` or ""); QEMU's status of a migration (`cancelling`,
            `failed`); else "".
        stats: of a completed job.
        domain_id: of the start that it is about, as in `Domain`; -1 once libvirt has taken the
            domain's process away, as in most events of a stop.
        path: on the host, of the disk of an I/O error, a disk change or a threshold; "" without.
        alias: of that disk's device (`virtio-disk0`), or its target (`vda`) for a threshold.
        flags: `MemoryFlag` of a memory failure.
    """

    kind: EventKind
    uuid: str
    name: str
    at: datetime
    type: int = 0
    detail: int = 0
    reason: str = ""
    stats: JobStats | None = None
    domain_id: int = -1
    path: str = ""
    alias: str = ""
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands and its subscriptions are made: list everything now.

    Args:
        versions: of this daemon.
        missing: what this driver does not offer, in words for a person; empty for QEMU.
    """

    versions: Versions
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disconnected:
    """There is no connection, and why; attempts go on by themselves."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Events came faster than they were read and some were dropped: list everything again."""


Event = DomainEvent | Connected | Disconnected | Lost


class EventQueue:
    """The way of events to their reader.

    Args:
        limit: how many may wait; about half a KiB each.
    """

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._state: Connected | Disconnected | None = None
        self._waiting: deque[Event] = deque()
        self._wake: asyncio.Event | None = None

    @property
    def state(self) -> Connected | Disconnected | None:
        """The latest state of the connection; None before the first attempt has ended."""
        return self._state

    def put(self, event: Event) -> None:
        """Hand an event over; without a reader only the connection's state is kept."""
        if isinstance(event, Connected | Disconnected):
            self._state = event
        if self._wake is None:
            return
        if len(self._waiting) >= self._limit:
            self._drop()
        if not (isinstance(event, Lost) and event in self._waiting):
            self._waiting.append(event)
        self._wake.set()

    async def read(self) -> AsyncGenerator[Event]:
        """Yield the state of the connection, then what follows, without end.

        Raises:
            RuntimeError: there is a reader already.
        """
        if self._wake is not None:
            raise RuntimeError("libvirt's events have a reader already")
        self._wake = wake = asyncio.Event()
        self._waiting.extend(self._known_state())
        try:
            while True:
                while self._waiting:
                    yield self._waiting.popleft()
                wake.clear()
                await wake.wait()
        finally:
            self._wake = None
            self._waiting.clear()

    def _drop(self) -> None:
        """Forget the events; a change of the connection among them is kept as its last state."""
        changed = any(isinstance(one, Connected | Disconnected) for one in self._waiting)
        self._waiting.clear()
        if changed:
            self._waiting.extend(self._known_state())
        self._waiting.append(Lost())

    def _known_state(self) -> tuple[Event, ...]:
        return () if self._state is None else (self._state,)
