"""One live migration, from its preparation until it is known where the domain runs.

libvirt's source daemon does the migration by itself; this module follows it. If a follower dies,
the next one finds the job, or the domain where it arrived, and cleans up.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from hypercobalt.adapters.libvirt.model import Devices, Disk, Domain, DomainState, MigrationOptions
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.compute.direct import obstacles, port_claims
from hypercobalt.compute.direct.carrying import as_carried
from hypercobalt.compute.direct.claims import ClaimedError, claimant, files_taken
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.holding import Holding
from hypercobalt.compute.direct.outcome import HostView, MoveOutcome, decide, has_it
from hypercobalt.compute.direct.records import BytesLeft
from hypercobalt.compute.direct.site import Site, also_on
from hypercobalt.compute.direct.tls_errors import explained
from hypercobalt.compute.errors import ComputeConflictError
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_LOOK_AGAIN: Final = 1.0
"""Seconds between two reads: the connections to the hosts carry no events."""

_ENDED: Final = frozenset({ShutoffReason.SHUTDOWN, ShutoffReason.DESTROYED})
"""Ends that were ordered on the source. A crash may be that of a source daemon which was
stopped in the last step of a migration."""

_STANDS_FOR: Final = 60
"""Looks, a second apart, after which a move that only its target shows has ended; QEMU gives up
much earlier."""
_STANDS: Final = {
    HostView.RUNS: MoveOutcome.STAYED,
    HostView.FENCED: MoveOutcome.LOST,
    HostView.ABSENT: MoveOutcome.LOST,
}
"""Outcomes of a move that only its target shows, by how the source has the domain."""

_WORDS: Final = {
    MoveOutcome.TWICE: "it runs on {source} and on {target}: stop one of them at once",
    MoveOutcome.LOST: "neither {source} nor {target} runs it any more",
    MoveOutcome.STAYED: "it has stayed on {source}",
    MoveOutcome.STAYED_HELD: "it has stayed on {source}",
}


class LiveMove:
    """One migration of a domain.

    Args:
        site: see there.
        move: its record.
        domain: as the source has it.
        source: where it is.
        target: where it goes.
        tls: QEMU's streams are encrypted.
    """

    def __init__(
        self, site: Site, move: Move, domain: Domain, source: Place, target: Place, *, tls: bool
    ) -> None:
        self._site, self._move, self._domain = site, move, domain
        self._source, self._target, self._tls = source, target, tls
        self._copied: tuple[Disk, ...] = ()
        self._made: list[Disk] = []  # copies whose files were not on the target before
        self._why, self._claimed_by = "", ""
        self._begun, self._adopted = False, False
        self._stands = 0  # looks in a row that only the target shows it
        self._carried = domain  # as the target gets it, once the documents are read
        self._holding = Holding(site, domain, source, target)

    async def run(self) -> None:
        """Move the domain, and follow the move to its end."""
        try:
            options = await self._prepare()
            self._site.record(self._move, "running")
            self._begun = True
            await self._site.daemon(self._source).migrate(self._domain.uuid, options)
        except TransientError as exc:
            self._why, self._claimed_by = explained(exc), claimant(exc)
        await self.follow()

    async def follow(self) -> None:
        """Wait until it is known where the domain is, then clean up after the migration."""
        while True:
            outcome, seen = await self._observe()
            has_ended = outcome not in {MoveOutcome.UNDER_WAY, MoveOutcome.UNKNOWN}
            if self._adopted and (by := await self._claimant(seen, has_ended=has_ended)):
                self._give_up(by)
                return
            if has_ended:
                break
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            await self._finish(outcome, seen)
        except TransientError as exc:
            log.warning("move_left_over", server=self._domain.uuid, reason=str(exc))
        self._conclude(outcome)
        await self._holding.until_stored()

    async def _prepare(self) -> MigrationOptions:
        site, source, target = self._site, self._source, self._target
        for place, view, _ in await site.look_everywhere(
            self._domain.uuid, site.hosts.others(source.name)
        ):
            if view in {HostView.OFF, HostView.RUNS, HostView.HELD, HostView.LEAVES}:
                raise ClaimedError(also_on(self._domain, place), place.name)
        running, defined = await self._documents()
        carried = self._carried
        for layer in obstacles.layers(carried):
            if not await site.sharing.shares(layer, source, target, fresh=True):
                raise ComputeConflictError(f"{target.name} does not see {layer.path}")
        self._copied = await self._local(carried)
        await self._check_files(carried, as_carried(self._domain, defined))
        for disk in self._copied:
            await self._make_room(disk)
        await self._holding.prepare(defined)
        await port_claims.bind(site, self._carried, (source.name, target.name))
        return MigrationOptions(
            destination=target.migration,
            stream=target.stream,
            copies=tuple(disk.target for disk in self._copied),
            tls=self._tls,
            running=running,
            defined=defined,
        )

    async def _documents(self) -> tuple[str, str]:
        """Return the documents for the target: of the domain as it runs, and as it is defined."""
        uuid, daemon = self._domain.uuid, self._site.daemon(self._source)
        running = await daemon.document(uuid, running=True)
        defined = await daemon.document(uuid)
        written = partial(self._site.carrying.written, uuid=uuid, copies=True)
        documents = written(running.xml), written(defined.xml)
        carried, stored = (as_carried(self._domain, one) for one in documents)
        ports = dict.fromkeys((*carried.devices.ports, *stored.devices.ports))
        self._carried = replace(carried, devices=replace(carried.devices, ports=tuple(ports)))
        return documents

    async def _local(self, domain: Domain) -> tuple[Disk, ...]:
        """Return the disks that the target does not share."""
        disks = [disk for disk in domain.devices.disks if disk.path]
        shared = [
            await self._site.sharing.shares(disk, self._source, self._target) for disk in disks
        ]
        return tuple(disk for disk, is_shared in zip(disks, shared, strict=True) if not is_shared)

    async def _check_files(self, *carried: Domain) -> None:
        """Check that no file which the target writes to, or copies to, is another domain's.

        Of a host that does not answer, what its agent has stored counts: its guests may run on.

        Args:
            carried: as the target gets it, running and defined.

        Raises:
            ClaimedError: a file is that of a domain on any other host.
            LibvirtError: it is on the target alone, so another target may do.
        """
        listed = await self._site.everywhere(self._site.hosts.others(self._source.name))
        there = {self._target.name: listed.get(self._target.name, ())}
        for domain in carried:
            local = replace(domain, devices=Devices(await self._local(domain)))
            if taken := files_taken(local, there):
                raise LibvirtError(f"{domain.name}: {taken.text}")
            if taken := files_taken(domain, listed, only_named=True):
                raise ClaimedError(taken.text, taken.host)

    async def _make_room(self, disk: Disk) -> None:
        daemon = self._site.daemon(self._target)
        directory, name = posixpath.split(disk.path)
        await daemon.make_directory(directory)
        if not await daemon.has_file(directory, name):
            self._made.append(disk)

    async def _observe(self) -> tuple[MoveOutcome, dict[str, HostView]]:
        site, uuid = self._site, self._domain.uuid
        source, target = site.hosts.find(self._source.name), site.hosts.find(self._target.name)
        (here, domain), (there, _) = await asyncio.gather(
            site.look(source, uuid), site.look(target, uuid)
        )
        if domain and domain.moving_out:
            site.records.progress(self._move, progress(domain), site.clock.now())
            self._begun = True
        outcome = self._ended(decide(here, there), here, there)
        if self._is_another(outcome, domain):
            self._claimed_by, outcome = self._target.name, MoveOutcome.STAYED
        elif outcome is MoveOutcome.ARRIVED or (self._begun and here is HostView.ABSENT):
            self._holding.arrived()
        if outcome is MoveOutcome.UNKNOWN:
            self._site.record(
                self._move, None, f"{self._source.name} is {here}, {self._target.name} is {there}"
            )
        return outcome, {"source": here, "target": there}

    def _ended(self, outcome: MoveOutcome, here: HostView, there: HostView) -> MoveOutcome:
        """Return the outcome, without a target that has the domain arrive for ever.

        libvirt lists what arrives for some seconds after the source has ended the migration.
        """
        ends = _STANDS.get(here) if there is HostView.ARRIVES else None
        self._stands = self._stands + 1 if ends else 0
        return ends if ends and self._stands > _STANDS_FOR else outcome

    async def _claimant(self, seen: Mapping[str, HostView], *, has_ended: bool) -> str:
        """Return the host for which a move of another process cannot be followed; "" for none.

        Which host that process has named as the target is not known. A third host may have the
        domain, by its list or by what its agent has stored; and of a dead source nothing shows that
        the domain has gone to the host that lists it.

        Args:
            seen: how source and target have the domain.
            has_ended: the migration has; what agents have stored may be older before.
        """
        site, uuid = self._site, self._domain.uuid
        if has_ended and seen["source"] is HostView.FENCED and seen["target"] is HostView.RUNS:
            return self._target.name
        others = site.hosts.others(self._source.name)
        third = [one for one in others if one.name != self._target.name]
        for place, view, found in await site.look_everywhere(uuid, third):
            answers = view not in {HostView.SILENT, HostView.FENCED}
            if has_it(view, found):
                return place.name
            if has_ended and not answers and await site.witnesses.is_stored(uuid, (place.name,)):
                return place.name
        return ""

    def _give_up(self, by: str) -> None:
        """Record that a move of another process is not followed: nothing is changed on any host."""
        why = (
            f"{self._domain.name} was moved by another process, and {by} claims to have it: "
            f"compare {self._source.name}, {self._target.name} and {by}"
        )
        log.warning("adopted_move_given_up", server=self._domain.uuid, claimed_by=by)
        self._holding.give_up()
        self._site.record(self._move, "error", why, claimed_by=by)

    def _is_another(self, outcome: MoveOutcome, here: Domain | None) -> bool:
        """Whether the target runs one that no migration has brought: it may be captured.

        Args:
            outcome: by the views of both hosts.
            here: the domain on the source.
        """
        if outcome in {MoveOutcome.TWICE, MoveOutcome.UNDER_WAY}:
            return not self._begun
        if outcome is not MoveOutcome.ARRIVED or (here is not None and here.active):
            return False
        if here is None or here.reason == ShutoffReason.MIGRATED:
            return here is None and not self._begun
        return not self._begun or here.reason in _ENDED

    async def _finish(self, outcome: MoveOutcome, seen: dict[str, HostView]) -> None:
        site, source, target = self._site, self._source, self._target
        arrived = outcome is MoveOutcome.ARRIVED
        if outcome is MoveOutcome.TWICE or outcome is MoveOutcome.LOST:
            log.error("move_left_no_single_copy", server=self._domain.uuid, outcome=str(outcome))
            return
        if outcome is MoveOutcome.STAYED_HELD and self._domain.state is not DomainState.PAUSED:
            await site.daemon(source).resume(self._domain.uuid)
        try:
            await port_claims.bind(site, self._carried, (target.name if arrived else source.name,))
        except port_claims.PortClaimedError as exc:
            log.warning("ports_not_bound", server=self._domain.uuid, reason=str(exc))
        if arrived and seen["source"] is HostView.OFF:  # libvirt was stopped before its last step
            await site.daemon(source).undefine(self._domain.uuid)
        if arrived and seen["source"] in {HostView.ABSENT, HostView.OFF}:
            await self._delete(self._copied, at=source, kept_by=target)
        elif not arrived and seen["target"] is HostView.ABSENT:
            await self._delete(self._made, at=target, kept_by=source)

    async def _delete(self, disks: Iterable[Disk], *, at: Place, kept_by: Place) -> None:
        there = await self._site.listed((at,))
        for disk in disks:
            # Another domain may have got a file of that name while this one moved.
            if taken := files_taken(replace(self._domain, devices=Devices((disk,))), there):
                log.warning("copy_not_deleted", server=self._domain.uuid, why=taken.text)
                continue
            # A second read: no file of the domain itself is deleted.
            if not await self._site.sharing.shares(disk, at, kept_by, fresh=True):
                directory, name = posixpath.split(disk.path)
                await self._site.daemon(at).delete_file(directory, name)

    def _conclude(self, outcome: MoveOutcome) -> None:
        if outcome is MoveOutcome.ARRIVED:
            self._site.record(self._move, "completed")
            return
        cancelled = "canceled by client" in self._why
        words = _WORDS[outcome].format(source=self._source.name, target=self._target.name)
        why = f"{words}: {self._why}" if self._why else words
        status = "cancelled" if cancelled else "error"
        self._site.record(self._move, status, why, claimed_by=self._claimed_by)

    def adopt(self) -> None:
        """Take over a migration that another process began; its copied disks are the local ones."""
        self._begun = self._adopted = True
        self._site.record(self._move, "running")
        self._copied = obstacles.local_disks(
            self._domain, lambda disk: self._site.sharing.is_shared(disk, self._source.name)
        )

    async def follow_adopted(self) -> None:
        """Follow a migration that was taken over, as one of this process."""
        try:
            _, defined = await self._documents()
            await self._holding.prepare(defined)
        except TransientError as exc:  # it may have left already
            log.info("definition_not_held", server=self._domain.uuid, reason=str(exc))
        await self.follow()


def progress(domain: Domain) -> BytesLeft:
    """Record the progress, from the domain's job."""
    values = domain.job.values if domain.job else {}

    def count(key: str) -> int:
        value = values.get(key, 0)
        return value if isinstance(value, int) else 0

    return BytesLeft(count("memory_total"), count("memory_remaining"), count("disk_remaining"))
