"""A server that moves between two libvirts in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.integration.node_agent.conftest import boot

from hypercobalt.adapters.libvirt.events import EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import JobStats, JobType, JobValue
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle

UUID = "12e479eb-6bef-4fdb-bfdc-0388df68bed9"


@dataclass
class Move:
    """A server between two hosts."""

    source: FakeLibvirt
    target: FakeLibvirt
    uuid: str = UUID
    began: float = 0.0

    def begin(self, *, operation: int = 5, elapsed: int = 100, **values: JobValue) -> None:
        self.began = time.monotonic() - elapsed / 1000
        self.run(operation=operation, elapsed=elapsed, **values)
        self.source.emit_of(self.uuid, EventKind.MIGRATION_ITERATION, detail=1)

    def run(self, *, operation: int = 5, elapsed: int | None = None, **values: JobValue) -> None:
        if elapsed is None:
            elapsed = round((time.monotonic() - self.began) * 1000)
        reported = {"operation": operation, "time_elapsed": elapsed, **values}
        self.source.jobs[self.uuid] = JobStats(JobType.UNBOUNDED, reported)

    def arrive(self) -> None:
        boot(self.target, self.uuid, detail=1)

    def complete(self, **values: JobValue) -> None:
        """Complete the move: statistics, the stop at the source, the start of the guest."""
        reported = JobStats(JobType.COMPLETED, {"operation": 5, "downtime": 16, **values})
        self.source.lifecycle(self.uuid, Lifecycle.SUSPENDED, 1)
        self.source.emit_of(self.uuid, EventKind.JOB_COMPLETED, stats=reported)
        self.source.stop(self.uuid, detail=3)
        self.target.lifecycle(self.uuid, Lifecycle.RESUMED, 1)
