"""Finds what is still on a host that is proven dead, by the definitions that its agent has stored.

A domain is on the dead host until this operator has proof that it left: the seal of an evacuation
in the copy on another host, or a move that this process has seen arrive there. Domains that left
while the host lived are no longer among its stored ones. A copy elsewhere proves nothing, whether
it runs or not: a captured host runs any domain, and a host fenced by mistake keeps the domains that
it ended. The domain is then listed, and not started before a person has decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.returning import is_leftover
from hypercobalt.compute.direct.witnesses import Witnesses


def has_left(place: Place, *, copies: Mapping[str, Domain], moved_to: str = "") -> bool:
    """Whether a domain that a dead host has stored is known to have left it.

    Args:
        place: the host.
        copies: the other hosts' copies by the hosts' names, with this operator's marks only.
        moved_to: where this process's moves have taken it from there; "" for nowhere.
    """
    arrived = copies.get(moved_to)
    if arrived is not None and (arrived.active or arrived.reason != ShutoffReason.MIGRATED):
        return True
    return is_leftover(place, copies.values())


@dataclass(frozen=True, slots=True)
class Remains:
    """Domains that are still on a dead host.

    Args:
        stored: all definitions that its agent has stored.
        domains: the stored domains that have not left.
        answering: names of the hosts that were compared with.
    """

    stored: HostDefinitions
    domains: tuple[Domain, ...]
    answering: frozenset[str]

    @property
    def uuids(self) -> frozenset[str]:
        """UUIDs of all domains on the host, those without a definition included."""
        return frozenset((*(one.uuid for one in self.domains), *self.stored.left_out))


async def only_record(
    witnesses: Witnesses, place: Place, others: Iterable[Place]
) -> frozenset[str]:
    """Return domains whose only definition that outlives their host is what `place` has stored.

    They have left that host, and the agent of the host that has them has not stored them yet: if
    it died now, nothing else would have their definitions. A host of which nothing is known may
    have any of them, and one that is dead may have been given any whose evacuation was begun.

    Args:
        witnesses: see there.
        place: a host that was fenced.
        others: all other hosts.

    Raises:
        TransientError: its definitions cannot be read.
    """
    targets = tuple(others)
    kept, copies = await witnesses.definitions(place.name), await witnesses.copies(targets)
    begun = witnesses.marks.begun(place.name, place.fenced_boot)
    is_seen = all(one.name in copies.answering for one in targets)
    found = set[str]()
    for uuid in kept.domains:
        there = copies.of(uuid)
        if not there and not copies.unknown and (is_seen or uuid not in begun):
            continue  # here still, or removed by its owner
        moved_to = witnesses.records.moved_to(uuid, place.name)
        ours = [
            name for name, copy in there.items() if name == moved_to or is_leftover(place, (copy,))
        ]
        if not await witnesses.outlives(uuid, ours):
            found.add(uuid)
    return frozenset(found)


async def remains(witnesses: Witnesses, place: Place, others: Iterable[Place]) -> Remains:
    """Compare the stored definitions of a dead host with the domains of the other hosts.

    Raises:
        TransientError: its definitions cannot be read.
    """
    kept, copies = await witnesses.definitions(place.name), await witnesses.copies(others)
    records = witnesses.records

    def is_gone(uuid: str) -> bool:
        there, moved_to = copies.of(uuid), records.moved_to(uuid, place.name)
        started_on = records.started_on(uuid, place.name, place.fenced_boot)
        # Its owner has removed it there; a silent host cannot show that.
        removed = started_on in copies.answering and started_on not in there
        return removed or has_left(place, copies=there, moved_to=moved_to)

    left = tuple(one for one in await witnesses.parsed.of(kept) if not is_gone(one.uuid))
    return Remains(kept, left, copies.answering)
