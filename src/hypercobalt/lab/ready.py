"""Events between the steps of a lab's `up`: each step sets its own when it is done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ready:
    """What the hosts wait for."""

    shared: asyncio.Event = field(default_factory=asyncio.Event)
    api: asyncio.Event = field(default_factory=asyncio.Event)
    ovn: asyncio.Event = field(default_factory=asyncio.Event)
    rack: asyncio.Event = field(default_factory=asyncio.Event)
    operator: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def now(cls) -> Ready:
        """Everything is there already."""
        ready = cls()
        for event in (ready.shared, ready.api, ready.ovn, ready.rack, ready.operator):
            event.set()
        return ready
