"""One evacuation: a domain whose host is proven dead is defined on another host, and started there.

Every other host is looked at twice, before the definition and right before the start; so is the
proof. The definition there is marked: as pending before the start, as evacuated after it. A process
that ends in between leaves a pending copy, which the next one starts, takes back, or finds running.

The network lets the domain's ports be bound on the new host alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from hypercobalt.adapters.libvirt.model import Domain, DomainDocument, Evacuated
from hypercobalt.adapters.libvirt.port import DiskInUseError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.claims import ClaimedError, disks_taken
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.direct.dead import DeadDomain
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, why_not
from hypercobalt.compute.direct.remains import has_left
from hypercobalt.compute.direct.shared_disks import files
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)


class EvacuationError(ClaimedError):
    """It is not started elsewhere; the message has the reason."""


class Evacuation:
    """One of them.

    Args:
        site: see there.
        move: its record.
        dead: what there was.
        target: where it goes.
    """

    def __init__(self, site: Site, move: Move, dead: DeadDomain, target: Place) -> None:
        self._site, self._move, self._dead = site, move, dead
        self._domain, self._source, self._target = dead.domain, dead.place, target

    async def run(self) -> None:
        """Have it on the target, and record how that went."""
        try:
            self._site.record(self._move, "running")
            await self._check_disks()
            await self._check_hosts()
            await port_claims.bind(self._site, self._domain, (self._target.name,))
            await self._define(pending=self._domain.active)
            if self._domain.active:
                await self._start()
                await self._define(pending=False)
        except TransientError as exc:
            by = exc.by if isinstance(exc, ClaimedError) else ""
            in_use = isinstance(exc, DiskInUseError)
            self._site.record(self._move, "error", str(exc), claimed_by=by, in_use=in_use)
        else:
            self._site.record(self._move, "done")

    async def _check_disks(self) -> None:
        mark, source, target = self._dead.mark, self._source, self._target
        for disk in files(self._domain):
            if not await self._site.sharing.shared_with_dead(disk, mark, source, target):
                raise EvacuationError(f"{target.name} does not share {disk.path} of {source.name}")

    async def _check_hosts(self) -> None:
        """See that it runs nowhere and can run nowhere; take back what an earlier attempt has left.

        Raises:
            EvacuationError: that is not so, or its host is not fenced any more.
        """
        site, target, uuid = self._site, self._target, self._domain.uuid
        places = site.hosts.all_places()
        source = next((one for one in places if one.name == self._source.name), None)
        if source is None or not source.fenced or source.fenced_boot != self._source.fenced_boot:
            raise EvacuationError(f"{self._source.name} is not fenced any more")
        looked = await site.look_everywhere(uuid, places)
        why = why_not({place.name: view for place, view, _ in looked}, target.name)
        by = next((place.name for place, view, _ in looked if view is HostView.RUNS), "")
        there = {place.name: domain for place, _, domain in looked if domain is not None}
        copies = await site.marks.only_ours(
            domain for host, domain in there.items() if host != source.name
        )
        if not why and has_left(source, ran=self._domain.active, copies=copies):
            why = f"it is off on {', '.join(there)}, to where it was evacuated"
        if not why and self._domain.active:
            why, by = self._is_anothers(there, source)
        if not why:
            others = [place for place in places if place.name != source.name]
            by, why = disks_taken(self._domain, await site.everywhere(others)) or ("", "")
        if why:
            text = f"{self._domain.name} is not started on {target.name}: {why}"
            raise EvacuationError(text, by)
        for place, _, domain in looked:
            pending = domain is not None and domain.evacuated == self._marked(pending=True)
            if pending and place.name != target.name:
                await site.daemon(place).undefine(uuid)

    def _is_anothers(self, there: Mapping[str, Domain], source: Place) -> tuple[str, str]:
        """Why it may be another host's own, whose definition must not be replaced, and whose.

        Whoever has stored the definition may have taken the UUID of an instance that is off there.
        """
        for host, copy in there.items():
            left = copy.reason == ShutoffReason.MIGRATED
            pending = copy.evacuated in {self._marked(pending=True), moving_from(source.name)}
            if host != source.name and not left and not pending:
                why = f"it is defined on {host}, too, and has not left that by a migration"
                return why, host
        return "", ""

    def _marked(self, *, pending: bool) -> Evacuated:
        return Evacuated(self._source.name, self._source.fenced_boot, pending)

    async def _define(self, *, pending: bool) -> None:
        # Not started with its new host either: that one may be dead when this one is back.
        uuid = self._domain.uuid
        mark = await self._site.marks.sealed(uuid, self._marked(pending=pending))
        xml = self._site.carrying.written(self._dead.xml, uuid, mark=mark)
        await self._site.daemon(self._target).define(DomainDocument(xml, autostart=False))

    async def _start(self) -> None:
        daemon, uuid = self._site.daemon(self._target), self._domain.uuid
        try:
            await self._check_hosts()
            log.info("starting_evacuated_instance", server=uuid, host=self._target.name)
            await daemon.boot(uuid)
        except (EvacuationError, LibvirtRefusedError):
            view, _ = await self._site.look(self._target, uuid)
            if view is HostView.OFF:
                await daemon.undefine(uuid)
            raise
