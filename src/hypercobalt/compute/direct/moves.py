"""Servers on the hosts and their moves: see `hypercobalt.compute.server_port.Moves`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from hypercobalt.adapters.libvirt.model import Disk, Domain, DomainState
from hypercobalt.compute.direct import dead, leftovers, servers
from hypercobalt.compute.direct.answers import translated
from hypercobalt.compute.direct.carrying import NotCarriedError
from hypercobalt.compute.direct.cold import ColdMove
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.identity import answering
from hypercobalt.compute.direct.live import LiveMove, progress
from hypercobalt.compute.direct.obstacles import IsShared
from hypercobalt.compute.direct.outcome import HostView, has_it
from hypercobalt.compute.direct.servers import called
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.direct.tasks import MoveTasks
from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Capacity, Move, MoveKind, Server, fits
from hypercobalt.logs import get_logger

log = get_logger(__name__)


class DirectMoves:
    """See `hypercobalt.compute.server_port.Moves`.

    Args:
        site: see there.
        tasks: those of the moves.
        tls: QEMU's own streams are encrypted.
    """

    def __init__(self, site: Site, tasks: MoveTasks, *, tls: bool) -> None:
        self._site, self._tasks, self._tls = site, tasks, tls
        self._settled = False

    @property
    def groups_refused(self) -> str:
        """Return "": there are no server groups without OpenStack."""
        return ""

    @property
    def chooses_target(self) -> bool:
        """Return False: there is no scheduler."""
        return False

    # -- what is there -------------------------------------------------------------------------

    async def servers(self, host: str) -> tuple[Server, ...]:
        place = self._known(host)
        await self._settle_ports()
        if place.fenced:
            return await dead.servers_of(self._site, place)
        with translated(f"host {host}"):
            domains = await self._site.daemon(place).domains(jobs=True)
        await self._learn(place, domains)
        return tuple(self._server(domain, place) for domain in domains if not domain.moving_in)

    async def server(self, id: str) -> Server | None:
        places = self._site.hosts.all_places()
        likely = [place for place in places if id in place.domains]
        leftover: tuple[Place, Domain] | None = None
        for some in (likely, places):
            seen = await self._site.look_everywhere(id, some)
            # Where it is active; else where it is defined. The far end of a move has it not yet.
            for place, view, domain in sorted(seen, key=lambda one: one[1] is HostView.OFF):
                if domain is not None and view is HostView.OFF and (found := await self._dead(id)):
                    return found
                if domain is not None and view is HostView.OFF and place.fenced_boot:
                    # A host that was fenced and answers keeps a copy of what has left it.
                    leftover = place, domain
                elif domain is not None and view is not HostView.ARRIVES:
                    await self._learn(place, (domain,))
                    return self._server(domain, place)
        if leftover is not None:  # nothing shows where it is now
            place, domain = leftover
            await self._learn(place, (domain,))
            return self._server(domain, place)
        if found := await self._dead(id, all_read=True):
            return found
        silent = [place.name for place, view, _ in seen if view is HostView.SILENT]
        if silent:
            text = f"no host that answers has server {id}; silent hosts: {', '.join(silent)}"
            raise UnreachableError(text)
        return None

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        """Look on hosts that answer; the end of a move was seen on its target."""
        there = await self._site.listed(self._site.hosts.all_places())
        return tuple(
            self._server(domain, place)
            for place in self._site.hosts.all_places()
            for domain in there.get(place.name, ())
            if domain.uuid in ids and domain.state is DomainState.CRASHED
        )

    async def _dead(self, id: str, *, all_read: bool = False) -> Server | None:
        """Return the server, if it is on a host that is proven dead.

        Raises:
            UnreachableError: with `all_read`, a host may have it whose definitions cannot be read.
        """
        unread: UnreachableError | None = None
        for place in self._site.hosts.all_places():
            try:
                if not (place.fenced and await dead.has_stored(self._site, place, id)):
                    continue
                there = await dead.servers_of(self._site, place)
            except UnreachableError as error:
                unread = unread or error
            else:
                if found := next((one for one in there if one.id == id), None):
                    return found
        if all_read and unread is not None:
            raise unread
        return None

    async def moves(self, host: str) -> tuple[Move, ...]:
        place = self._known(host)
        if place.fenced:
            return self._site.records.of(place.name)
        with translated(f"host {host}"):
            domains = await self._site.daemon(place).domains(jobs=True)
        records, now = self._site.records, self._site.clock.now()
        leaving = [domain for domain in domains if domain.moving_out]
        moves = [
            records.under_way_from(one.uuid, place.name) or await self._adopt(one, place)
            for one in leaving
        ]
        for domain, move in zip(leaving, moves, strict=True):
            records.progress(move, progress(domain), now)
        unknown = tuple(move for move in moves if not move.target)
        return (*unknown, *records.of(place.name))

    async def incoming(self, host: str) -> tuple[Move, ...]:
        """Find moves by other processes on the target, as listed by libvirt."""
        place, records = self._known(host), self._site.records
        domains: tuple[Domain, ...] = ()
        if not place.fenced:
            with translated(f"host {host}"):
                domains = await self._site.daemon(place).domains(jobs=True)
        known, now = records.incoming(place.name), self._site.clock.now()
        named = {move.server for move in known}
        return (
            *known,
            *(
                Move(one.uuid, one.uuid, MoveKind.LIVE, "running", "", place.name, now, now)
                for one in domains
                if one.moving_in and one.uuid not in named
            ),
        )

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        now = self._site.clock.now()
        found = (
            self._tasks.capacity(place, now)
            for place in self._site.hosts.open_places()
            if place.name != server.host and not self._site.identities.is_doubted(place)
        )
        return tuple(each for each in found if fits(server.size, each))

    # -- moving --------------------------------------------------------------------------------

    async def live_migrate(self, server: Server, target: str = "") -> None:
        source, domain = await self._movable(server)
        if domain is None:
            return
        if not domain.active:
            raise RefusedError(f"{called(server)} is off: a live migration cannot move it")
        to = await self._tasks.target(server, target)
        if not self._site.records.under_way(server.id):  # another pass may have begun meanwhile
            self._tasks.check_capacity(server, domain, to)
            move = self._tasks.begin(domain, MoveKind.LIVE, source, to)
            self._tasks.start(
                move, LiveMove(self._site, move, domain, source, to, tls=self._tls).run()
            )

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        source, domain = await self._movable(server)
        if domain is None:
            return
        if domain.active:
            raise RefusedError(f"{called(server)} runs: a cold migration cannot move it")
        to = await self._tasks.target(server, target)
        await self._tasks.check_answer(server, source, domain)
        if not self._site.records.under_way(server.id):
            self._tasks.check_capacity(server, domain, to)
            move = self._tasks.begin(domain, MoveKind.COLD, source, to)
            self._tasks.start(move, ColdMove(self._site, move, domain, source, to).run())

    async def confirm(self, server: Server) -> None:
        """Refuse: no move waits for this, as the source forgets the domain when the move ends.

        Raises:
            ComputeConflictError: always.
        """
        raise ComputeConflictError(f"{called(server)} has no move to confirm")

    async def abort(self, move: Move) -> None:
        now = self._site.records.get(move)
        if not now.ended and now.kind == MoveKind.LIVE:
            with translated(f"server {move.server}"):
                await self._site.daemon(self._tasks.place(now.source)).abort(move.server)

    async def force_complete(self, move: Move) -> None:
        now = self._site.records.get(move)
        if not now.ended and now.kind == MoveKind.LIVE:
            with translated(f"server {move.server}"):
                await self._site.daemon(self._tasks.place(now.source)).force_complete(move.server)

    # -- parts ---------------------------------------------------------------------------------

    async def _settle_ports(self) -> None:
        """Bind the ports of moves that ended with their process; what is left over, later."""
        if self._settled:
            return
        with translated("ports between hosts"):
            left = await leftovers.settle_ports(self._site)
        if not self._settled:  # another pass may have settled them meanwhile
            self._settled = True
            if left:
                self._tasks.repair(leftovers.settle_until_done(self._site, left))

    def _known(self, host: str) -> Place:
        """Return a host with readable domains: without its address they are not known."""
        place = self._site.hosts.find(host)
        if place is None:
            raise UnreachableError(f"host {host}: no Hypervisor of that name has an address")
        return place

    async def _learn(self, place: Place, domains: tuple[Domain, ...]) -> None:
        others = [one for one in self._site.hosts.others(place.name) if one.up]
        prompt_first = sorted(others, key=self._site.answers.is_late)
        with answering(place):
            await self._site.sharing.learn(domains, place, prompt_first)

    def _shared_at(self, place: Place) -> IsShared:
        def is_shared(disk: Disk) -> bool:
            return self._site.sharing.is_shared(disk, place.name)

        return is_shared

    def _server(self, domain: Domain, place: Place) -> Server:
        found = servers.server(domain, place.name, self._shared_at(place))
        if self._site.records.under_way(domain.uuid) and not found.task_state:
            return replace(found, task_state="migrating")
        return found

    async def _movable(self, server: Server) -> tuple[Place, Domain | None]:
        """Return where the server is, and the server; None when it is on its way already.

        Raises:
            ComputeConflictError: it is no longer there.
            RefusedError: it cannot be moved.
            UnreachableError: its host does not answer.
        """
        place = self._tasks.place(server.host)
        if self._site.records.under_way(server.id):
            return place, None
        domain = await self.domain_of(server, place)
        if domain.moving_out:
            await self._adopt(domain, place)
            return place, None
        await self._site.identities.check(place)
        await self._learn(place, (domain,))
        if why := self._server(domain, place).hindrance:
            raise RefusedError(f"{called(server)} cannot be moved: {why}", reason="Hindered")
        await self._check_definition(server, place, domain)
        return place, domain

    async def _check_definition(self, server: Server, place: Place, domain: Domain) -> None:
        with translated(f"server {server.name}"):
            found = await self._site.daemon(place).document(domain.uuid)
        try:
            self._site.carrying.written(found.xml, domain.uuid, copies=domain.active)
        except NotCarriedError as exc:
            text = f"{called(server)} cannot be moved: {exc}"
            raise RefusedError(text, reason="Hindered") from None

    async def domain_of(self, server: Server, place: Place) -> Domain:
        """Return a server's domain on the host that it is read to be on.

        Raises:
            ComputeConflictError: it is no longer there.
            RefusedError: it is gone.
            UnreachableError: the host does not answer.
        """
        with translated(f"server {server.name}"):
            domain = await self._site.domain(place, server.id)
        if domain is None or domain.moving_in:
            if await self.server(server.id) is None:
                raise RefusedError(f"{called(server)} is gone", reason="NotFound", code=404)
            raise ComputeConflictError(f"{called(server)} is no longer on {server.host}")
        return domain

    async def _adopt(self, domain: Domain, source: Place) -> Move:
        """Follow a migration that this process has not begun."""
        others = self._site.hosts.others(source.name)
        seen = await self._site.look_everywhere(domain.uuid, others)
        known = self._site.records.under_way_from(domain.uuid, source.name)
        if known:
            return known
        target = _only_target(seen)
        if target is None:  # none yet, or it does not reply: the next poll shows it
            now = self._site.clock.now()
            return Move(
                domain.uuid, domain.uuid, MoveKind.LIVE, "running", source.name, "", now, now
            )
        log.info("move_adopted", server=domain.uuid, source=source.name, target=target.name)
        move = self._tasks.begin(domain, MoveKind.LIVE, source, target)
        await self._learn(source, (domain,))
        adopted = LiveMove(self._site, move, domain, source, target, tls=self._tls)
        adopted.adopt()
        self._tasks.start(move, adopted.follow_adopted())
        return move


def _only_target(seen: Iterable[tuple[Place, HostView, Domain | None]]) -> Place | None:
    """Return the host where a domain arrives, if no other host but its source claims to have it.

    A captured host lists any domain as arriving, or as leaving it while it moves elsewhere.

    Args:
        seen: how all hosts but the source have the domain.
    """
    having = [(place, view) for place, view, found in seen if has_it(view, found)]
    arrives = [place for place, view in having if view is HostView.ARRIVES]
    return arrives[0] if arrives and len(having) == 1 else None
