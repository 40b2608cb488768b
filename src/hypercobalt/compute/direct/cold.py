"""One move of a domain that is off: its definition goes from host to host, its disks stay.

The order makes every crash harmless: it is defined on the target, never started there by us, and
only then forgotten by the source. In between, the domain is off on both; the next attempt goes on
from there. So this process never makes it run twice.

The source forgets it only once the agent of the target has stored it, if its own agent has: what
its agents have stored is the only record of a host that dies.

Until the source has forgotten it, the definition on the target has a mark. A definition without the
mark is not touched: a captured host may define a domain with the UUID of another host's guest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.model import Domain, DomainDocument, Evacuated
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.carrying import NotCarriedError, as_carried
from hypercobalt.compute.direct.claims import ClaimedError, claimant, files_taken
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, unanswered
from hypercobalt.compute.direct.shared_disks import files
from hypercobalt.compute.direct.site import Site, also_on
from hypercobalt.compute.direct.unanswering import is_excused
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError

_COLD: Final = "cold-move"
"""Used in place of a boot in the mark of a definition that a move has left."""

_STORED_WITHIN: Final = 60.0
"""Seconds until the agent of the target has stored what came: it does so two seconds after libvirt
has reported that, and what it has stored is read five seconds later at the latest."""
_LOOK_AGAIN: Final = 1.0


def moving_from(host: str) -> Evacuated:
    """Return the mark of a definition left by an unfinished move from a host."""
    return Evacuated(host, _COLD, pending=True)


class ColdMoveError(ClaimedError):
    """The domain is not in the required state; it stays where it was."""


class ColdMove:
    """One transfer of a definition.

    Args:
        site: see there.
        move: its record.
        domain: as the source has it.
        source: where it is.
        target: where it goes.
    """

    def __init__(
        self, site: Site, move: Move, domain: Domain, source: Place, target: Place
    ) -> None:
        self._site, self._move, self._domain = site, move, domain
        self._source, self._target = source, target
        self._carried = domain  # as the target gets it, once its document is read
        self._mark = moving_from(source.name)

    async def run(self) -> None:
        """Transfer the definition, and record the result."""
        try:
            self._site.record(self._move, "running")
            if not await self._runs_elsewhere():
                definition = await self._definition()
                # The definition is on both until the end is known: the next process finds it so
                # after a crash.
                await self._bind(self._source, self._target)
                await self._transfer(definition)
                await self._bind(self._target)
        except ColdMoveError as exc:
            await self._stay(str(exc), exc.by)
        except TransientError as exc:
            self._site.record(self._move, "error", str(exc), claimed_by=claimant(exc))
        else:
            self._site.record(self._move, "confirmed")

    async def _stay(self, why: str, by: str) -> None:
        try:
            await self._bind(self._source)
        except TransientError as exc:
            why = f"{why}; {exc}"
        self._site.record(self._move, "error", why, claimed_by=by)

    async def _bind(self, *hosts: Place) -> None:
        await port_claims.bind(self._site, self._carried, tuple(host.name for host in hosts))

    async def _runs_elsewhere(self) -> bool:
        """Take back copies of other attempts; return whether the domain has moved live before.

        Raises:
            ColdMoveError: a host does not report whether it has the domain, is moving it, or has
                one of that UUID that no move has brought there.
        """
        site, uuid = self._site, self._domain.uuid
        others = site.hosts.others(self._source.name)
        looked = await site.look_everywhere(uuid, others)
        lacking = await self._lacking(looked)
        site.records.await_answer(uuid, self._source.name, lacking)
        for place, view, found in looked:
            if view is HostView.RUNS and self._has_left(place):
                site.records.change(self._move, site.clock.now(), target=place.name)
                await site.daemon(self._source).undefine(uuid)
                return True
            is_off = view is HostView.OFF
            if view is HostView.RUNS or (is_off and (not found or found.evacuated != self._mark)):
                raise ColdMoveError(also_on(self._domain, place), place.name)
            if is_off and place.name != self._target.name:
                await site.daemon(place).undefine(uuid)
            elif view not in {HostView.ABSENT, HostView.OFF, HostView.FENCED}:
                if view is HostView.SILENT and not lacking:
                    continue
                if view is HostView.SILENT:
                    text = f"{self._domain.name} is not moved: {unanswered(lacking)}"
                    raise ColdMoveError(text)
                raise ColdMoveError(f"{self._domain.name} is {view} on {place.name}", place.name)
        return False

    async def _lacking(self, looked: Iterable[tuple[Place, HostView, Domain | None]]) -> str:
        """Return the first host whose answer is lacking, and waited for; "" for none."""
        for place, view, _ in looked:
            about = self._site, self._domain, self._source, place
            if view is HostView.SILENT and not await is_excused(*about):
                return place.name
        return ""

    def _has_left(self, place: Place) -> bool:
        """Whether the domain has moved there live, by its own host or a move of this process."""
        moved_to = self._site.records.moved_to(self._domain.uuid, self._source.name)
        return self._domain.reason == ShutoffReason.MIGRATED or moved_to == place.name

    async def _definition(self) -> DomainDocument:
        """Return the source's definition; what the target gets of it counts, not what is listed."""
        definition = await self._site.daemon(self._source).document(self._domain.uuid)
        self._carried = as_carried(self._domain, self._written(definition.xml))
        return definition

    async def _transfer(self, definition: DomainDocument) -> None:
        site, source, target, uuid = self._site, self._source, self._target, self._domain.uuid
        for disk in files(self._carried):
            if not await site.sharing.shares(disk, source, target, fresh=True):
                raise ColdMoveError(f"{target.name} does not see {disk.path}")
        carried = replace(definition, xml=self._written(definition.xml))
        listed = await site.listed(site.hosts.others(source.name))
        if taken := files_taken(self._carried, listed, only_named=True):
            raise ColdMoveError(taken.text, taken.host)
        # Started with its host only where it belongs: nothing starts it on both.
        copy = replace(definition, xml=self._written(definition.xml, self._mark), autostart=False)
        await site.daemon(target).define(copy)
        await self._wait_until_stored()
        await self._expect(source, HostView.OFF)
        await self._expect(target, HostView.OFF)
        await site.daemon(source).undefine(uuid)
        if await self._has_started(source):
            await site.daemon(source).define(definition)
            await site.daemon(target).undefine(uuid)
            raise ColdMoveError(f"{self._domain.name} was started on {source.name} meanwhile")
        await site.daemon(target).define(carried)

    async def _wait_until_stored(self) -> None:
        """Wait until the death of the target would no longer lose the definition.

        Raises:
            ColdMoveError: its agent does not store it; the target has no copy any more.
        """
        if not await self._is_stored_by(self._source):
            return  # there is no record that could be lost
        try:
            async with asyncio.timeout(_STORED_WITHIN):
                while True:
                    if await self._is_stored_by(self._target, self._mark):
                        return
                    await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            await self._take_back()
            raise ColdMoveError(
                f"the agent of {self._target.name} has not stored the definition of "
                f"{self._domain.name} within {_STORED_WITHIN:.0f} s: it would be lost with the "
                f"host; look at DefinitionsStored of Hypervisor {self._target.name}"
            ) from None

    async def _is_stored_by(self, place: Place, mark: Evacuated | None = None) -> bool:
        """Whether the agent of a host has stored the domain; with a mark, if it has that."""
        try:
            kept = (await self._site.stored.of(place.name)).domains.get(self._domain.uuid)
        except TransientError:
            return False
        return kept is not None and (mark is None or parse(kept.xml).evacuated == mark)

    async def _take_back(self) -> None:
        """Undefine the copy on the target; the next attempt does so where this one cannot."""
        with contextlib.suppress(TransientError):
            view, found = await self._site.look(self._target, self._domain.uuid)
            if view is HostView.OFF and found is not None and found.evacuated == self._mark:
                await self._site.daemon(self._target).undefine(self._domain.uuid)

    def _written(self, xml: str, mark: Evacuated | None = None) -> str:
        try:
            return self._site.carrying.written(xml, self._domain.uuid, mark=mark)
        except NotCarriedError as exc:
            raise ColdMoveError(str(exc)) from None

    async def _expect(self, place: Place, wanted: HostView) -> None:
        view, _ = await self._site.look(place, self._domain.uuid)
        if view is not wanted:
            raise ColdMoveError(f"{self._domain.name} is {view} on {place.name}, not {wanted}")

    async def _has_started(self, place: Place) -> bool:
        view, _ = await self._site.look(place, self._domain.uuid)
        return view is not HostView.ABSENT
