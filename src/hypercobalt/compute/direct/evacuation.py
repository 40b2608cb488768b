"""One evacuation: a domain of a host proven dead is defined on another host, and started there.

Every other host is checked twice, before the definition and right before the start; so is the
proof. The definition there is marked: as pending before the start, as evacuated after it. A process
that ends in between leaves a pending copy, which the next one starts, takes back, or finds running.

The network lets the domain's ports be bound on the new host alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain, DomainDocument, Evacuated
from hypercobalt.adapters.libvirt.port import DiskInUseError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.carrying import as_carried
from hypercobalt.compute.direct.claims import ClaimedError, claimant, files_taken
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.direct.dead import DeadDomain
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, holder, silent, why_not
from hypercobalt.compute.direct.remains import has_left
from hypercobalt.compute.direct.returning import is_leftover
from hypercobalt.compute.direct.shared_disks import files
from hypercobalt.compute.direct.site import Site, looks
from hypercobalt.compute.direct.unanswering import is_excused
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_LOOKED_WITHIN: Final = 20.0
"""Seconds that a target may take to read the directories of all disks of a domain."""
_STARTED_WITHIN: Final = 20.0
"""Seconds; a target that takes longer to start a domain, or to fail, is the last for the next."""

Look = tuple[Place, HostView, Domain | None]
"""How a host has the domain."""


class EvacuationError(ClaimedError):
    """The domain is not started elsewhere; the message has the reason."""


class Evacuation:
    """One evacuation of a domain.

    Args:
        site: see there.
        move: its record.
        dead: the domain on the dead host.
        target: where it goes.
    """

    def __init__(self, site: Site, move: Move, dead: DeadDomain, target: Place) -> None:
        self._site, self._move, self._dead = site, move, dead
        self._domain, self._source, self._target = dead.domain, dead.place, target

    async def run(self) -> None:
        """Evacuate the domain to the target, and record the result."""
        try:
            self._site.record(self._move, "running")
            await self._check_disks()
            everywhere = await self._check_hosts()
            await port_claims.bind(self._site, self._domain, (self._target.name,), everywhere)
            await self._define(pending=self._domain.active)
            if self._domain.active:
                if await self._start():
                    # The document of the process keeps the pending mark, which stays good.
                    await self._define(pending=False)
                else:
                    await self._end()
        except TransientError as exc:
            by = claimant(exc)
            in_use = isinstance(exc, DiskInUseError)
            self._site.record(self._move, "error", str(exc), claimed_by=by, in_use=in_use)
        else:
            self._site.record(self._move, "done")

    async def _check_disks(self) -> None:
        mark, source, target = self._dead.mark, self._source, self._target
        try:
            async with asyncio.timeout(_LOOKED_WITHIN):
                for disk in files(self._domain):
                    if not await self._site.sharing.shared_with_dead(disk, mark, source, target):
                        text = f"{target.name} does not share {disk.path} of {source.name}"
                        raise EvacuationError(text)
        except TimeoutError:
            self._site.answers.note_late(target)
            text = f"{target.name} has not read the disks within {_LOOKED_WITHIN:.0f} s"
            raise EvacuationError(text) from None

    async def _check_hosts(self) -> Mapping[str, tuple[Domain, ...]]:
        """Check that the domain runs nowhere, and cannot; take back earlier attempts' copies.

        Each host is listed once: one that answers late would hold up each look.

        Returns:
            All domains of all hosts, as they answer or as their agents have stored.

        Raises:
            EvacuationError: it may run somewhere, or its host is no longer fenced.
        """
        site, target, uuid = self._site, self._target, self._domain.uuid
        places = site.hosts.all_places()
        source = next((one for one in places if one.name == self._source.name), None)
        if source is None or not source.fenced or source.fenced_boot != self._source.fenced_boot:
            raise EvacuationError(f"{self._source.name} is not fenced any more")
        answers = await site.listed(places)
        everywhere = await site.with_stored(places, answers)
        looked = looks(places, uuid, answers)
        excused = await self._without(looked)
        views = {
            place.name: HostView.ABSENT if place.name in excused else view
            for place, view, _ in looked
        }
        started = site.records.started_on(uuid, source.name, source.fenced_boot)
        why = why_not(views, target.name)
        if not why and views.get(started) is HostView.ABSENT:
            why = f"it was removed on {started}, where it was started"
        by = holder(views)
        site.records.await_answer(uuid, source.name, "" if by else silent(views))
        if not why:
            why, by = await self._claimed(source, looked, everywhere)
        if why:
            # The same for each target that is tried: one claim is one Event.
            raise EvacuationError(f"{self._domain.name} is not started elsewhere: {why}", by)
        for place, _, domain in looked:
            pending = domain is not None and domain.evacuated == self._marked(pending=True)
            if pending and place.name != target.name:
                await site.daemon(place).undefine(uuid)
        return everywhere

    async def _without(self, looked: Sequence[Look]) -> frozenset[str]:
        """Return hosts that do not answer, and without whose answer the domain is started."""
        about = self._site, self._domain, self._source
        silent = [place for place, view, _ in looked if view is HostView.SILENT]
        found = frozenset([one.name for one in silent if await is_excused(*about, one)])
        if found:
            log.warning("not_waited_for", server=self._domain.uuid, hosts=sorted(found))
        return found

    async def _claimed(
        self, source: Place, looked: Sequence[Look], everywhere: Mapping[str, tuple[Domain, ...]]
    ) -> tuple[str, str]:
        """Return why the domain or its files may be another host's, and which host's; "" twice."""
        site, uuid = self._site, self._domain.uuid
        there = {place.name: domain for place, _, domain in looked if domain is not None}
        found = await site.marks.only_ours(there.values())
        copies = {
            host: copy for host, copy in zip(there, found, strict=True) if host != source.name
        }
        moved_to = site.records.moved_to(uuid, source.name)
        if has_left(source, copies=copies, moved_to=moved_to):
            return f"it is off on {', '.join(copies)}, to where it was evacuated or moved", ""
        own = await site.marks.only_ours((self._domain,))
        others = [place for place, _, _ in looked if place.name != source.name]
        why, by = self._is_anothers([one for one in others if one.name in copies], there, own)
        if why:
            return why, by
        dead = [place for place, view, _ in looked if view is HostView.FENCED and place in others]
        has = [one for one in dead if await site.witnesses.is_stored(uuid, (one.name,))]
        why, by = self._is_recorded_twice(has, own)
        if why:
            return why, by
        carried = as_carried(self._domain, site.carrying.written(self._dead.xml, uuid))
        theirs = {one.name: everywhere[one.name] for one in others if one.name in everywhere}
        by, why = files_taken(carried, theirs) or ("", "")
        return why, by

    def _is_anothers(
        self, places: Iterable[Place], there: Mapping[str, Domain], own: tuple[Domain, ...]
    ) -> tuple[str, str]:
        """Return why the copy may be another host's own and must stay, and which host's it is.

        Whoever has stored the definition may have taken the UUID of an instance that is off there.
        Its seal shows that it was evacuated from the other host, which has not forgotten it yet.
        """
        for place in places:
            copy = there[place.name]
            left = copy.reason == ShutoffReason.MIGRATED or is_leftover(place, own)
            begun = {self._marked(pending=True), moving_from(self._source.name)}
            if not left and copy.evacuated not in begun:
                why = f"it is defined on {place.name}, too, and has not left that by a migration"
                return why, place.name
        return "", ""

    def _is_recorded_twice(self, dead: Iterable[Place], own: tuple[Domain, ...]) -> tuple[str, str]:
        """Return why another dead host's record may be the newer one, and which host's it is.

        A host that dies before its agent has stored that an instance has left still has it by its
        record. The older record may be of an instance that its owner has suspended since.

        Args:
            dead: other dead hosts, which have stored it as well.
            own: the domain as this host has stored it, with this operator's marks only.
        """
        uuid, here = self._domain.uuid, self._source.name
        for place in dead:
            moved_here = self._site.records.moved_to(uuid, place.name) == here
            if not moved_here and not is_leftover(place, own):
                why = (
                    f"{here} and {place.name} both had it when they died, by what they have "
                    "stored, and which of them had it last is not known: start one of the hosts"
                )
                return why, place.name
        return "", ""

    def _marked(self, *, pending: bool) -> Evacuated:
        return Evacuated(self._source.name, self._source.fenced_boot, pending)

    async def _define(self, *, pending: bool) -> None:
        # Not started with its new host either: that one may be dead when this one is back.
        uuid, source = self._domain.uuid, self._source
        self._site.records.give(uuid, source.name, source.fenced_boot, self._target.name)
        mark = await self._site.marks.sealed(uuid, self._marked(pending=pending))
        xml = self._site.carrying.written(self._dead.xml, uuid, mark=mark)
        with self._site.answers.timed(self._target):
            await self._site.daemon(self._target).define(DomainDocument(xml, autostart=False))

    async def _end(self) -> None:
        await self._site.marks.ended(self._domain.uuid, self._marked(pending=True))

    async def _start(self) -> bool:
        """Start the domain, and return whether it is still there: its owner may have removed it.

        Raises:
            TransientError: the domain was not started, and no copy of it is left.
        """
        daemon, uuid = self._site.daemon(self._target), self._domain.uuid
        begun = False
        try:
            await self._check_hosts()
            log.info("starting_evacuated_instance", server=uuid, host=self._target.name)
            begun = True
            with self._site.answers.timed(self._target, _STARTED_WITHIN):
                await daemon.boot(uuid)
        except (EvacuationError, LibvirtRefusedError):
            view, found = await self._site.look(self._target, uuid)
            if begun and self._is_ended(view, found):
                return found is not None
            if view is HostView.OFF:
                await self._end()
                await daemon.undefine(uuid)
            raise
        view, found = await self._site.look(self._target, uuid)
        self._note_start()
        return found is not None or view is not HostView.ABSENT

    def _is_ended(self, view: HostView, found: Domain | None) -> bool:
        """Whether the owner has destroyed or removed the domain while it was being started.

        The domain that this process has just defined can only be removed by another client's call;
        a start that fails by itself leaves the definition, and another reason.
        """
        removed = view is HostView.ABSENT
        destroyed = found is not None and found.reason == ShutoffReason.DESTROYED
        ended = removed or (view is HostView.OFF and destroyed)
        if ended:
            log.info("ended_while_it_started", server=self._domain.uuid, host=self._target.name)
            self._note_start()
        return ended

    def _note_start(self) -> None:
        source, uuid = self._source, self._domain.uuid
        self._site.records.start(uuid, source.name, source.fenced_boot, self._target.name)
