"""The hosts' daemons and reports, which the steps of a move share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Daemon, Daemons
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.carrying import Carrying
from hypercobalt.compute.direct.definitions import Stored
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.hosts import DirectHosts
from hypercobalt.compute.direct.identity import Identities, daemon_of
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.outcome import HostView, view_of
from hypercobalt.compute.direct.ports import Ports
from hypercobalt.compute.direct.records import Records
from hypercobalt.compute.direct.shared_disks import Sharing
from hypercobalt.compute.direct.witnesses import Witnesses
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Clock


def also_on(domain: Domain, place: Place) -> str:
    """Return why no call is made for a domain that a second host has."""
    return (
        f"{domain.name} ({domain.uuid}) is defined on {place.name} as well, and not by a move: "
        "undefine it on the host that it does not belong to"
    )


@dataclass(frozen=True, slots=True)
class Site:
    """All hosts, and the knowledge about them."""

    hosts: DirectHosts
    daemons: Daemons
    ports: Ports
    sharing: Sharing
    identities: Identities
    clock: Clock
    witnesses: Witnesses
    carrying: Carrying

    @property
    def answers(self) -> Answers:
        """Present reports of the hosts."""
        return self.witnesses.answers

    @property
    def records(self) -> Records:
        """Moves of this process."""
        return self.witnesses.records

    @property
    def stored(self) -> Stored:
        """Stored definitions of dead hosts."""
        return self.witnesses.stored

    @property
    def marks(self) -> Marks:
        """Marks of this operator's evacuations."""
        return self.witnesses.marks

    def record(
        self,
        move: Move,
        status: str | None,
        message: str = "",
        *,
        claimed_by: str = "",
        in_use: bool = False,
    ) -> None:
        """Record the progress of a move now; see `Records.change`."""
        now = self.clock.now()
        self.records.change(
            move, now, status=status, message=message, claimed_by=claimed_by, in_use=in_use
        )

    def daemon(self, place: Place) -> Daemon:
        """Return the daemon of a host.

        Raises:
            LibvirtError: no connection to the host is made.
        """
        return daemon_of(self.daemons, place)

    async def domain(self, place: Place, uuid: str) -> Domain | None:
        """Return a domain as its host has it.

        Raises:
            LibvirtError: the host does not answer.
        """
        domains = await self.daemon(place).domains(jobs=True)
        return next((domain for domain in domains if domain.uuid == uuid), None)

    async def look(self, place: Place | None, uuid: str) -> tuple[HostView, Domain | None]:
        """Return how a host has a domain; a host that is gone or does not answer is silent."""
        if place is None:
            return HostView.SILENT, None
        return _seen(place, uuid, await self.answers.domains(place))

    async def listed(self, places: Iterable[Place]) -> dict[str, tuple[Domain, ...]]:
        """Return the domains of some hosts that answer, by the host's name."""
        targets = tuple(places)
        found = await asyncio.gather(*(self.answers.domains(place) for place in targets))
        return {
            place.name: domains
            for place, domains in zip(targets, found, strict=True)
            if domains is not None
        }

    async def everywhere(self, places: Iterable[Place]) -> dict[str, tuple[Domain, ...]]:
        """Return the domains of some hosts by name; for hosts that do not answer, the stored ones.

        A host that neither answers nor has stored anything is left out.
        """
        targets = tuple(places)
        return await self.with_stored(targets, await self.listed(targets))

    async def with_stored(
        self, places: Iterable[Place], answers: Mapping[str, tuple[Domain, ...]]
    ) -> dict[str, tuple[Domain, ...]]:
        """Return the answers of some hosts, and what those have stored that did not answer."""
        targets = tuple(places)
        listed = {one.name: answers[one.name] for one in targets if one.name in answers}
        for place in targets:
            if place.name not in listed:
                try:
                    kept = await self.witnesses.definitions(place.name)
                except TransientError:
                    continue
                listed[place.name] = await self.witnesses.parsed.of(kept)
        return listed

    async def look_everywhere(
        self, uuid: str, places: Iterable[Place]
    ) -> tuple[tuple[Place, HostView, Domain | None], ...]:
        """Return how each of some hosts has a domain."""
        targets = tuple(places)
        return looks(targets, uuid, await self.listed(targets))


def looks(
    places: Iterable[Place], uuid: str, answers: Mapping[str, Iterable[Domain]]
) -> tuple[tuple[Place, HostView, Domain | None], ...]:
    """Return how each of some hosts has a domain, by what those list that have answered."""
    return tuple((place, *_seen(place, uuid, answers.get(place.name))) for place in places)


def _seen(
    place: Place, uuid: str, domains: Iterable[Domain] | None
) -> tuple[HostView, Domain | None]:
    if domains is None:
        return HostView.FENCED if place.fenced else HostView.SILENT, None
    found = next((domain for domain in domains if domain.uuid == uuid), None)
    return view_of(found), found
