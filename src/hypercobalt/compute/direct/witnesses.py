"""What states where an instance is: hosts' answers, stored definitions, our marks and moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.definitions import Stored, stored_domains
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.records import Records
from hypercobalt.errors import TransientError


@dataclass(frozen=True, slots=True)
class Copies:
    """What some hosts have.

    Args:
        answering: names of those that answer.
        domains: by UUID, then by the host's name, with our own marks only; of a host that is dead
            and does not answer what it has stored.
    """

    answering: frozenset[str]
    domains: Mapping[str, Mapping[str, Domain]]

    def of(self, uuid: str) -> Mapping[str, Domain]:
        """Those of one domain."""
        return self.domains.get(uuid, {})


@dataclass(frozen=True, slots=True)
class Witnesses:
    """All of them.

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

    async def copies(self, places: Iterable[Place]) -> Copies:
        """What some hosts have.

        Raises:
            TransientError: the keys of the marks cannot be read.
        """
        targets = tuple(places)
        listed = await asyncio.gather(*(self.answers.domains(one) for one in targets))
        found, answering = defaultdict[str, dict[str, Domain]](dict), set[str]()
        for place, answer in zip(targets, listed, strict=True):
            if answer is not None:
                answering.add(place.name)
            domains = await self._last_of(place) if answer is None else answer
            for domain in await self.marks.only_ours(domains):
                found[domain.uuid][place.name] = domain
        return Copies(frozenset(answering), found)

    async def _last_of(self, place: Place) -> tuple[Domain, ...]:
        """What was on a host that does not answer: of one that is dead it is known."""
        if not place.fenced:
            return ()
        try:
            return await stored_domains(await self.stored.of(place.name))
        except TransientError:
            return ()
