"""Turns of the Evictions that node agents make: one host's do not delay those of others.

An agent makes any number of Evictions of its own host, and what answers for a host, its libvirtd
with `--compute direct`, takes as long for each call as it likes. So a host has a few passes at once
and a bounded number of Evictions that are worked off; the rest wait, and cost nothing meanwhile.
Each pass looks at all Evictions, so of one host there are no more than its agent makes in earnest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.eviction import Eviction, Trigger, has_ended

AT_ONCE: Final = 4
"""Passes at once for a host, of the 16 of the controller."""
MOST: Final = 64
"""Evictions of a host that are worked off at the same time."""
MOST_WAITING: Final = 1024
"""Evictions of a host that wait: as many as it has instances in its status."""
MOST_ENDED: Final = 256
"""Evictions of a host that have ended; its agent keeps 64."""
AGAIN: Final = timedelta(minutes=5)
"""When one that waits is looked at in any case; a place that becomes free is given away at once."""

OF_AGENTS: Final = frozenset(
    {
        Trigger.INSTANCE_CRASH,
        Trigger.REBOOT_FAILED,
        Trigger.WATCHDOG,
        Trigger.IO_ERROR,
        Trigger.CONTROL_ERROR,
        Trigger.MEMORY_FAILURE,
    }
)
"""Triggers of which the agents' policy lets an agent make any number."""


class Turn(Enum):
    """Answer to an Eviction that wants a pass."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()
    """There are too many of its host: the controller deletes it."""


@dataclass(slots=True)
class _Host:
    """Evictions of one host, by name.

    Attributes:
        begun: are worked off.
        passing: have a pass now.
        next: are worked off, and wait for a pass; in their order.
        waiting: wait to be worked off; in their order.
        ended: have ended; in that order.
    """

    begun: set[str] = field(default_factory=set[str])
    passing: set[str] = field(default_factory=set[str])
    next: dict[str, None] = field(default_factory=dict[str, None])
    waiting: dict[str, None] = field(default_factory=dict[str, None])
    ended: dict[str, None] = field(default_factory=dict[str, None])


class HostTurns:
    """Gives turns to the Evictions of agents; all others have theirs at once.

    Args:
        enqueue: lets the controller look at an Eviction whose turn it is.
    """

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._hosts: dict[str, _Host] = defaultdict(_Host)
        self._of: dict[str, str] = {}
        self._surplus = set[str]()

    def begin(self, eviction: Eviction) -> Turn:
        """Return whether the Eviction has its turn now; then `end` follows."""
        if eviction.spec.trigger not in OF_AGENTS:
            return Turn.NOW
        name, place = eviction.metadata.name, eviction.spec.hypervisor
        if self._of.setdefault(name, place) != place:  # deleted, and made again by another host
            self.forget(name)
            self._of[name] = place
        host = self._hosts[place]
        # One that is being deleted has to end what it has begun.
        stays = eviction.metadata.deletionTimestamp is None
        if stays and name in self._surplus:
            return Turn.NEVER
        if stays and name not in host.begun and len(host.begun) >= MOST:
            if name not in host.waiting and len(host.waiting) >= MOST_WAITING:
                self._surplus.add(name)
                return Turn.NEVER
            host.waiting[name] = None
            return Turn.LATER
        host.waiting.pop(name, None)
        host.begun.add(name)
        if len(host.passing) >= AT_ONCE:
            host.next[name] = None
            return Turn.LATER
        host.next.pop(name, None)
        host.passing.add(name)
        return Turn.NOW

    def end(self, eviction: Eviction) -> None:
        """Take note that a pass is over, with the Eviction as it is now."""
        name = eviction.metadata.name
        if (host := self._host(name)) is None:
            return
        host.passing.discard(name)
        if has_ended(eviction.status):
            self._leave(host, name)
            host.ended[name] = None
            if len(host.ended) > MOST_ENDED:
                oldest = next(iter(host.ended))
                del host.ended[oldest]
                self._surplus.add(oldest)
                self._enqueue(oldest)
        self._call(host.next)

    def forget(self, name: str) -> None:
        """Take note that an Eviction is gone."""
        if (host := self._host(name)) is None:
            return
        host.ended.pop(name, None)
        host.passing.discard(name)
        self._surplus.discard(name)
        self._leave(host, name)
        place = self._of.pop(name)
        if not (host.begun or host.waiting or host.ended):
            del self._hosts[place]

    def _leave(self, host: _Host, name: str) -> None:
        host.begun.discard(name)
        host.next.pop(name, None)
        host.waiting.pop(name, None)
        if len(host.begun) < MOST:
            self._call(host.waiting)

    def _host(self, name: str) -> _Host | None:
        return self._hosts[self._of[name]] if name in self._of else None

    def _call(self, queue: dict[str, None]) -> None:
        """Let the first of a queue have its turn; it is put back if it gets none."""
        if (name := next(iter(queue), None)) is not None:
            del queue[name]
            self._enqueue(name)
