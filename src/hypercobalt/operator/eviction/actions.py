"""Has the compute service do what is planned, all at once, and reports how each call ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_never

from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import ServerStatus
from hypercobalt.compute.port import ComputeService
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction.preflight import mode_refusal
from hypercobalt.operator.eviction.states import (
    Abort,
    Accepted,
    Action,
    Confirm,
    Force,
    Mode,
    Needless,
    Outcome,
    Outdated,
    Recover,
    Refused,
    Start,
    Unanswered,
)
from hypercobalt.runtime.tasks import sole

log = get_logger(__name__)


class Actions:
    """The calls that change something."""

    def __init__(self, compute: ComputeService) -> None:
        self._moves = compute.moves

    async def perform(self, actions: Mapping[str, Action]) -> dict[str, Outcome]:
        """Make the calls; gives how each ended, by UUID of the instance.

        Raises:
            TransientError: this process may not change anything any more.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    id_: group.create_task(self._perform(id_, action))
                    for id_, action in actions.items()
                }
        except BaseExceptionGroup as errors:
            raise sole(errors) from errors
        return {id_: task.result() for id_, task in tasks.items()}

    async def _perform(self, server: str, action: Action) -> Outcome:
        name = type(action).__name__.lower()
        try:
            return await self._call(server, action)
        except UnreachableError as error:
            log.warning("action_unanswered", server=server, action=name, error=str(error))
            return Unanswered(str(error))
        except ConflictError as error:
            log.warning("action_outdated", server=server, action=name, error=str(error))
            return Outdated(str(error))
        except RefusedError as error:
            log.warning("action_refused", server=server, action=name, error=str(error))
            return Refused(str(error))

    async def _call(self, server: str, action: Action) -> Outcome:
        match action:
            case Start():
                return await self._start(action)
            case Confirm():
                return await self._confirm(server)
            case Force(move):
                log.info("forcing_completion", server=server, move=move.id)
                await self._moves.force_complete(move)
            case Abort(move):
                log.info("aborting_migration", server=server, move=move.id)
                await self._moves.abort(move)
            case Recover(damaged):
                log.info("recovering_instance", server=server)
                await self._moves.recover(damaged)
            case _:
                assert_never(action)
        return Accepted()

    async def _start(self, start: Start) -> Outcome:
        server, mode, target = start.server, start.mode, start.target
        log.info("migrating_instance", server=server.id, mode=mode, target=target or None)
        match mode:
            case Mode.LIVE:
                await self._moves.live_migrate(server, target)
            case Mode.COLD:
                await self._moves.cold_migrate(server, target)
            case Mode.EVACUATE | Mode.RESTART:
                return Refused(mode_refusal(mode))
            case _:
                assert_never(mode)
        return Accepted()

    async def _confirm(self, id_: str) -> Outcome:
        server = await self._moves.server(id_)
        if server is None or server.status != ServerStatus.VERIFY_RESIZE:
            return Needless()
        log.info("confirming_migration", server=id_)
        await self._moves.confirm(server)
        return Accepted()
