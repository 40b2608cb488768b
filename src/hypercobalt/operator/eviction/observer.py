"""Asks the compute service: one list of servers and one of moves for each pass and host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Capacity, Host, Move, Server, ServerStatus
from hypercobalt.compute.port import ComputeService
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction.decide import Outcome
from hypercobalt.operator.eviction.follow import Standing, Step
from hypercobalt.operator.eviction.plan import Start
from hypercobalt.operator.eviction.targets import Need, need
from hypercobalt.runtime.tasks import sole

log = get_logger(__name__)

_AT_ONCE: Final = 4
"""Questions about rooms at the same time; there is one for each kind of instance."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is on a host, and on its way from it."""

    servers: tuple[Server, ...]
    moves: tuple[Move, ...]
    reused: bool = False
    """The servers are as they were a moment ago: nothing may be begun by them."""

    def goes_on_as(self, moves: tuple[Move, ...]) -> bool:
        """Whether every move that was under way still is: new ones may have begun."""
        now = {move.id for move in moves if not move.ended}
        return all(move.ended or move.id in now for move in self.moves)


class Observer:
    """What the controller asks of a compute service, and has it do."""

    def __init__(self, compute: ComputeService) -> None:
        self._compute = compute

    @property
    def name(self) -> str:
        """Of the compute service."""
        return self._compute.name

    @property
    def chooses_target(self) -> bool:
        """Whether it finds targets itself."""
        return self._compute.moves.chooses_target

    @property
    def groups_refused(self) -> str:
        """Why the last servers were read without their groups; "" if they have them."""
        return self._compute.moves.groups_refused

    async def host(self, *names: str, fresh: bool = False) -> Host | None:
        """The host that has the first of the names which is known."""
        for name in names:
            found = await self._compute.hosts.get(name, fresh=fresh)
            if found is not None:
                return found
        return None

    async def found(self, host: str, before: Found | None = None) -> Found:
        """Everything on the host, and the moves away from it.

        The servers are asked for first: one that leaves in between is then still seen, rather than
        neither here nor on its way.

        Args:
            host: its name.
            before: found a moment ago, when only the end of a move makes a difference: its servers
                are taken as they were while all of its moves go on.

        Raises:
            UnreachableError: it does not answer.
        """
        if before is not None:
            moves = await self._compute.moves.moves(host)
            if before.goes_on_as(moves):
                return Found(before.servers, moves, reused=True)
        servers = await self._compute.moves.servers(host)
        return Found(servers, await self._compute.moves.moves(host))

    async def rooms(self, servers: Iterable[Server]) -> Mapping[Need, tuple[Capacity, ...]]:
        """For each need among the servers, the hosts that could take one.

        Raises:
            UnreachableError: it does not answer.
        """
        by_need = {need(server): server for server in servers}
        turn = asyncio.Semaphore(_AT_ONCE)

        async def ask(server: Server) -> tuple[Capacity, ...]:
            async with turn:
                return await self._compute.moves.candidates(server)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {kind: group.create_task(ask(one)) for kind, one in by_need.items()}
        except BaseExceptionGroup as errors:
            raise sole(errors) from errors
        return {kind: task.result() for kind, task in tasks.items()}

    async def start(self, starts: Iterable[Start]) -> dict[str, Outcome]:
        """Begin moves, all at once; gives how each call ended, by UUID."""
        async with asyncio.TaskGroup() as group:
            tasks = {start.server.id: group.create_task(self._start(start)) for start in starts}
        return {id_: task.result() for id_, task in tasks.items()}

    async def take(self, standings: Iterable[Standing]) -> dict[str, Outcome]:
        """Take the other steps, all at once; gives how each call ended, by UUID."""
        others = {Step.CONFIRM, Step.FORCE, Step.ABORT, Step.RECOVER}
        async with asyncio.TaskGroup() as group:
            tasks = {s.id: group.create_task(self._step(s)) for s in standings if s.step in others}
        return {id_: task.result() for id_, task in tasks.items()}

    async def _start(self, start: Start) -> Outcome:
        moves, server = self._compute.moves, start.server
        mode = "live" if start.live else "cold"
        log.info("migrating_instance", server=server.id, mode=mode, target=start.target or None)
        begin = moves.live_migrate if start.live else moves.cold_migrate
        try:
            await begin(server, start.target)
        except UnreachableError as error:
            log.warning("migration_uncertain", server=server.id, error=str(error))
            return Outcome(Step.START, start, str(error), unknown=True)
        except (RefusedError, ConflictError) as error:
            log.warning("migration_refused", server=server.id, error=str(error))
            return Outcome(Step.START, start, str(error))
        return Outcome(Step.START, start)

    async def _step(self, standing: Standing) -> Outcome:
        move = standing.seen.move
        if move is None:
            return Outcome(standing.step)
        log.info("stepping_in", server=standing.id, step=standing.step.name, move=move.id)
        try:
            match standing.step:
                case Step.FORCE:
                    await self._compute.moves.force_complete(move)
                case Step.ABORT:
                    await self._compute.moves.abort(move)
                case Step.RECOVER if standing.seen.server is not None:
                    await self._compute.moves.recover(standing.seen.server)
                case _:
                    return await self._confirm(standing)
        except HypercobaltError as error:
            log.warning("step_failed", server=standing.id, error=str(error))
            unknown = isinstance(error, TransientError)
            return Outcome(standing.step, refusal=str(error), unknown=unknown)
        return Outcome(standing.step)

    async def _confirm(self, standing: Standing) -> Outcome:
        server = await self._compute.moves.server(standing.id)
        if server is None or server.status != ServerStatus.VERIFY_RESIZE:
            return Outcome(Step.CONFIRM, needless=True)
        await self._compute.moves.confirm(server)
        return Outcome(Step.CONFIRM)
