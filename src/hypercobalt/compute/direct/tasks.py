"""Moves that this process carries out: one task each, from the check of the target to the end.

Between `check_capacity` and `begin` nothing is awaited: of two passes that choose one target at the
same time, the second sees what the first has claimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from functools import partial

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.compute.direct import servers
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.outcome import HostView, unanswered
from hypercobalt.compute.direct.servers import called
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.direct.unanswering import is_excused
from hypercobalt.compute.errors import (
    ComputeConflictError,
    MayRunElsewhereError,
    RefusedError,
    UnreachableError,
)
from hypercobalt.compute.model import Capacity, Move, MoveKind, Server, fits, total
from hypercobalt.logs import get_logger

log = get_logger(__name__)


class MoveTasks:
    """Tasks of the moves under way, and of repairs after those of other processes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tasks: set[asyncio.Task[None]] = set()

    def place(self, host: str) -> Place:
        """Return a host that a call names.

        Raises:
            RefusedError: there is none of that name.
        """
        place = self._site.hosts.find(host)
        if place is None:
            raise RefusedError(f"host {host!r} is not known", reason="NotFound", code=404)
        return place

    async def target(self, server: Server, wanted: str) -> Place:
        """Return the target of a move, once its identity is checked.

        Raises:
            RefusedError: none is named, the server is there already, or its identity is doubted.
            UnreachableError: it does not answer; it is the last one for the next moves.
        """
        if wanted == server.host:
            raise RefusedError(f"{called(server)} is on {wanted} already")
        if not wanted:
            raise RefusedError(f"{called(server)}: name a target host, there is no scheduler")
        place = self.place(wanted)
        try:
            await self._site.identities.check(place)
        except UnreachableError:
            self._site.answers.note_late(place)  # it has the capacity that it says it has
            raise
        return place

    async def check_answer(self, server: Server, source: Place, domain: Domain) -> None:
        """Check that the host answers whose silence ended the last attempt to move a server.

        Args:
            server: that moves.
            source: its host.
            domain: the server as it is there, or was.

        Raises:
            MayRunElsewhereError: it is silent still; waiting for it is no attempt.
        """
        name = self._site.records.awaited(server.id, source.name)
        place = self._site.hosts.find(name) if name else None
        if place is None:
            return  # none is awaited, or it has no Hypervisor any more
        view, _ = await self._site.look(place, server.id)
        if view is HostView.SILENT and not await is_excused(self._site, domain, source, place):
            raise MayRunElsewhereError(f"{called(server)}: {unanswered(place.name)}")

    def capacity(self, place: Place, now: datetime) -> Capacity:
        """Return a host's resources; what is on its way there is claimed."""
        claims = self._site.records.claims(place.name, place.domains, now)
        late = self._site.answers.is_late(place)
        return Capacity(place.name, place.capacity, total((place.used, claims)), is_late=late)

    def check_capacity(self, server: Server, domain: Domain, to: Place) -> None:
        """Check that the capacity is still free.

        Raises:
            ComputeConflictError: it is claimed.
        """
        left = self.capacity(to, self._site.clock.now())
        if not fits(servers.size(domain), left):
            raise ComputeConflictError(
                f"{called(server)}: {to.name} no longer has the capacity: "
                f"{left.used.vcpus:g} of {left.total.vcpus:g} vCPUs and {left.used.memory_mib} "
                f"of {left.total.memory_mib} MiB are claimed"
            )

    def begin(self, domain: Domain, kind: MoveKind, source: Place, to: Place) -> Move:
        """Record a move that begins now; it claims its target's capacity."""
        size, now = servers.size(domain), self._site.clock.now()
        return self._site.records.begin(
            domain.uuid, size, kind, source=source.name, target=to.name, now=now
        )

    def start(self, move: Move, work: Coroutine[None, None, None]) -> None:
        """Carry out the work of a move that was begun."""
        task = asyncio.create_task(work, name="move")
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, move))

    def _ended(self, move: Move, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("move_failed", server=move.server, exc_info=error)
            # No task follows it any more: the next attempt finds what is where, as after a crash.
            fault = f"fault of the operator ({type(error).__name__}); see its log"
            self._site.record(move, "error", fault)

    def repair(self, work: Coroutine[None, None, None]) -> None:
        """Carry out work that belongs to no move of this process, beside its moves."""
        task = asyncio.create_task(work, name="repair")
        self._tasks.add(task)
        task.add_done_callback(self._repaired)

    def _repaired(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("repair_failed", exc_info=error)

    async def close(self) -> None:
        """Follow no move any longer; libvirt goes on with them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
