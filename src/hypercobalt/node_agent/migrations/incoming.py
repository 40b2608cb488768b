"""One server that comes to this host: its Migration is told the destination.

The source makes the object, perhaps a moment later, so it is looked for until it is there. When the
server has arrived and the source's agent does not say so, this side ends the object.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.libvirt.model import JobStats
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.api.migration import SERVER, Migration, MigrationType, label_value
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.migrations.rules import (
    Ending,
    changed_fields,
    finish,
    is_finished,
    to_claim,
)
from hypercobalt.node_agent.settings import Settings
from hypercobalt.runtime import Backoff, Clock, Kube

log = get_logger(__name__)

GRACE: Final = timedelta(seconds=10)
"""After the arrival: for the source to make the object, and to end it."""

_LOOK: Final = Backoff(
    base=timedelta(milliseconds=100), cap=timedelta(seconds=2), jitter=lambda ceiling: ceiling
)


class Incoming:
    """Follows one arrival."""

    def __init__(
        self,
        uuid: str,
        libvirt: Libvirt,
        kube: Kube,
        settings: Settings,
        *,
        clock: Clock,
        grace: timedelta = GRACE,
    ) -> None:
        self._uuid, self._libvirt = uuid, libvirt
        self._kube, self._settings, self._clock = kube, settings, clock
        self._grace = grace.total_seconds()
        self._arrived, self._failed = asyncio.Event(), asyncio.Event()
        self._stats: JobStats | None = None

    def arrived(self) -> None:
        """It runs here now."""
        self._arrived.set()

    def failed(self) -> None:
        """It did not come to run here, or has stopped since."""
        self._failed.set()
        self._arrived.set()

    def job_ended(self, stats: JobStats | None) -> None:
        """Libvirt has told the statistics of the arrival."""
        self._stats = stats

    async def run(self) -> None:
        """Claim the Migration, and see that it ends; gives up after the grace."""
        claiming = asyncio.create_task(self._claim())
        try:
            await self._arrived.wait()
            # The source's time: to make the object, and to end it.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._failed.wait()
            if claiming.done() and not self._failed.is_set():
                await self._end(claiming.result())
        finally:
            claiming.cancel()
            await asyncio.wait({claiming})

    async def _claim(self) -> Migration:
        """Write our name into the server's newest Migration, as soon as there is one."""
        attempt = 0
        while True:
            with suppress(HypercobaltError):
                claimed = await self._try_claim()
                if claimed is not None:
                    return claimed
            await asyncio.sleep(_LOOK.wait(attempt))
            attempt += 1

    async def _try_claim(self) -> Migration | None:
        settings = self._settings
        selector = f"{SERVER}={label_value(self._uuid)}"
        found = await self._kube.list(Migration, settings.namespace, labels=selector)
        mine = to_claim(found.items, settings.label, self._clock.now())
        if mine is None or mine.status.destination == settings.label:
            return mine
        log.info("claiming_migration", migration=mine.metadata.name, server=self._uuid)
        return await self._kube.merge_patch(
            Migration,
            mine.metadata.name,
            {"status": {"destination": settings.label}},
            mine.metadata.namespace,
            subresource="status",
        )

    async def _end(self, claimed: Migration) -> None:
        """End the object if the source has not."""
        meta = claimed.metadata
        stats = self._stats
        try:
            found = await self._kube.get(Migration, meta.name, meta.namespace)
            if found is None or is_finished(found):
                return
            if stats is None:
                stats = await self._libvirt.job_stats(self._uuid, completed=True)
            log.warning("ending_migration_for_its_source", migration=meta.name)
            ended = finish(found.status, Ending(MigrationType.COMPLETED, stats))
            await self._kube.merge_patch(
                Migration,
                meta.name,
                {"status": changed_fields(found.status, ended)},
                meta.namespace,
                resource_version=found.metadata.resourceVersion,
                subresource="status",
            )
        except HypercobaltError as error:
            log.warning("ending_migration_failed", migration=meta.name, error=str(error))
