"""Holds the definition of a domain that moves live, until the agent of the target has stored it.

An agent stores what comes about a second after the migration has begun. A move that is shorter, or
an agent that cannot write just then, leaves a while in which the death of the target would lose the
definition (`held`). A host that reports that its agent cannot write is no target at all.
"""

from __future__ import annotations

import asyncio
import posixpath
from typing import Final

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.api.definitions import DomainDefinition
from hypercobalt.compute.direct.carrying import as_carried
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView
from hypercobalt.compute.direct.shared_disks import files, mark_of
from hypercobalt.compute.direct.site import Site
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_LOOK_AGAIN: Final = 5.0
"""Seconds between two reads of what the target's agent has stored; a read is shared for as long."""


class Holding:
    """The definition of one domain on its way.

    Args:
        site: see there.
        domain: as the source has it.
        source: where it was.
        target: where it goes.
    """

    def __init__(self, site: Site, domain: Domain, source: Place, target: Place) -> None:
        self._site, self._domain = site, domain
        self._source, self._target = source, target
        self._definition: DomainDefinition | None = None

    async def prepare(self, xml: str) -> None:
        """Take the definition that the target gets, if the source's would be recovered.

        Args:
            xml: its document, rewritten by the site's rules: only directories below the site's
                roots are in it. What the source lists may name any.
        """
        try:
            stored = await self._site.witnesses.definitions(self._source.name)
        except TransientError:
            return  # nothing is recovered without the agents' records
        if self._domain.uuid in stored.domains:
            halted = self._domain.halted
            self._definition = DomainDefinition(parse(xml).name, xml, active=True, halted=halted)
            await self._leave_marks(as_carried(self._domain, xml))

    async def _leave_marks(self, carried: Domain) -> None:
        """Leave the target's mark in the directories of the disks, as its agent does later."""
        mark, daemon = mark_of(self._target), self._site.daemon(self._target)
        marked = self._site.witnesses.held.marked
        written = [disk for disk in files(carried) if not disk.readonly]
        for directory in sorted({posixpath.dirname(disk.path) for disk in written}):
            if marked.has(mark, directory):
                continue
            try:
                if not await daemon.has_file(directory, mark):
                    await daemon.mark(directory, mark)
            except LibvirtError as error:
                log.warning("mark_not_written", directory=directory, error=str(error))
            else:
                marked.add(mark, directory)

    def arrived(self) -> None:
        """Hold the definition: the source has none any more, or is about to forget it."""
        uuid, held = self._domain.uuid, self._site.witnesses.held
        if self._definition is not None and not held.has(uuid, self._target.name):
            held.hold(uuid, self._target.name, self._definition)

    def give_up(self) -> None:
        """Hold the definition no longer: it is not known where the domain is."""
        if self._site.witnesses.held.has(self._domain.uuid, self._target.name):
            self._site.witnesses.held.drop(self._domain.uuid)

    async def until_stored(self) -> None:
        """Wait until the agent of the target has stored the domain, or it is no longer there.

        As long as that takes: without what is held, the death of the target loses the instance.
        There is one such wait for each instance that a target has and never stores, with one call
        to that target's libvirtd every five seconds; they cost no other host anything.
        """
        uuid, held = self._domain.uuid, self._site.witnesses.held
        while held.has(uuid, self._target.name):
            if await self._is_over():
                log.debug("held_definition_dropped", server=uuid, host=self._target.name)
                held.drop(uuid)
                return
            await asyncio.sleep(_LOOK_AGAIN)

    async def _is_over(self) -> bool:
        place = self._site.hosts.find(self._target.name)
        if place is None:
            return True
        if await self._site.witnesses.outlives(self._domain.uuid, (place.name,)):
            return True
        view, _ = await self._site.look(place, self._domain.uuid)
        return view is HostView.ABSENT
