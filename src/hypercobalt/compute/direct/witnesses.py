"""Evidence of where an instance is: hosts' answers, stored definitions, marks and moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.definitions import ParsedDomains, Stored
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
        domains: by UUID, then by the host's name, with this operator's marks only; for a dead host
            that does not answer, its stored domains.
    """

    answering: frozenset[str]
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
        for place, answer in zip(targets, listed, strict=True):
            if answer is not None:
                answering.add(place.name)
            domains = await self._last_of(place) if answer is None else answer
            for domain in await self.marks.only_ours(domains):
                found[domain.uuid][place.name] = domain
        return Copies(frozenset(answering), found)

    async def is_stored(self, uuid: str, hosts: Iterable[str]) -> bool:
        """Whether the agent of one of some hosts has stored the definition of a domain."""
        for host in hosts:
            try:
                stored = await self.stored.of(host)
            except TransientError:
                continue
            if uuid in stored.domains or uuid in stored.left_out:
                return True
        return False

    async def _last_of(self, place: Place) -> tuple[Domain, ...]:
        """Return the last known domains of a host that does not answer; known if it is dead."""
        if not place.fenced:
            return ()
        try:
            return await self.parsed.of(await self.definitions(place.name))
        except TransientError:
            return ()
