"""Checks whether the compute service of a host answers now.

A dead host costs a look all of its deadline, and each step of a recovery looks: so the steps
wait for the first look alone. After one that was not answered the next begins at once, beside the
steps, and counts from its end; what the host's agent reports counts meanwhile. A look that is
answered counts once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Hosts
from hypercobalt.runtime import Clock

COUNTS: Final = 15.0
"""Seconds from the end of a look that was not answered: longer than the next look takes, 10 s."""


class Looks:
    """Looks at hosts, one look at a time for each.

    Args:
        clock: monotonic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unanswered: dict[str, tuple[str, float]] = {}
        """Boot and end of the last look of each host, if that was not answered."""
        self._looking: dict[str, asyncio.Task[Host | None]] = {}

    async def at(self, hosts: Hosts, listed: Host, boot: str) -> Host | None:
        """Return a host as it is now; as it was listed if it does not answer; None if it is gone.

        Args:
            hosts: of the compute service.
            listed: the host, by a listing. One that was declared down is not queried, so that
                it is always looked at.
            boot: boot that it reported last: the silence of one boot proves nothing about the next.
        """
        name = listed.name
        if not listed.forced_down and self._is_unanswered(name, boot):
            self._begin(hosts, listed, boot)
            return listed
        if (begun := self._looking.get(name)) is not None:
            await asyncio.wait({begun})
            return await self.at(hosts, listed, boot)
        return await self._look(hosts, listed, boot)

    def _begin(self, hosts: Hosts, listed: Host, boot: str) -> None:
        """Look beside the caller, unless a look goes on."""
        name = listed.name
        if name in self._looking:
            return
        look = asyncio.create_task(self._look(hosts, listed, boot), name=f"look at {name}")
        self._looking[name] = look
        look.add_done_callback(lambda _: self._looking.pop(name, None))

    async def _look(self, hosts: Hosts, listed: Host, boot: str) -> Host | None:
        try:
            found = await hosts.get(listed.name, fresh=True)
        except ComputeError:  # libvirt of that host alone does not answer
            self._unanswered[listed.name] = boot, self._clock.monotonic()
            return listed
        self._unanswered.pop(listed.name, None)
        return found

    def _is_unanswered(self, name: str, boot: str) -> bool:
        silent, ended = self._unanswered.get(name, ("", -COUNTS))
        return silent == boot and self._clock.monotonic() - ended < COUNTS
