"""Migrations between two hosts on a real API server and libvirts in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
import pytest_asyncio
from tests.following import background
from tests.integration.node_agent.conftest import DEADLINE, boot
from tests.integration.node_agent.moves import UUID, Move
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState, JobStats, JobType
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.core import Namespace
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.migration import (
    ORIGIN,
    SERVER,
    Migration,
    MigrationSpec,
    MigrationStatus,
)
from hypercobalt.apiserver.server import Server
from hypercobalt.node_agent.migrations.follow import Migrations
from hypercobalt.node_agent.migrations.record import MigrationRecord
from hypercobalt.node_agent.settings import MigrationNames, NodeAgentSettings, Retention
from hypercobalt.runtime import (
    ConnectionFailedError,
    ForbiddenError,
    Kube,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.client.patch import JsonObject
from hypercobalt.runtime.mailbox import LIMIT

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPACE = "moves"

T = TypeVar("T", bound=Object)


@pytest_asyncio.fixture(loop_scope="module")
async def kube(server: Server) -> AsyncIterator[Kube]:
    async with Kube(load_connection(server.kubeconfig)) as made:
        if await made.get(Namespace, SPACE) is None:
            await made.create(Namespace(metadata=ObjectMeta(name=SPACE)))
        yield made
        for old in (await made.list(Migration, SPACE)).items:
            await made.delete(Migration, old.metadata.name, SPACE)


@contextlib.asynccontextmanager
async def agent(
    server: Server,
    libvirt: FakeLibvirt,
    node: str,
    *,
    guard: Callable[[], None] = lambda: None,
    grace: timedelta = timedelta(seconds=1),
    names: MigrationNames = MigrationNames.START,
    retention: Retention | None = None,
) -> AsyncIterator[None]:
    """The migrations of one host; `guard` is called before each write."""
    given = NodeAgentSettings(
        node, node, namespace=SPACE, names=names, retention=retention or Retention()
    )
    with left_to_the_collector():
        async with Kube(load_connection(server.kubeconfig)) as kube:
            migrations = Migrations(
                kube.guarded(guard), libvirt, given, clock=SystemClock(), grace=grace
            )

            reading = asyncio.Event()

            async def read() -> None:
                async for event in libvirt.events():
                    migrations.on_event(event)
                    reading.set()

            async with background(migrations.run, read):
                await reading.wait()
                yield


class Silent(FakeLibvirt):
    """A libvirt with a domain whose QEMU does not answer."""

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        if uuid == UUID:
            await asyncio.Event().wait()
        return await super().job_stats(uuid, completed=completed)


class Slow(FakeLibvirt):
    """A libvirt that answers about running jobs only when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.requested, self.answers = asyncio.Event(), asyncio.Event()

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        if not completed:
            self.requested.set()
            await self.answers.wait()
        return await super().job_stats(uuid, completed=completed)


@pytest.fixture
def move() -> Move:
    made = Move(FakeLibvirt(), FakeLibvirt())
    boot(made.source, UUID, "vm1")
    return made


async def until(
    kube: Kube, good: Callable[[list[Migration]], bool], seconds: float = DEADLINE
) -> list[Migration]:
    found: list[Migration] = []

    async def look() -> bool:
        found[:] = (await kube.list(Migration, SPACE)).items
        return good(found)

    try:
        await eventually(look, seconds=seconds)
    except TimeoutError:
        raise AssertionError(f"last: {found}") from None
    return found


async def begun(kube: Kube, move: Move) -> Migration:
    """Begin the move, and return its object once the object shows it."""
    move.begin()
    (one,) = await until(kube, lambda all_: types(all_) == ["unbounded"])
    return one


def has_iteration(number: int) -> Callable[[list[Migration]], bool]:
    return lambda found: found[0].status.memIteration == number


def types(found: list[Migration]) -> list[str | None]:
    return [one.status.type for one in found]


async def test_a_migration_is_recorded_from_start_to_end(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"), agent(server, move.target, "kvm-b"):
        move.arrive()
        move.begin(data_total=4 * 1024**3)
        (one,) = await until(kube, lambda all_: types(all_) == ["unbounded"], seconds=1)
        assert one.metadata.name.startswith(f"{UUID}-2")
        assert one.metadata.labels["kvm.cloud.sap/server"] == UUID
        (one,) = await until(kube, lambda all_: bool(all_[0].status.destination))
        for second in (1, 2):
            move.run(elapsed=second * 1000, data_total=4 * 1024**3, memory_iteration=second)
            (one,) = await until(kube, has_iteration(second), seconds=2)
        move.complete(time_elapsed=2755, data_remaining=0)

        (one,) = await until(kube, lambda all_: types(all_) == ["completed"])

    status = one.status
    assert (status.origin, status.destination) == ("kvm-a", "kvm-b")
    assert (status.operation, status.timeElapsed) == ("migration_out", "2.755s")
    assert (status.downtime, status.dataTotal, status.dataRemaining) == ("16ms", "4.0 GiB", "0 B")
    assert status.errMsg is None


async def test_a_migration_that_is_over_at_once_is_recorded_whole(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"), agent(server, move.target, "kvm-b"):
        move.arrive()
        move.complete(time_elapsed=90)

        (one,) = await until(
            kube, lambda all_: types(all_) == ["completed"] and bool(all_[0].status.destination)
        )

    assert (one.status.origin, one.status.destination) == ("kvm-a", "kvm-b")


async def test_each_migration_has_its_object_or_reuses_one_by_choice(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a", names=MigrationNames.SERVER):
        move.arrive()
        move.begin(elapsed=600_000, data_total=1024)
        await until(kube, lambda all_: types(all_) == ["unbounded"])
        move.complete(errmsg="late")
        await until(kube, lambda all_: types(all_) == ["completed"])
        boot(move.source, UUID, "vm1")
        move.begin()

        (one,) = await until(kube, lambda all_: types(all_) == ["unbounded"])

    assert one.metadata.name == UUID
    assert (one.status.downtime, one.status.dataTotal) == (None, None)


async def foreign(kube: Kube, name: str, type_: str, *, started: datetime) -> Migration:
    """A Migration that the agent of another host has made of this server."""
    labels = {SERVER: UUID, ORIGIN: "kvm-captured"}
    meta = ObjectMeta(name=name, namespace=SPACE, labels=labels)
    made = await kube.create(Migration(metadata=meta, spec=MigrationSpec()))
    status = MigrationStatus(origin="kvm-captured", started=started, type=type_)
    return await kube.patch_status(made, status)


def of_host(found: list[Migration], host: str) -> list[Migration]:
    return [one for one in found if one.metadata.labels[ORIGIN] == host]


@pytest.mark.parametrize(
    ("names", "type_"), [(MigrationNames.SERVER, "unbounded"), (MigrationNames.START, "completed")]
)
async def test_name_that_another_host_has_taken_keeps_no_migration_from_its_record(
    server: Server, kube: Kube, move: Move, names: MigrationNames, type_: str
) -> None:
    now = datetime.now(UTC)
    starts = [(now + timedelta(seconds=n)).strftime("%Y%m%d-%H%M%S") for n in range(-1, 9)]
    called = [UUID] if names is MigrationNames.SERVER else [f"{UUID}-{start}" for start in starts]
    before = [await foreign(kube, name, type_, started=now) for name in called]
    async with agent(server, move.source, "kvm-a", names=names):
        move.begin(elapsed=0)
        await until(kube, lambda all_: types(of_host(all_, "kvm-a")) == ["unbounded"])
        move.arrive()
        move.complete()
        found = await until(kube, lambda all_: types(of_host(all_, "kvm-a")) == ["completed"])
    assert of_host(found, "kvm-captured") == before


class Full(Kube):
    """An API server that refuses every status of one object, as that has no room for it."""

    async def merge_patch(
        self,
        type_: type[T],
        name: str,
        patch: JsonObject,
        namespace: str | None = None,
        *,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> T:
        if name == UUID and subresource:
            raise ForbiddenError("patch Migration", Status(code=403))
        return await super().merge_patch(
            type_,
            name,
            patch,
            namespace,
            resource_version=resource_version,
            subresource=subresource,
        )


async def test_object_of_another_host_that_has_no_room_is_not_kept_to(
    server: Server, kube: Kube
) -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    await foreign(kube, UUID, "completed", started=began - timedelta(hours=1))
    given = NodeAgentSettings("kvm-a", "kvm-a", namespace=SPACE, names=MigrationNames.SERVER)
    with left_to_the_collector():
        async with Full(load_connection(server.kubeconfig)) as full:
            status = MigrationStatus(origin="kvm-a", type="unbounded")
            record = MigrationRecord(full, given, UUID, status, started=began)
            async with background(record.run):
                found = await until(kube, lambda all_: "unbounded" in types(all_))
    assert len(found) == 2


async def test_arrival_is_not_that_of_a_migration_which_has_not_begun(
    server: Server, kube: Kube, move: Move
) -> None:
    later = datetime(9999, 1, 1, tzinfo=UTC)
    lie = await foreign(kube, f"{UUID}-99990101-000000", "unbounded", started=later)
    async with agent(server, move.source, "kvm-a"), agent(server, move.target, "kvm-b"):
        move.arrive()
        move.begin()
        found = await until(
            kube,
            lambda all_: [one.status.destination for one in of_host(all_, "kvm-a")] == ["kvm-b"],
        )
    assert of_host(found, "kvm-captured") == [lie]


@pytest.mark.parametrize(("operation", "kind"), [(2, "managed save"), (6, "snapshot"), (8, "dump")])
async def test_jobs_of_other_operations_make_no_migration(
    server: Server, kube: Kube, move: Move, operation: int, kind: str
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.begin(operation=operation)
        move.source.lifecycle(UUID, Lifecycle.SUSPENDED, 0)
        move.source.lifecycle(UUID, Lifecycle.RESUMED, 0)
        given = JobStats(JobType.COMPLETED, {"operation": operation})
        move.source.emit_of(UUID, EventKind.JOB_COMPLETED, stats=given)
        other = "00000000-6bef-4fdb-bfdc-0388df68bed9"
        boot(move.source, other)
        Move(move.source, move.target, other).begin()

        found = await until(kube, bool)

    assert [one.metadata.labels["kvm.cloud.sap/server"] for one in found] == [other], kind


async def test_a_migration_that_ends_without_an_event_has_failed(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        del move.source.jobs[UUID]
        move.source.lifecycle(UUID, Lifecycle.RESUMED, 1)

        (one,) = await until(kube, lambda all_: types(all_) == ["failed"])

    assert one.status.errMsg is not None
    assert "still runs at its origin" in one.status.errMsg


@pytest.mark.parametrize("ending", [JobType.CANCELLED, JobType.FAILED])
async def test_a_failure_that_the_job_shows_for_a_moment_is_recorded(
    server: Server, kube: Kube, move: Move, ending: JobType
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        move.run(memory_iteration=3)
        await until(kube, has_iteration(3))  # the next look is in a second
        calls = move.source.calls["job_stats"]
        move.source.jobs[UUID] = JobStats(ending, {"operation": 5})
        move.source.emit_of(UUID, EventKind.MIGRATION_STATUS)
        await eventually(lambda: move.source.calls["job_stats"] > calls, seconds=0.5)
        del move.source.jobs[UUID]

        (one,) = await until(kube, lambda all_: types(all_) == [ending.value])

    assert one.status.errMsg


async def test_a_cancellation_that_only_qemu_reports_is_recorded(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        del move.source.jobs[UUID]
        move.source.emit_of(UUID, EventKind.MIGRATION_STATUS, reason="cancelled")

        await until(kube, lambda all_: types(all_) == ["cancelled"])


async def test_a_migration_that_libvirt_reports_cancelled_is_cancelled(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        given = JobStats(JobType.CANCELLED, {"operation": 5, "errmsg": "aborted by user"})
        move.source.emit_of(UUID, EventKind.JOB_COMPLETED, stats=given)

        (one,) = await until(kube, lambda all_: types(all_) == ["cancelled"])

    assert one.status.errMsg == "aborted by user"


async def test_an_instance_that_dies_on_the_way_fails_its_migration(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        move.source.stop(UUID, detail=2)

        (one,) = await until(kube, lambda all_: types(all_) == ["failed"])

    assert "stopped" in (one.status.errMsg or "")


async def test_a_driver_without_statistics_still_gets_an_object(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.source.lifecycle(UUID, Lifecycle.SUSPENDED, 1)
        await until(kube, lambda all_: len(all_) == 1)
        move.source.stop(UUID, detail=3)

        (one,) = await until(kube, lambda all_: types(all_) == ["completed"])

    assert one.status.operation == "migration_out"


async def test_a_migration_that_runs_when_the_agent_starts_is_followed(
    server: Server, kube: Kube, move: Move
) -> None:
    move.run(elapsed=120_000)
    async with agent(server, move.source, "kvm-a"):
        (one,) = await until(kube, lambda all_: types(all_) == ["unbounded"])

    assert one.status.started is not None
    assert one.metadata.creationTimestamp is not None
    ahead = one.metadata.creationTimestamp - one.status.started
    assert timedelta(seconds=118) < ahead < timedelta(seconds=123)


async def test_an_agent_killed_on_the_way_goes_on_with_the_same_object(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.arrive()
        before = await begun(kube, move)
    move.run(memory_iteration=9)
    async with agent(server, move.source, "kvm-a"):
        (after,) = await until(kube, lambda all_: all_[0].status.memIteration == 9)
        move.complete()
        (after,) = await until(kube, lambda all_: types(all_) == ["completed"])

    assert after.metadata.uid == before.metadata.uid
    assert after.status.started == before.status.started


@pytest.mark.parametrize("turns", [1, 3, 10, 30, 100])
async def test_an_agent_stopped_at_any_point_leaves_one_correct_object(
    server: Server, kube: Kube, move: Move, turns: int
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            move.arrive()
            move.begin()
            for _ in range(turns):  # of the loop: somewhere between the event and the first status
                await asyncio.sleep(0)
        move.run()
        async with agent(server, move.source, "kvm-a"):
            await until(kube, lambda all_: types(all_) == ["unbounded"])
            move.complete()
            (one,) = await until(
                kube, lambda all_: types(all_) == ["completed"] and bool(all_[0].status.destination)
            )

    assert (one.status.origin, one.status.destination) == ("kvm-a", "kvm-b")


async def test_an_end_that_the_killed_agent_missed_is_reported_by_the_next_start(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
    del move.source.jobs[UUID]  # it failed while no agent ran
    async with agent(server, move.source, "kvm-a"):
        await until(kube, lambda all_: types(all_) == ["failed"])


def by_start(found: list[Migration]) -> list[Migration]:
    return sorted(found, key=lambda one: one.metadata.name)


async def test_a_new_migration_is_not_taken_for_the_one_that_a_killed_agent_left(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.begin(elapsed=600_000)
        await until(kube, lambda all_: types(all_) == ["unbounded"])
    async with agent(server, move.target, "kvm-b"):
        move.arrive()
        await until(kube, lambda all_: bool(all_[0].status.destination))
        move.target.stop(UUID, detail=5)
    move.begin()  # the next one, once the first had failed
    async with agent(server, move.source, "kvm-a"):
        found = await until(kube, lambda all_: types(by_start(all_)) == ["failed", "unbounded"])

    first, second = by_start(found)
    assert "outcome not seen" in (first.status.errMsg or "")
    assert first.status.started is not None
    assert second.status.started is not None
    assert second.status.started - first.status.started > timedelta(minutes=9)
    assert second.status.destination is None


@pytest.mark.parametrize("names", MigrationNames)
async def test_the_end_of_a_migration_is_written_before_the_next_one(
    server: Server, kube: Kube, move: Move, names: MigrationNames
) -> None:
    away, refused = False, 0

    def guard() -> None:
        nonlocal refused
        if away:
            refused += 1
            raise ConnectionFailedError("the API is away")

    async with agent(server, move.source, "kvm-a", guard=guard, names=names):
        move.begin(elapsed=600_000)
        await until(kube, lambda all_: types(all_) == ["unbounded"])
        away = True
        del move.source.jobs[UUID]
        move.source.emit_of(UUID, EventKind.MIGRATION_STATUS, reason="cancelled")
        await eventually(lambda: refused > 0)
        calls = move.source.calls["job_stats"]
        move.begin(elapsed=60_000)
        await eventually(lambda: move.source.calls["job_stats"] >= calls + 2)
        away = False
        wanted = ["cancelled", "unbounded"] if names is MigrationNames.START else ["unbounded"]
        recent = datetime.now(UTC) - timedelta(minutes=5)

        def good(found: list[Migration]) -> bool:
            last = by_start(found)[-1].status
            is_second = last.started is not None and last.started > recent
            return is_second and types(by_start(found)) == wanted

        found = await until(kube, good)

    assert by_start(found)[-1].status.errMsg is None


async def test_a_server_that_left_unseen_was_completed_if_the_other_host_has_it(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            move.arrive()
            move.begin()
            await until(kube, lambda all_: all_ != [] and bool(all_[0].status.destination))
        move.complete()
        async with agent(server, move.source, "kvm-a"):
            (one,) = await until(kube, lambda all_: types(all_) == ["completed"])

    assert one.status.destination == "kvm-b"


async def test_the_destination_ends_a_migration_that_the_source_does_not(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            move.arrive()
            move.begin()
            await until(kube, lambda all_: all_ != [] and bool(all_[0].status.destination))
        given = JobStats(JobType.COMPLETED, {"operation": 4, "downtime": 21})
        move.target.completed_jobs[UUID] = given
        move.complete()
        (one,) = await until(kube, lambda all_: types(all_) == ["completed"])

    assert one.status.downtime == "21ms"


async def claimed(kube: Kube, move: Move) -> None:
    """Begin the move, and wait until its destination has put its name there."""
    move.arrive()
    move.begin()
    await until(kube, lambda all_: all_ != [] and bool(all_[0].status.destination))


async def test_the_destination_ends_a_migration_that_never_arrived_from_a_dead_source(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            await claimed(kube, move)
        move.target.stop(UUID, detail=5)
        (one,) = await until(kube, lambda all_: types(all_) == ["failed"])

    assert one.status.errMsg == "the instance did not start to run on kvm-b"


async def test_a_destination_that_was_killed_claims_what_came_meanwhile(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.arrive()
        await begun(kube, move)
        move.target.completed_jobs[UUID] = JobStats(JobType.COMPLETED, {"operation": 4})
        move.complete()
        await until(kube, lambda all_: types(all_) == ["completed"])
    boot(move.target, "00000000-6bef-4fdb-bfdc-0388df68bed9")  # which was never moved
    async with agent(server, move.target, "kvm-b"):
        await until(kube, lambda all_: all_[0].status.destination == "kvm-b")


async def test_a_destination_that_was_killed_ends_what_came_meanwhile_from_a_dead_host(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.arrive()
        await begun(kube, move)
    move.target.completed_jobs[UUID] = JobStats(JobType.COMPLETED, {"operation": 4})
    move.complete()
    async with agent(server, move.target, "kvm-b"):
        (one,) = await until(kube, lambda all_: types(all_) == ["completed"])

    assert one.status.destination == "kvm-b"


async def test_an_arrival_is_not_that_of_an_earlier_unclaimed_migration(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        move.arrive()
        move.begin(elapsed=600_000)
        await until(kube, lambda all_: types(all_) == ["unbounded"])
        move.complete(time_elapsed=90_000)
        await until(kube, lambda all_: types(all_) == ["completed"])
    second = Move(move.target, FakeLibvirt())
    async with agent(server, second.target, "kvm-c"), agent(server, second.source, "kvm-b"):
        second.arrive()
        second.begin()
        found = await until(
            kube, lambda all_: [one.status.destination for one in by_start(all_)] == [None, "kvm-c"]
        )

    assert [one.status.origin for one in by_start(found)] == ["kvm-a", "kvm-b"]


@pytest.mark.parametrize("received", [True, False], ids=["by event", "libvirt was away"])
async def test_a_paused_server_arrives_paused(
    server: Server, kube: Kube, move: Move, received: bool
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            await claimed(kube, move)
        (there,) = await move.target.domains()
        move.target.put(replace(there, state=DomainState.PAUSED))
        if received:
            move.target.lifecycle(UUID, Lifecycle.SUSPENDED, 0)
        else:
            move.target.disconnect()
            move.target.completed_jobs[UUID] = JobStats(JobType.COMPLETED, {"operation": 4})
            move.target.connect()
        await until(kube, lambda all_: types(all_) == ["completed"])


async def test_a_server_that_is_still_on_its_way_when_libvirt_comes_back_has_not_arrived(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            await claimed(kube, move)
        (there,) = await move.target.domains()
        move.target.put(replace(there, state=DomainState.PAUSED))
        calls = move.target.calls["job_stats"]
        move.target.disconnect()
        move.target.connect()
        await eventually(lambda: move.target.calls["job_stats"] > calls)
        move.target.stop(UUID, detail=5)
        await until(kube, lambda all_: types(all_) == ["failed"])


async def test_an_instance_that_stops_soon_after_its_arrival_has_arrived(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            await claimed(kube, move)
        move.complete()
        move.target.stop(UUID, detail=1)
        await until(kube, lambda all_: types(all_) == ["completed"])


@pytest.mark.parametrize(
    ("received", "text"),
    [(True, "the instance did not start to run on kvm-b"), (False, "outcome not seen")],
    ids=["the destination gets an event", "the destination gets no event"],
)
async def test_a_server_that_is_off_at_its_origin_is_not_taken_for_moved(
    server: Server, kube: Kube, move: Move, received: bool, text: str
) -> None:
    move.source.forget(UUID)
    move.source.add(Domain(UUID, "vm1", True, DomainState.RUNNING))
    move.source.start(UUID)
    async with agent(server, move.target, "kvm-b"):
        async with agent(server, move.source, "kvm-a"):
            await claimed(kube, move)
        if received:
            move.target.stop(UUID, detail=5)
        move.source.stop(UUID, detail=1)
        async with agent(server, move.source, "kvm-a"):
            (one,) = await until(kube, lambda all_: types(all_) == ["failed"])

    assert one.status.destination == "kvm-b"
    assert text in (one.status.errMsg or "")


async def test_a_late_event_shows_how_a_migration_ended(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a", grace=timedelta(minutes=1)):
        await begun(kube, move)
        calls = move.source.calls["domains"]
        del move.source.jobs[UUID]
        move.source.forget(UUID)
        await eventually(lambda: move.source.calls["domains"] > calls + 1)  # and is gone
        stop = int(Lifecycle.STOPPED)
        late = DomainEvent(EventKind.LIFECYCLE, UUID, "vm1", datetime.now(UTC), stop, 3)
        move.source.emit(late)

        await until(kube, lambda all_: types(all_) == ["completed"])


@pytest.mark.parametrize("names", MigrationNames)
@pytest.mark.parametrize("late", [False, True], ids=["right behind", "late"])
async def test_statistics_that_come_after_the_stop_are_of_the_same_migration(
    server: Server, kube: Kube, move: Move, late: bool, names: MigrationNames
) -> None:
    numbers = JobStats(JobType.COMPLETED, {"operation": 5, "time_elapsed": 2000, "downtime": 16})
    given = DomainEvent(EventKind.JOB_COMPLETED, UUID, "vm1", datetime.now(UTC), stats=numbers)
    async with (
        agent(server, move.source, "kvm-a", names=names),
        agent(server, move.target, "kvm-b", names=names),
    ):
        move.arrive()
        move.begin(elapsed=2000)
        await until(kube, lambda all_: all_ != [] and bool(all_[0].status.destination))
        move.source.stop(UUID, detail=3)
        if late:
            await until(kube, lambda all_: types(all_) == ["completed"])
        move.source.emit(given)

        (one,) = await until(kube, lambda all_: all_[0].status.downtime == "16ms")

    assert (one.status.type, one.status.destination) == ("completed", "kvm-b")


async def test_a_reused_object_is_not_ended_for_its_earlier_migration(
    server: Server, kube: Kube, move: Move
) -> None:
    names, grace = MigrationNames.SERVER, timedelta(seconds=3)
    async with (
        agent(server, move.source, "kvm-a", names=names),
        agent(server, move.target, "kvm-b", names=names, grace=grace),
    ):
        move.begin(elapsed=600_000)
        move.arrive()
        await until(kube, lambda all_: all_ != [] and bool(all_[0].status.destination))
        move.target.stop(UUID, detail=5)
        del move.source.jobs[UUID]
        move.source.emit_of(UUID, EventKind.MIGRATION_STATUS, reason="failed")
        await until(kube, lambda all_: types(all_) == ["failed"])
        move.begin()
        for second in range(1, 5):
            move.run(memory_iteration=second)
            await until(kube, has_iteration(second), seconds=2)
            assert types((await kube.list(Migration, SPACE)).items) == ["unbounded"]


async def test_a_server_that_goes_back_and_forth_has_a_destination_each_time(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"), agent(server, move.target, "kvm-b"):
        for number in (1, 2):
            if number > 1:
                boot(move.source, UUID)
            move.arrive()
            move.begin(elapsed=number * 60_000)  # objects are named by the second of their start
            await until(kube, lambda all_: "unbounded" in types(all_))
            move.complete()
            await until(kube, lambda all_: {one.status.destination for one in all_} == {"kvm-b"})
            await until(kube, lambda all_: set(types(all_)) == {"completed"})
            move.target.stop(UUID, detail=3)
        found = await until(kube, lambda all_: len(all_) == 2)

    assert [one.status.destination for one in found] == ["kvm-b", "kvm-b"]


async def test_a_silent_qemu_holds_up_no_other_migration(
    server: Server, kube: Kube, move: Move
) -> None:
    move.source = Silent()
    boot(move.source, UUID)
    other = Move(move.source, move.target, "00000000-6bef-4fdb-bfdc-0388df68bed9")
    async with agent(server, move.source, "kvm-a"):
        boot(other.source, other.uuid)
        move.begin()
        other.arrive()
        other.begin()
        await until(kube, lambda all_: types(all_) == ["unbounded"])
        move.source.lifecycle(UUID, Lifecycle.SUSPENDED, 1)
        other.complete()

        await until(kube, lambda all_: types(all_) == ["completed"])


async def test_events_dropped_from_a_full_mailbox_are_made_up_for(
    server: Server, kube: Kube, move: Move
) -> None:
    """More events than a mailbox keeps, while the QEMU of the destination is silent."""
    move.target = slow = Slow()
    boot(slow, UUID, "vm1")
    async with agent(server, move.source, "kvm-a"), agent(server, move.target, "kvm-b"):
        await begun(kube, move)
        for _ in range(LIMIT):
            move.target.emit_of(UUID, EventKind.MIGRATION_ITERATION)
        await slow.requested.wait()
        move.target.completed_jobs[UUID] = JobStats(JobType.COMPLETED, {"operation": 4})
        move.arrive()
        move.complete()
        await until(kube, lambda all_: types(all_) == ["completed"])
        slow.answers.set()

        await until(kube, lambda all_: all_[0].status.destination == "kvm-b")


async def test_a_short_loss_of_libvirt_does_not_end_a_migration(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        await begun(kube, move)
        move.source.disconnect()
        calls = move.source.calls.total()
        await eventually(lambda: move.source.calls.total() > calls + 1)
        move.run(memory_iteration=4)
        move.source.connect()

        await until(kube, lambda all_: all_[0].status.memIteration == 4)


async def test_finished_migrations_are_removed_when_they_are_too_many(
    server: Server, kube: Kube, move: Move
) -> None:
    async with agent(server, move.source, "kvm-a"):
        for number in (1, 2):
            if number > 1:
                boot(move.source, UUID)
            move.arrive()
            move.begin(elapsed=number * 60_000)  # objects are named by the second of their start
            await until(kube, lambda all_: "unbounded" in types(all_))
            move.complete()
            await until(kube, lambda all_: set(types(all_)) == {"completed"})
        assert len((await kube.list(Migration, SPACE)).items) == 2
    async with agent(server, move.target, "kvm-b", retention=Retention(count=0)):
        await asyncio.sleep(0)
        assert len((await kube.list(Migration, SPACE)).items) == 2  # another host's
    async with agent(server, move.source, "kvm-a", retention=Retention(count=1)):
        await until(kube, lambda all_: len(all_) == 1)
