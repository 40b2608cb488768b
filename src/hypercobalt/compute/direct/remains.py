"""What is still on a host that is proven dead, by the definitions that its agent has stored.

A domain is taken to be on the dead host until it is found elsewhere: active, or off and marked as
evacuated from this boot of the host, or seen to end there: it has moved since its host stored it.
Any other one that is off is a copy which a move has left, or an evacuation before its start.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.definitions import Stored, stored_domains
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.outcome import ended_here


def has_left(place: Place, *, ran: bool, copies: Iterable[Domain]) -> bool:
    """Whether a domain that a dead host has stored is elsewhere now.

    Args:
        place: the host.
        ran: the domain was active there.
        copies: what the other hosts have of it, with our own marks only.
    """
    here = Evacuated(place.name, place.fenced_boot)
    return any(
        copy.active or not ran or copy.evacuated == here or (ended_here(copy) and not _pends(copy))
        for copy in copies
    )


def _pends(copy: Domain) -> bool:
    return copy.evacuated is not None and copy.evacuated.pending


@dataclass(frozen=True, slots=True)
class Remains:
    """What is still on a dead host.

    Args:
        stored: all that its agent has stored.
        domains: those of them that are not elsewhere.
        answering: names of the hosts that were compared with.
    """

    stored: HostDefinitions
    domains: tuple[Domain, ...]
    answering: frozenset[str]

    @property
    def uuids(self) -> frozenset[str]:
        """Of all of them, those without a definition included."""
        return frozenset((*(one.uuid for one in self.domains), *self.stored.left_out))


async def remains(
    stored: Stored, answers: Answers, marks: Marks, place: Place, others: Iterable[Place]
) -> Remains:
    """Compare what a dead host has stored with what the other hosts have.

    Raises:
        TransientError: its definitions cannot be read.
    """
    kept, targets = await stored.of(place.name), tuple(others)
    listed = await asyncio.gather(*(answers.domains(other) for other in targets))
    copies, answering = defaultdict[str, list[Domain]](list), set[str]()
    for other, domains in zip(targets, listed, strict=True):
        if domains is not None:
            answering.add(other.name)
            for domain in await marks.only_ours(domains):
                copies[domain.uuid].append(domain)
    there = await stored_domains(kept)
    left = (one for one in there if not has_left(place, ran=one.active, copies=copies[one.uuid]))
    return Remains(kept, tuple(left), frozenset(answering))
