"""Writes one Migration: created once, then kept equal to the newest status.

While the API is away states are replaced, not queued. The destination is the other host's to write
and is never touched here.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.bounds import within
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import (
    ORIGIN,
    SERVER,
    Migration,
    MigrationStatus,
    MigrationType,
)
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.migrations.rules import (
    changed_fields,
    drawn_name,
    finish,
    is_finished,
    is_of,
    new_migration,
    unseen,
)
from hypercobalt.node_agent.settings import MigrationNames, NodeAgentSettings
from hypercobalt.runtime import AlreadyExistsError, Backoff, ForbiddenError, Kube, NotFoundError

log = get_logger(__name__)

_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))


class MigrationRecord:
    """One Migration object that this host's agent writes.

    Args:
        server: UUID.
        status: the first one.
        started: when the migration began.
        stored: the object, when there is one already.
    """

    def __init__(
        self,
        kube: Kube,
        settings: NodeAgentSettings,
        server: str,
        status: MigrationStatus,
        *,
        started: datetime,
        stored: Migration | None = None,
    ) -> None:
        self._kube, self._settings, self._server = kube, settings, server
        self._started, self._stored, self._reused = started, stored, False
        self._taken_over = False
        self.status = status
        self._moved, self._last = asyncio.Event(), False
        self._moved.set()

    def writes(self, migration: Migration) -> bool:
        """Whether this is the object that is written here."""
        stored = self._stored
        return stored is not None and stored.metadata.uid == migration.metadata.uid

    def put(self, status: MigrationStatus, *, last: bool = False) -> None:
        """Have `status` written; nothing comes after the last one."""
        self.status, self._last = status, last
        self._moved.set()

    async def ended_elsewhere(self) -> MigrationStatus | None:
        """The status with which the other host has ended the object; None while it has not.

        Raises:
            TransientError: the API is away.
        """
        if self._stored is None:
            return None
        meta = self._stored.metadata
        found = await self._kube.get(Migration, meta.name, meta.namespace)
        self._stored = found or self._stored
        return self._stored.status if is_finished(self._stored) else None

    async def run(self) -> None:
        """Write until the last status is written, or the object is deleted."""
        failures = 0
        while True:
            await self._moved.wait()
            self._moved.clear()
            last = self._last
            try:
                await self._write()
            except NotFoundError as error:
                if self._stored is not None:
                    log.warning("migration_deleted", server=self._server, error=str(error))
                    return
                failures = await self._pause(failures, error)  # the namespace is missing
            except TerminalError as error:
                log.warning("migration_refused", server=self._server, error=str(error))
                return
            except TransientError as error:
                failures = await self._pause(failures, error)
            else:
                failures = 0
                if last:
                    return

    async def _pause(self, failures: int, error: Exception) -> int:
        log.warning("migration_not_written", server=self._server, error=str(error))
        await asyncio.sleep(_RETRY.wait(failures))
        self._moved.set()
        return failures + 1

    async def _write(self) -> None:
        if self._stored is None:
            self._stored = await self._ensure()
        stored = self._stored
        wanted = within(replace(self.status, started=self._started))
        if not self._reused:
            started = stored.status.started or self._started
            wanted = replace(wanted, destination=stored.status.destination, started=started)
        self._reused = False
        if changes := changed_fields(stored.status, wanted):
            meta = stored.metadata
            try:
                self._stored = await self._kube.merge_patch(
                    Migration, meta.name, {"status": changes}, meta.namespace, subresource="status"
                )
            except (ForbiddenError, TerminalError):
                if not self._taken_over:
                    raise
                # The host that made it has left no room in it.
                self._taken_over = False
                self._stored = await self._drawn()
                await self._write()

    async def _ensure(self) -> Migration:
        """The object to write to: what a killed agent has left of this migration, or a new one."""
        settings = self._settings
        wanted = self._new()
        labels = wanted.metadata.labels
        selector = f"{SERVER}={labels[SERVER]},{ORIGIN}={labels[ORIGIN]}"
        found = await self._kube.list(Migration, settings.namespace, labels=selector)
        mine: Migration | None = None
        for left in found.items:
            if is_of(left, self._started) and (not is_finished(left) or self._is_late(left)):
                mine = left
            elif not is_finished(left):
                await self._end_earlier(left)
        if mine is not None:
            return mine
        try:
            return await self._kube.create(wanted)
        except AlreadyExistsError:
            return await self._reuse(wanted.metadata) or await self._drawn()

    def _new(self) -> Migration:
        settings = self._settings
        return new_migration(
            self._server,
            self._started,
            settings.label,
            namespace=settings.namespace,
            names=settings.names,
        )

    async def _drawn(self) -> Migration:
        """A new object, of a name that no other host can have taken."""
        wanted, name = self._new(), drawn_name(self._server, self._started, token_hex(5))
        log.warning("migration_name_taken", server=self._server, migration=name)
        return await self._kube.create(
            replace(wanted, metadata=replace(wanted.metadata, name=name))
        )

    def _is_late(self, left: Migration) -> bool:
        """Whether the last status is of a migration that another sign has ended already."""
        completed = MigrationType.COMPLETED
        return self._last and left.status.type == self.status.type == completed

    async def _end_earlier(self, left: Migration) -> None:
        """End what was left of an earlier migration: a server has one at a time."""
        meta = left.metadata
        log.warning("earlier_migration_ended", migration=meta.name, server=self._server)
        ending = unseen("the agent of its origin was away when it ended")
        ended = finish(replace(left.status, origin=self._settings.label), ending)
        ended = replace(ended, started=ended.started or meta.creationTimestamp)
        try:
            await self._kube.merge_patch(
                Migration,
                meta.name,
                {"status": changed_fields(left.status, ended)},
                meta.namespace,
                resource_version=meta.resourceVersion,
                subresource="status",
            )
        except TerminalError as error:  # no reason not to write the one of now
            log.warning("migration_refused", server=self._server, error=str(error))

    async def _reuse(self, meta: ObjectMeta) -> Migration | None:
        """Take over a finished object of that name: each migration does under upstream's names.

        None where another host has the name, and keeps it: an agent calls its objects as it likes.
        """
        old = await self._kube.get(Migration, meta.name, meta.namespace)
        if old is None:
            raise TransientError(f"Migration {meta.namespace}/{meta.name}: deleted just now")
        is_foreign = old.metadata.labels.get(ORIGIN) != meta.labels[ORIGIN]
        by_server = self._settings.names is MigrationNames.SERVER
        if is_foreign and not (by_server and is_finished(old)):
            return None
        if old.metadata.labels != meta.labels:
            change = {"metadata": {"labels": meta.labels}}
            try:
                old = await self._kube.merge_patch(Migration, meta.name, change, meta.namespace)
            except (ForbiddenError, TerminalError):
                return None
        self._reused, self._taken_over = is_finished(old), is_foreign
        return old
