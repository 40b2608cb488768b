"""Bounds how long a host that answers no call keeps others from being recovered.

A host whose agent reports is not fenced, and its libvirtd may answer nothing for as long as whoever
has the host likes. What may run there is known without its answer: what the operator has sent
there, and what its agent has stored. An instance of a dead host that is neither has come there past
the operator alone, in the seconds before its host died, if at all; the lock of its disk is left for
that, and an instance that writes to no disk waits.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct.answers import FAILS_AGAIN
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.obstacles import has_lock
from hypercobalt.compute.direct.site import Site

WAITS: Final = 2 * FAILS_AGAIN
"""Seconds for which the answer of such a host is waited for: an agent that is silent, too, is seen
to be by then, and a restart of libvirtd is over."""


async def is_excused(site: Site, domain: Domain, source: Place, place: Place) -> bool:
    """Whether a domain may leave a host, off or dead with it, though another does not answer.

    Args:
        site: see there.
        domain: as it is on its host, or was.
        source: its host.
        place: the host that does not answer.
    """
    uuid, records = domain.uuid, site.records
    about = uuid, source.name, source.fenced_boot
    if not place.reports or site.answers.failing_for(place) < WAITS or not has_lock(domain):
        return False
    given = records.given_to(*about)
    if not given and uuid in site.marks.begun(source.name, source.fenced_boot):
        return False  # by an earlier process: to which host is not recorded
    if place.name in given or place.name in records.targets(uuid):
        return False
    return not await site.witnesses.is_stored(uuid, (place.name,))
