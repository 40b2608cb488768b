"""Has every host compared with OpenStack from time to time, all at once.

A safety net: OpenStack tells nobody what others change there. All hosts at once share the reads of
hosts and aggregates, which are one call each however many hosts there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta

from hypercobalt.logs import get_logger
from hypercobalt.runtime.controller import Watch

log = get_logger(__name__)


class Sweep:
    """A service of the manager, and a watch of the controller.

    Args:
        names: gives all there are.
        period: between two sweeps.
    """

    def __init__(self, names: Callable[[], Iterable[str]], period: timedelta) -> None:
        self._names, self._period = names, period
        self._tell: list[Callable[[str], None]] = []

    @property
    def watch(self) -> Watch:
        """For the controller."""
        return Watch(self._tell.append, _at_once)

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep each period until `stop`."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self._period.total_seconds()):
                    await stop.wait()
            except TimeoutError:
                self.sweep()

    def sweep(self) -> None:
        """Have every host looked at now."""
        found = list(self._names())
        log.info("comparing_hosts", hosts=len(found))
        for name in found:
            for tell in self._tell:
                tell(name)


async def _at_once() -> None:
    """There is nothing to wait for."""
