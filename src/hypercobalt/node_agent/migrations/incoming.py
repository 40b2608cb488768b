"""One server that comes to this host: writes the destination into its Migration.

The source makes the object, perhaps a moment later, so it is looked for until it is there. When the
server has arrived, or failed to, and the source's agent does not end the object, this side does.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.adapters.libvirt.model import JobStats
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.api.migration import Migration, MigrationType
from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.migrations.of_servers import of_servers
from hypercobalt.node_agent.migrations.rules import (
    GRACE,
    Ending,
    arrived_by,
    changed_fields,
    finish,
    is_finished,
    to_claim,
)
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Backoff, Clock, Kube

log = get_logger(__name__)

_LOOK: Final = Backoff(
    base=timedelta(milliseconds=100), cap=timedelta(seconds=30), jitter=lambda ceiling: ceiling
)
_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))


class Incoming:
    """Follows one arrival.

    Args:
        began: when the arrival began; None when that was not seen.
        grace: what is left to the source before the object is ended here.
    """

    def __init__(
        self,
        uuid: str,
        libvirt: Libvirt,
        kube: Kube,
        settings: NodeAgentSettings,
        *,
        began: datetime | None,
        clock: Clock,
        grace: timedelta = GRACE,
    ) -> None:
        self._uuid, self._libvirt = uuid, libvirt
        self._kube, self._settings, self._clock = kube, settings, clock
        self._began = began
        self._grace = grace.total_seconds()
        self._runs: bool | None = None  # None until that is known
        self._settled = asyncio.Event()
        self._stats: JobStats | None = None

    def arrived(self) -> None:
        """Take in that it is here now, and runs if it ran before."""
        self._settle(runs=True)

    def failed(self) -> None:
        """Take in that it has stopped here: before it ran, if no event reported that it does."""
        self._settle(runs=False)

    def job_ended(self, stats: JobStats | None) -> None:
        """Take in the statistics of the arrival."""
        self._stats = stats

    def _settle(self, *, runs: bool) -> None:
        if self._runs is None:
            self._runs = runs
            self._settled.set()

    async def run(self) -> None:
        """Claim the Migration, and see that it ends.

        Gives up when there is none: after an arrival soon, after a failed one at once, as the next
        Migration is that of another attempt.
        """
        claimed = await self._claim()
        if claimed is None:
            return
        await self._settled.wait()
        await asyncio.sleep(self._grace)  # the source, if it lives, has better evidence of the end
        failures = 0
        while not await self._end(claimed):
            await asyncio.sleep(_RETRY.wait(failures))
            failures += 1

    async def _claim(self) -> Migration | None:
        """Write our name into the server's newest Migration, as soon as there is one."""
        clock = asyncio.get_running_loop().time
        attempt, over = 0, None
        while self._runs is not False and (over is None or clock() < over):
            with suppress(HypercobaltError):
                claimed = await self._try_claim()
                if claimed is not None:
                    return claimed
                # While the API is away the source can make no object.
                if self._settled.is_set():
                    over = over or clock() + self._grace
            attempt = await self._pause(attempt)
        return None

    async def _pause(self, attempt: int) -> int:
        """Wait, longer each time; an arrival ends the wait, and the count begins again."""
        if self._settled.is_set():
            await asyncio.sleep(_LOOK.wait(attempt))
            return attempt + 1
        try:
            async with asyncio.timeout(_LOOK.wait(attempt)):
                await self._settled.wait()
        except TimeoutError:
            return attempt + 1
        return 0

    async def _try_claim(self) -> Migration | None:
        settings = self._settings
        found = (await of_servers(self._kube, settings.namespace, [self._uuid]))[self._uuid]
        if self._began is None:
            mine = arrived_by(found, settings.label, self._clock.now())
        else:
            mine = to_claim(found, settings.label, self._began, self._clock.now())
        if mine is None or mine.status.destination == settings.label:
            return mine
        log.info("migration_claimed", migration=mine.metadata.name, server=self._uuid)
        return await self._kube.merge_patch(
            Migration,
            mine.metadata.name,
            {"status": {"destination": settings.label}},
            mine.metadata.namespace,
            subresource="status",
        )

    async def _end(self, claimed: Migration) -> bool:
        """End the object if the source has not, and return whether nothing is left to do."""
        meta = claimed.metadata
        try:
            found = await self._kube.get(Migration, meta.name, meta.namespace)
            if found is None or is_finished(found) or not self._is_still(found, claimed):
                return True
            log.warning("migration_ended_for_source", migration=meta.name)
            ended = finish(found.status, await self._ending())
            await self._kube.merge_patch(
                Migration,
                meta.name,
                {"status": changed_fields(found.status, ended)},
                meta.namespace,
                resource_version=found.metadata.resourceVersion,
                subresource="status",
            )
        except HypercobaltError as error:
            log.warning("migration_not_ended", migration=meta.name, error=str(error))
            return isinstance(error, TerminalError)
        return True

    def _is_still(self, found: Migration, claimed: Migration) -> bool:
        """Under upstream's names the object may be the next migration's by now."""
        status = found.status
        return (status.started, status.destination) == (
            claimed.status.started,
            self._settings.label,
        )

    async def _ending(self) -> Ending:
        if not self._runs:
            why = f"the instance did not start to run on {self._settings.label}"
            return Ending(MigrationType.FAILED, error=why)
        stats = self._stats
        if stats is None:
            with suppress(LibvirtError):
                stats = await self._libvirt.job_stats(self._uuid, completed=True)
        return Ending(MigrationType.COMPLETED, stats)
