"""Where each concern of the agent puts its latest part of the Hypervisor's status.

The board holds observations, not the API object: the applier makes one apply out of them. A part
that nobody has put yet is unknown, and then what the API has is kept; so an agent that starts while
libvirt is down leaves the last inventory as it is. No I/O here, no waiting but for a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    HostCapabilities,
    Versions,
)
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor_status import HyperVisorUpdateStatus, OperatingSystemStatus
from hypercobalt.runtime import Clock


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a concern says of one condition type.

    Args:
        reason: CamelCase, never empty.
        since: when the status became this one, UTC; the board fills it in.
    """

    status: ConditionStatus
    reason: str
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """What libvirt said last, whole: the four answers belong together.

    Args:
        missing: what the driver does not offer, in words for a person.
    """

    versions: Versions
    host: HostCapabilities
    offers: DomainCapabilities
    domains: tuple[Domain, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything on the board at one moment.

    Args:
        inventory: the last one; kept while libvirt is away. None: never read by this process.
        operating_system: None: not known yet.
        update: None: not known yet.
        conditions: by type; None for a type that the object shall not have (any more).
    """

    inventory: Inventory | None = None
    operating_system: OperatingSystemStatus | None = None
    update: HyperVisorUpdateStatus | None = None
    conditions: Mapping[str, Verdict | None] = field(default_factory=dict[str, Verdict | None])


class Board:
    """The latest of everything; single-threaded, on the event loop.

    Attributes:
        parts: what is on it now; a new object after every change, so `is` tells.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.parts = Parts()
        self._changed = asyncio.Event()

    def put_inventory(self, inventory: Inventory) -> None:
        self._put(replace(self.parts, inventory=inventory))

    def put_operating_system(self, status: OperatingSystemStatus) -> None:
        self._put(replace(self.parts, operating_system=status))

    def put_update(self, status: HyperVisorUpdateStatus) -> None:
        self._put(replace(self.parts, update=status))

    def put_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Say how a condition is now; saying the same again changes nothing.

        Args:
            type_: of the condition, such as `libvirtd.service`.
            status: True, False or Unknown.
            reason: CamelCase, 1 to 1024 characters.
            message: for a person; hostile text is fine, it is cut and cleaned when written.
        """
        old = self.parts.conditions.get(type_)
        since = old.since if old and old.status == status else self._clock.now()
        verdict = Verdict(status, reason, message, since)
        if verdict != old:
            self._put(replace(self.parts, conditions={**self.parts.conditions, type_: verdict}))

    def drop_condition(self, type_: str) -> None:
        """Say that the object shall not have this condition."""
        conditions = self.parts.conditions
        if type_ not in conditions or conditions[type_] is not None:
            self._put(replace(self.parts, conditions={**conditions, type_: None}))

    async def changed(self, since: Parts) -> Parts:
        """Wait until the board differs from `since`; gives what is on it then."""
        while self.parts is since:
            await self._changed.wait()
        return self.parts

    def _put(self, parts: Parts) -> None:
        if parts == self.parts:
            return
        self.parts = parts
        # Whoever waits holds the old event: it is set once and for good, the next one is new.
        self._changed.set()
        self._changed = asyncio.Event()
