"""One migration away from this host, from the first sight of its job to its end.

libvirt reports a good end by an event. After a bad one its job shows for a moment whether it failed
or was cancelled; QEMU's event is the sign to read the job then. The job's statistics, read each
second, show the progress and stand in for events that were missed. Every ending has evidence: the
event, the job's last state, the job that is gone while the domain still runs here, or the report of
the destination.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.libvirt.model import JobStats
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.api.migration import MigrationType
from hypercobalt.errors import HypercobaltError
from hypercobalt.node_agent.migrations.record import MigrationRecord
from hypercobalt.node_agent.migrations.rules import (
    GRACE,
    Ending,
    ending_of,
    finish,
    is_outgoing,
    stayed,
    unseen,
    with_stats,
)

_POLL: Final = 1.0  # seconds
"""The statistics have no event; a second is what a person follows."""


class Outgoing:
    """Follows one migration.

    Args:
        record: is given each state.
        grace: what the other host leaves to this one before it ends the object itself.
    """

    def __init__(
        self,
        uuid: str,
        libvirt: Libvirt,
        record: MigrationRecord,
        *,
        grace: timedelta = GRACE,
    ) -> None:
        self._uuid, self._libvirt, self._record = uuid, libvirt, record
        self._grace = grace.total_seconds()
        self._news = asyncio.Event()
        self._ended: JobStats | None = None
        self._stopped: bool | None = None  # whether it left, once its domain has stopped here
        self._stop_seen = False
        self._qemu_status = ""
        self._jobless_since: float | None = None  # by the loop's clock
        self._given_up_at: float | None = None  # by the same, when no host reports the end

    def progress(self, stats: JobStats) -> None:
        """Take in the statistics of the running job."""
        self._record.put(with_stats(self._record.status, stats))

    def job_ended(self, stats: JobStats | None) -> None:
        """Take in the end of a job."""
        if is_outgoing(stats):
            self._ended = stats
            self._news.set()

    def stopped(self, *, migrated: bool) -> None:
        """Take in that the domain has stopped here."""
        self._stopped = migrated
        self._news.set()

    def nudge(self, qemu_status: str = "") -> None:
        """Look now: something has happened.

        Args:
            qemu_status: of the migration, if that is what the event has.
        """
        self._qemu_status = qemu_status or self._qemu_status
        self._news.set()

    async def run(self) -> Ending:
        """Follow it to its end; the last status is then with the record."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            ending = await self._look()
            if ending is not None:
                self._record.put(finish(self._record.status, ending), last=True)
                return ending
            if clock() >= due:  # a look in between, for some news, takes no turn
                due = max(due + _POLL, clock())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            self._news.clear()

    async def _look(self) -> Ending | None:
        if self._ended is not None and (ending := ending_of(self._ended)) is not None:
            return ending
        if self._stopped is not None:
            if self._stopped and not self._stop_seen:
                self._stop_seen = True
                return None  # the event with the last numbers is right behind: give it one turn
            return await self._after_stop(left=self._stopped)
        try:
            stats = await self._libvirt.job_stats(self._uuid)
            if stats is not None and is_outgoing(stats):
                self._jobless_since = None
                return self._with_job(stats)
            now = asyncio.get_running_loop().time()
            if self._jobless_since is None:
                self._jobless_since = now
            # The event of the end may be right behind the job's own end: give it one turn.
            ending = await self._without() if now - self._jobless_since >= _POLL / 2 else None
        except LibvirtError:
            return None  # after the reconnect the answer is the same
        # An event that came meanwhile is better evidence.
        return ending if self._ended is None and self._stopped is None else None

    def _with_job(self, stats: JobStats) -> Ending | None:
        ending = ending_of(stats)
        if ending is None:
            self.progress(stats)
        elif ending.type is not MigrationType.COMPLETED:
            return ending
        return None  # completed, but the domain has yet to leave: its event has the last numbers

    async def _after_stop(self, *, left: bool) -> Ending:
        if not left:
            return Ending(
                MigrationType.FAILED, error="the instance stopped while it was being migrated"
            )
        stats: JobStats | None = None
        with suppress(LibvirtError):
            stats = await self._libvirt.job_stats(self._uuid, completed=True)
        return Ending(MigrationType.COMPLETED, stats if is_outgoing(stats) else None)

    async def _without(self) -> Ending | None:
        """Find the end of a job that is gone without an event."""
        domains = await self._libvirt.domains()
        here = any(domain.uuid == self._uuid and domain.active for domain in domains)
        if not here:
            return await self._gone()
        last = await self._libvirt.job_stats(self._uuid, completed=True)
        if last is not None and is_outgoing(last):
            ending = ending_of(last)
            if ending is not None and ending.type is not MigrationType.COMPLETED:
                return ending
        return stayed(self._qemu_status)

    async def _gone(self) -> Ending | None:
        """Wait for the destination's report: the domain is gone from here without an event."""
        try:
            found = await self._record.ended_elsewhere()
        except HypercobaltError:
            return None  # while the API is away no host can report
        if found is not None and found.type is not None:
            self._record.put(found)
            return Ending(MigrationType(found.type))
        now = asyncio.get_running_loop().time()
        if self._given_up_at is None:
            self._given_up_at = now + 2 * self._grace
        if now < self._given_up_at:
            return None
        return unseen(
            "the instance left its origin while its agent or libvirt was away, and no other host "
            "reports its arrival"
        )
