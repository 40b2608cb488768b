"""Has every host compared with OpenStack from time to time, all at once.

A safety net: OpenStack sends no events about changes by other programs. All hosts at once share
the reads of hosts and aggregates, which are one call each however many hosts there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

from hypercobalt.logs import get_logger
from hypercobalt.runtime import Source
from hypercobalt.runtime.tasks import sleep_unless

log = get_logger(__name__)


class Sweep:
    """A service of the manager, and a source of the controller.

    Args:
        names: returns all names of hosts.
        period: time between two sweeps.
    """

    def __init__(self, names: Callable[[], Iterable[str]], period: timedelta) -> None:
        self._names, self._period = names, period
        self.source = Source()

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep each period until `stop`."""
        while not stop.is_set():
            if not await sleep_unless(stop, self._period.total_seconds()):
                self.sweep()

    def sweep(self) -> None:
        """Trigger a pass for every host now."""
        found = list(self._names())
        log.info("comparing_hosts", hosts=len(found))
        for name in found:
            self.source.enqueue(name)
