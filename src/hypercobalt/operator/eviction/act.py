"""Makes the planned calls to the compute service, all at once, and reports how each ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_never

from hypercobalt.compute.errors import (
    ComputeConflictError,
    ComputeError,
    MayRunElsewhereError,
    RefusedError,
    UnreachableError,
)
from hypercobalt.compute.model import ServerStatus
from hypercobalt.compute.port import ComputeService
from hypercobalt.compute.server_port import Recovery
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction.model.actions import (
    Abort,
    Accepted,
    Action,
    CallOutcome,
    Confirm,
    Force,
    Needless,
    NotYet,
    Outdated,
    Recover,
    Refused,
    Restart,
    Start,
    Unanswered,
    is_evacuation,
)
from hypercobalt.operator.eviction.model.states import Mode
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime.tasks import sole

log = get_logger(__name__)


class Actions:
    """The calls that change something.

    Args:
        compute: makes them.
        proofs: check that a host is dead at the time of an evacuation.
    """

    def __init__(self, compute: ComputeService, proofs: Proofs) -> None:
        self._compute, self._moves, self._proofs = compute, compute.moves, proofs

    @property
    def _recovery(self) -> Recovery:
        if self._compute.recovery is None:
            raise RefusedError(f"{self._compute.name} recovers no instances", reason="NoRecovery")
        return self._compute.recovery

    async def perform(self, host: str, actions: Mapping[str, Action]) -> dict[str, CallOutcome]:
        """Make the calls, and return how each ended, by UUID of the instance.

        Args:
            host: the Hypervisor that the instances are on.
            actions: by UUID.

        Raises:
            TransientError: this process may not change anything any more, or the proof that a host
                is dead cannot be read.
        """
        evacuated = [id_ for id_, action in actions.items() if is_evacuation(action)]
        if evacuated and (doubt := await self._proofs.missing(host)):
            log.warning("evacuation_without_proof", hypervisor=host, text=doubt)
            left = {id_: action for id_, action in actions.items() if id_ not in evacuated}
            return dict.fromkeys(evacuated, NotYet(doubt)) | await self._all(left)
        return await self._all(actions)

    async def _all(self, actions: Mapping[str, Action]) -> dict[str, CallOutcome]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    id_: group.create_task(self._perform(id_, action))
                    for id_, action in actions.items()
                }
        except BaseExceptionGroup as errors:
            raise sole(errors) from errors
        return {id_: task.result() for id_, task in tasks.items()}

    async def _perform(self, server: str, action: Action) -> CallOutcome:
        name = type(action).__name__.lower()
        try:
            return await self._call(server, action)
        except UnreachableError as error:
            log.warning("action_unanswered", server=server, action=name, error=str(error))
            return Unanswered(str(error))
        except MayRunElsewhereError as error:
            log.warning("action_postponed", server=server, action=name, error=str(error))
            return NotYet(str(error))
        except ComputeConflictError as error:
            log.warning("action_outdated", server=server, action=name, error=str(error))
            return Outdated(str(error))
        except RefusedError as error:
            log.warning("action_refused", server=server, action=name, error=str(error))
            return Refused(str(error))

    async def _call(self, server: str, action: Action) -> CallOutcome:
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
                await self._recovery.recover(damaged)
            case Restart(crashed):
                log.info("restarting_instance", server=server, host=crashed.host)
                await self._recovery.restart(crashed)
            case _:
                assert_never(action)
        return Accepted()

    async def _start(self, start: Start) -> CallOutcome:
        server, mode, target = start.server, start.mode, start.target
        log.info("migrating_instance", server=server.id, mode=mode, target=target or None)
        match mode:
            case Mode.LIVE:
                await self._moves.live_migrate(server, target)
            case Mode.COLD:
                await self._moves.cold_migrate(server, target)
            case Mode.EVACUATE:
                await self._lock(start)
                await self._recovery.evacuate(server, target, interrupted=start.interrupted)
            case _:
                assert_never(mode)
        return Accepted()

    async def _lock(self, start: Start) -> None:
        """Lock the server if the start requires it; the evacuation does not depend on that."""
        owners = self._compute.owners
        if not start.lock or owners is None:
            return
        try:
            await owners.lock(start.server, start.lock)
        except ComputeError as error:
            log.warning("instance_not_locked", server=start.server.id, error=str(error))

    async def _confirm(self, id_: str) -> CallOutcome:
        server = await self._moves.server(id_)
        if server is None or server.status != ServerStatus.VERIFY_RESIZE:
            return Needless()
        log.info("confirming_migration", server=id_)
        await self._moves.confirm(server)
        return Accepted()
