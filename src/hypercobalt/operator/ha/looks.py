"""Checks whether the compute service of a host answers now.

A host that is dead costs a look all of its deadline, and each step of a recovery looks: a look that
was not answered counts for the steps of the next seconds, too. What the host's agent reports counts
then; a look that is answered counts once.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Hosts
from hypercobalt.runtime import Clock

COUNTS: Final = 10.0
"""Seconds from the end of a look that was not answered: what a look may take itself."""


class Looks:
    """Looks at hosts, one look at a time for each.

    Args:
        clock: monotonic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unanswered: dict[str, tuple[str, float]] = {}
        """Boot and end of the last look of each host, if that was not answered."""

    async def at(self, hosts: Hosts, listed: Host, boot: str) -> Host | None:
        """Return a host as it is now; as it was listed if it does not answer; None if it is gone.

        Args:
            hosts: of the compute service.
            listed: the host, by a listing. One that was declared down is not asked itself, so that
                it is always looked at.
            boot: boot that it reported last: the silence of one boot proves nothing about the next.
        """
        if not listed.forced_down and self._is_unanswered(listed.name, boot):
            return listed
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
