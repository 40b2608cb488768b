"""Evidence of where an instance is: hosts' answers, stored definitions, marks and moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.definitions import NOTHING, ParsedDomains, Stored
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.held import HeldDefinitions
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.records import Records
from hypercobalt.errors import TransientError


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of domains on some hosts.

    Args:
        answering: names of the hosts that answer.
        unknown: names of those of which nothing is known: they do not answer, and are either alive
            or have left nothing that can be read. Any of them may have any domain.
        domains: by UUID, then by the host's name, with this operator's marks only; for a dead host
            that does not answer, its stored domains.
    """

    answering: frozenset[str]
    unknown: frozenset[str]
    domains: Mapping[str, Mapping[str, Domain]]

    def of(self, uuid: str) -> Mapping[str, Domain]:
        """Return the copies of one domain."""
        return self.domains.get(uuid, {})


@dataclass(frozen=True, slots=True)
class Witnesses:
    """All evidence.

    Args:
        stored: the definitions of hosts that are dead.
        answers: present reports of the other hosts.
        marks: distinguishes this operator's marks from others.
        records: moves of this process.
        parsed: the stored definitions as domains.
        held: definitions that no agent has stored yet.
    """

    stored: Stored
    answers: Answers
    marks: Marks
    records: Records
    parsed: ParsedDomains = field(default_factory=ParsedDomains)
    held: HeldDefinitions = field(default_factory=HeldDefinitions)

    async def definitions(self, host: str) -> HostDefinitions:
        """Return the definitions of a host, those included that its agent has not stored yet.

        Raises:
            TransientError: what its agent has stored cannot be read.
        """
        return self.held.added(host, await self.stored.of(host))

    async def copies(self, places: Iterable[Place]) -> Copies:
        """Return the copies on some hosts.

        Raises:
            TransientError: the keys of the marks cannot be read.
        """
        targets = tuple(places)
        listed = await asyncio.gather(*(self.answers.domains(one) for one in targets))
        found, answering = defaultdict[str, dict[str, Domain]](dict), set[str]()
        unknown = set[str]()
        for place, answer in zip(targets, listed, strict=True):
            if answer is not None:
                answering.add(place.name)
            domains = await self._last_of(place) if answer is None else answer
            if domains is None:
                unknown.add(place.name)
            for domain in await self.marks.only_ours(domains or ()):
                found[domain.uuid][place.name] = domain
        return Copies(frozenset(answering), frozenset(unknown), found)

    async def is_stored(self, uuid: str, hosts: Iterable[str]) -> bool:
        """Whether the agent of one of some hosts has stored a domain, or at least its name."""
        for host in hosts:
            stored = await self._stored_of(host)
            if uuid in stored.domains or uuid in stored.left_out:
                return True
        return False

    async def outlives(self, uuid: str, hosts: Iterable[str]) -> bool:
        """Whether the agent of one of some hosts has stored the definition of a domain."""
        return any([uuid in (await self._stored_of(host)).domains for host in hosts])

    async def _stored_of(self, host: str) -> HostDefinitions:
        try:
            return await self.stored.of(host)
        except TransientError:
            return NOTHING

    async def _last_of(self, place: Place) -> tuple[Domain, ...] | None:
        """Return what a dead host had that does not answer; None for any other, or if unread."""
        if not place.fenced:
            return None
        try:
            return await self.parsed.of(await self.definitions(place.name))
        except TransientError:
            return None
