"""Bounds how long other hosts keep one that is back out of service.

A host that was given an instance by an evacuation may not answer, or may not store what it was
given: the copy on the host that is back has to stay then. Whether that host can be believed is not
known, so it is waited for a while only. After that the host is taken back with the copies, which
are off, and they are undefined once the other host has shown that it has the instances.

The copies are known to this process alone. After its end they stay, off, until a person undefines
them: what moves from the host is compared with all other hosts first, and names both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Daemons
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.returning import KeptCopies, clean_late
from hypercobalt.compute.direct.witnesses import Witnesses
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

LONGEST: Final = 300.0
"""Seconds for which other hosts are waited for: an agent stores what has come within seconds, and a
host that is dead is fenced by then."""
_AGAIN: Final = 60.0
"""Seconds between two looks at copies that were left."""


class LateReturns:
    """Hosts that are back, and wait for what others show.

    Args:
        daemons: of the hosts.
        witnesses: see there.
        places: returns all hosts as known now.
    """

    def __init__(
        self, daemons: Daemons, witnesses: Witnesses, places: Callable[[], tuple[Place, ...]]
    ) -> None:
        self._daemons, self._witnesses, self._places = daemons, witnesses, places
        self._since: dict[str, tuple[str, float]] = {}  # fenced boot and time, by host
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def check(self, place: Place, waiting: KeptCopies) -> None:
        """Check whether a host is taken back; copies that it keeps are undefined later.

        Raises:
            UnreachableError: other hosts are waited for.
        """
        if not waiting.domains:
            self._since.pop(place.name, None)
            return
        now = asyncio.get_running_loop().time()
        boot, since = self._since.get(place.name, ("", now))
        if boot != place.fenced_boot:
            since = now
            self._since[place.name] = (place.fenced_boot, since)
        if now < since + LONGEST:
            raise UnreachableError(
                f"host {place.name}: {waiting.why()}; without that it is taken back after "
                f"{LONGEST:.0f} s"
            )
        log.warning("host_taken_back_with_copies", host=place.name, why=waiting.why())
        if place.name not in self._tasks:
            work = self._follow(place, waiting.domains)
            self._tasks[place.name] = task = asyncio.create_task(work, name="late return")
            task.add_done_callback(lambda _: self._tasks.pop(place.name, None))

    async def close(self) -> None:
        """Look at no copy any longer."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, fenced: Place, left: tuple[Domain, ...]) -> None:
        while left:
            await asyncio.sleep(_AGAIN)  # no event says that a host answers again
            places = {one.name: one for one in self._places()}
            place = places.pop(fenced.name, None)
            if place is None or place.fenced or place.fenced_boot not in {"", fenced.fenced_boot}:
                return  # it is gone, or has died again
            place = replace(place, fenced_boot=fenced.fenced_boot)
            others = tuple(places.values())
            try:
                left = await clean_late(self._daemons, self._witnesses, others, place, left)
            except TransientError as exc:
                log.warning("left_copies_not_read", host=place.name, reason=str(exc))
