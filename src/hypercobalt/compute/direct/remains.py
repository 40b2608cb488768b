"""What is still on a host that is proven dead, by the definitions that its agent has stored.

A domain is on the dead host until one of us has stated that it left: by the seal of our own
evacuation in the copy on another host, or by a move that this process has seen arrive there. What
the host has seen leave while it lived, it has not stored any more. A copy elsewhere states nothing,
whether it runs or not: a captured host runs what it likes, and one that was fenced by mistake keeps
what it ended. The domain is then listed, and not started before a person has decided.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.definitions import Stored, stored_domains
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.records import Records
from hypercobalt.compute.direct.returning import is_leftover
from hypercobalt.errors import TransientError


def has_left(place: Place, *, copies: Mapping[str, Domain], moved_to: str = "") -> bool:
    """Whether a domain that a dead host has stored is known to have left it.

    Args:
        place: the host.
        copies: what the other hosts have of it by their names, with our own marks only.
        moved_to: where our moves have taken it from there; "" for nowhere.
    """
    arrived = copies.get(moved_to)
    if arrived is not None and (arrived.active or arrived.reason != ShutoffReason.MIGRATED):
        return True
    return is_leftover(place, copies.values())


@dataclass(frozen=True, slots=True)
class Remains:
    """What is still on a dead host.

    Args:
        stored: all that its agent has stored.
        domains: those of them that have not left.
        answering: names of the hosts that were compared with.
    """

    stored: HostDefinitions
    domains: tuple[Domain, ...]
    answering: frozenset[str]

    @property
    def uuids(self) -> frozenset[str]:
        """Of all of them, those without a definition included."""
        return frozenset((*(one.uuid for one in self.domains), *self.stored.left_out))


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What is compared with.

    Args:
        stored: the definitions of hosts that are dead.
        answers: what the others have now.
        marks: tells ours from others.
        records: our moves.
    """

    stored: Stored
    answers: Answers
    marks: Marks
    records: Records


async def remains(witnesses: Witnesses, place: Place, others: Iterable[Place]) -> Remains:
    """Compare what a dead host has stored with what the other hosts have.

    Raises:
        TransientError: its definitions cannot be read.
    """
    kept, targets = await witnesses.stored.of(place.name), tuple(others)
    listed = await asyncio.gather(*(witnesses.answers.domains(other) for other in targets))
    copies, answering = defaultdict[str, dict[str, Domain]](dict), set[str]()
    for other, answer in zip(targets, listed, strict=True):
        if answer is not None:
            answering.add(other.name)
        domains = await _last_of(witnesses.stored, other) if answer is None else answer
        for domain in await witnesses.marks.only_ours(domains):
            copies[domain.uuid][other.name] = domain
    left = tuple(
        one
        for one in await stored_domains(kept)
        if not has_left(
            place,
            copies=copies[one.uuid],
            moved_to=witnesses.records.moved_to(one.uuid, place.name),
        )
    )
    return Remains(kept, left, frozenset(answering))


async def _last_of(stored: Stored, place: Place) -> tuple[Domain, ...]:
    """What was on a host that does not answer: of one that is dead as well it is known."""
    if not place.fenced:
        return ()
    try:
        return await stored_domains(await stored.of(place.name))
    except TransientError:
        return ()
