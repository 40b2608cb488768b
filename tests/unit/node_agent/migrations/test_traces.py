"""Four migrations of real hosts, replayed against the rules of the origin's agent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast

import pytest
from tests.traces.trace import Recorded, Side, Trace, load, names

from hypercobalt.adapters.libvirt.events import EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState, JobStats
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration, MigrationSpec, MigrationStatus
from hypercobalt.node_agent.migrations.outgoing import Outgoing
from hypercobalt.node_agent.migrations.record import MigrationRecord
from hypercobalt.node_agent.migrations.rules import (
    ending_of,
    is_arrival,
    is_of,
    is_outgoing,
    started_at,
    with_stats,
)

UUID = "12e479eb-6bef-4fdb-bfdc-0388df68bed9"
BEGAN = datetime(2026, 11, 22, 12, tzinfo=UTC)
MIGRATED = 3  # virDomainEventStoppedDetailType
ENDS = {
    "aborted": ("cancelled", "was cancelled"),
    "fails": ("failed", "failed"),
    "post_copy": ("completed", ""),
    "succeeds": ("completed", ""),
}
EVERY = pytest.mark.parametrize("trace", [pytest.param(load(name), id=name) for name in names()])


def running(side: Side) -> list[tuple[float, JobStats]]:
    """The looks at a job that moves the domain away."""
    return [(one.at, one.job) for one in side.samples if one.job and is_outgoing(one.job)]


def test_each_record_has_an_end_to_compare_with() -> None:
    assert names() == sorted(ENDS)


@EVERY
def test_all_looks_at_one_migration_belong_to_one_object(trace: Trace) -> None:
    seen = running(trace.origin)
    begins = [started_at(job, BEGAN + timedelta(seconds=at)) for at, job in seen]
    first = Migration(
        metadata=ObjectMeta(name=UUID),
        spec=MigrationSpec(),
        status=MigrationStatus(started=begins[0]),
    )

    assert len(seen) > 3
    assert all(is_of(first, began) for began in begins)


@EVERY
def test_progress_of_a_running_job_is_written_and_ends_nothing(trace: Trace) -> None:
    for _, job in running(trace.origin):
        status = with_stats(MigrationStatus(), job)

        assert status.operation == "migration_out"
        assert status.timeElapsed
        assert (ending_of(job) is None) == (status.type == "unbounded")


@EVERY
def test_only_where_the_guest_came_to_run_is_its_last_job_an_arrival(trace: Trace) -> None:
    assert trace.origin.runs is not trace.destination.runs
    assert trace.destination.runs or not is_arrival(trace.destination.last)
    assert not is_arrival(trace.origin.last)
    assert running(trace.destination) == []


@pytest.mark.parametrize(("name", "kept"), [("succeeds", True), ("post_copy", False)])
def test_libvirt_keeps_the_arrival_unless_the_guest_ran_before_its_memory_came(
    name: str, kept: bool
) -> None:
    assert is_arrival(load(name).destination.last) is kept


class Replayed(FakeLibvirt):
    """The origin, from the first look at the job on, which is the loop's beginning."""

    def __init__(self, side: Side) -> None:
        super().__init__()
        self._side, self.began = side, running(side)[0][0]

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        return self._side.last if completed else self._side.job_at(self.began + now())

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        runs = self._side.runs
        return (Domain(UUID, "moved", runs, DomainState.RUNNING),) if runs else ()


class Written:
    """The part of a `MigrationRecord` that is used."""

    def __init__(self) -> None:
        self.status = MigrationStatus()

    def put(self, status: MigrationStatus, *, last: bool = False) -> None:
        self.status = status


def now() -> float:
    return asyncio.get_running_loop().time()


def replay_one(outgoing: Outgoing, event: Recorded) -> None:
    """Pass an event to the follower of the migration, as the agent does."""
    match event.kind:
        case EventKind.MIGRATION_ITERATION:
            outgoing.nudge()
        case EventKind.MIGRATION_STATUS:
            outgoing.nudge(event.reason)
        case EventKind.JOB_COMPLETED:
            outgoing.job_ended(event.stats)
        case EventKind.LIFECYCLE if event.type == Lifecycle.STOPPED:
            outgoing.stopped(migrated=event.detail == MIGRATED)
        case _:
            pass


@pytest.mark.looptime
@pytest.mark.parametrize("name", names())
async def test_agent_of_the_origin_records_the_actual_end(name: str) -> None:
    side, written = load(name).origin, Written()
    libvirt = Replayed(side)
    outgoing = Outgoing(UUID, libvirt, cast("MigrationRecord", written))
    for event in side.events:
        if event.at >= libvirt.began:
            asyncio.get_running_loop().call_later(
                event.at - libvirt.began, partial(replay_one, outgoing, event)
            )

    await outgoing.run()

    type_, error = ENDS[name]
    assert written.status.type == type_
    assert error in (written.status.errMsg or "")
    assert (written.status.dataRemaining == "0 B") is (type_ == "completed")
