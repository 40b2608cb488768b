"""When the statistics of a migration are read."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

import pytest

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import JobStats, JobType
from hypercobalt.api.migration import MigrationStatus, MigrationType
from hypercobalt.node_agent.migrations.outgoing import Outgoing
from hypercobalt.node_agent.migrations.record import MigrationRecord

pytestmark = pytest.mark.looptime

UUID = "12e479eb-6bef-4fdb-bfdc-0388df68bed9"
RUNNING = JobStats(JobType.UNBOUNDED, {"operation": 5})


class Libvirt(FakeLibvirt):
    """Records when the job was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[float] = []

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        self.reads.append(asyncio.get_running_loop().time())
        return RUNNING


class Written:
    """The part of a `MigrationRecord` that is used."""

    def __init__(self) -> None:
        self.status = MigrationStatus()

    def put(self, status: MigrationStatus, *, last: bool = False) -> None:
        self.status = status


@pytest.mark.parametrize("nudges", [(), (2.05,), (0.5, 0.9, 2.05, 2.95, 3.5)])
async def test_statistics_are_read_each_second_also_after_a_nudge(
    nudges: tuple[float, ...],
) -> None:
    libvirt = Libvirt()
    outgoing = Outgoing(UUID, libvirt, cast("MigrationRecord", Written()))
    loop = asyncio.get_running_loop()
    for at in nudges:
        loop.call_later(at, outgoing.nudge)
    loop.call_later(5.5, outgoing.job_ended, JobStats(JobType.COMPLETED, {"operation": 5}))
    ending = await outgoing.run()
    assert ending.type is MigrationType.COMPLETED
    gaps = [later - one for one, later in pairwise(libvirt.reads)]
    assert max(gaps) <= 1.001
    assert len(libvirt.reads) == 6 + len(nudges)
