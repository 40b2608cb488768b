"""Leader election: never two at a time, whatever the network and the wall clocks do."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.integration.runtime.scripted import Hang, Reply, Request, ScriptedServer
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.coordination import Lease
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime import (
    Election,
    FakeClock,
    LeadershipLostError,
    Metrics,
    NotLeadingError,
    Timing,
)
from hypercobalt.runtime.leader import LeaderElector

pytestmark = pytest.mark.looptime


class Candidate:
    """A process: its own clock, its own network, and a record of when it led."""

    def __init__(self, name: str, server: ScriptedServer, *, stubborn: bool = False) -> None:
        self.name, self.online, self.stubborn = name, True, stubborn
        loop = asyncio.get_running_loop()
        self.clock = FakeClock(source=loop.time)
        self.metrics = Metrics()
        self.kube = memory_kube(server, self.clock, reachable=lambda: self.online)
        self.aborted_at: float | None = None
        self.elector = LeaderElector(
            self.kube,
            Election("lock", "ns", name),
            clock=self.clock,
            metrics=self.metrics,
            abort=self._abort,
        )
        self.led: list[tuple[float, float]] = []
        self.stop, self.obey = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self.elector.run(self._lead, self.stop))

    def _abort(self) -> None:
        self.aborted_at = asyncio.get_running_loop().time()

    async def _lead(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            await self.stop.wait()
        except asyncio.CancelledError:
            if not self.stubborn:
                raise
            await self.obey.wait()
        finally:
            self.led.append((started, loop.time()))

    @property
    def leads(self) -> bool:
        return self.elector.is_leader


def never_both(*candidates: Candidate) -> None:
    spans = sorted(span for candidate in candidates for span in candidate.led)
    for (_, end), (start, _) in pairwise(spans):
        assert end <= start, f"two leaders: {spans}"


async def ended(*candidates: Candidate) -> None:
    for candidate in candidates:
        candidate.stop.set()
        candidate.obey.set()
    async with asyncio.timeout(100):
        await asyncio.gather(*(c.task for c in candidates), return_exceptions=True)


async def test_second_candidate_takes_over_at_once_after_a_release(server: ScriptedServer) -> None:
    first = Candidate("first", server)
    await asyncio.sleep(1)
    second = Candidate("second", server)
    await asyncio.sleep(30)
    assert (first.leads, second.leads) == (True, False)
    first.stop.set()
    await asyncio.sleep(4)
    assert second.leads
    await ended(first, second)
    never_both(first, second)
    lease = server.objects["leases"]["ns/lock"]
    assert lease["spec"]["leaseTransitions"] == 2  # type: ignore[index]


async def test_cut_off_leader_stops_before_another_starts(server: ScriptedServer) -> None:
    first = Candidate("first", server)
    await asyncio.sleep(1)
    second = Candidate("second", server)
    await asyncio.sleep(5)
    first.online = False
    await asyncio.sleep(11)
    assert (first.leads, second.leads) == (False, False)
    await asyncio.sleep(9)
    assert second.leads
    with pytest.raises(LeadershipLostError):
        await first.task
    await ended(second)
    never_both(first, second)


async def test_a_hanging_connection_does_not_cost_the_lease(server: ScriptedServer) -> None:
    first = Candidate("first", server)
    await asyncio.sleep(1)
    hung: list[int] = []

    def hang(_: Request) -> Reply | None:
        if len(hung) < 2:
            hung.append(1)
            raise Hang
        return None

    server.faults.append(hang)
    await asyncio.sleep(30)
    assert first.leads
    await ended(first)


@pytest.mark.parametrize("hours", [-5, 5])
async def test_wall_clock_steps_change_nothing(server: ScriptedServer, hours: int) -> None:
    first, second = Candidate("first", server), Candidate("second", server)
    await asyncio.sleep(5)
    leader, other = (first, second) if first.leads else (second, first)
    other.clock.step(timedelta(hours=hours))
    await asyncio.sleep(20)
    leader.clock.step(timedelta(hours=-hours))
    await asyncio.sleep(20)
    assert (leader.leads, other.leads) == (True, False)
    await ended(first, second)
    never_both(first, second)


async def test_a_stalled_process_is_fenced_before_its_timers_run(server: ScriptedServer) -> None:
    first = Candidate("first", server)
    await asyncio.sleep(3)
    first.elector.check()
    first.clock.advance(timedelta(seconds=11))
    with pytest.raises(NotLeadingError, match="ns/lock"):
        first.elector.check()
    await ended(first)


async def test_stubborn_work_ends_the_process_within_the_lease(server: ScriptedServer) -> None:
    first = Candidate("first", server, stubborn=True)
    await asyncio.sleep(3)
    first.online = False
    cut = asyncio.get_running_loop().time()
    await asyncio.sleep(16)
    assert first.aborted_at is not None
    assert first.aborted_at - cut <= 15
    await ended(first)


async def test_lease_taken_by_another_holder_is_noticed_at_the_next_renewal(
    server: ScriptedServer,
) -> None:
    first = Candidate("first", server)
    await asyncio.sleep(3)
    server.put(
        "leases",
        {
            "metadata": {"name": "lock", "namespace": "ns"},
            "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 15},
        },
    )
    await asyncio.sleep(3)
    assert not first.leads
    with pytest.raises(LeadershipLostError, match="taken by another"):
        await first.task
    assert server.objects["leases"]["ns/lock"]["spec"]["holderIdentity"] == "thief"  # type: ignore[index]


async def test_failing_work_releases_the_lease(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    elector = LeaderElector(
        memory_kube(server, clock), Election("lock", "ns", "a"), clock=clock, metrics=metrics
    )
    with pytest.raises(ValueError, match="a bug"):
        await elector.run(fail, asyncio.Event())
    assert server.objects["leases"]["ns/lock"]["spec"]["holderIdentity"] == ""  # type: ignore[index]


async def test_a_lease_is_released_whose_last_renewal_had_no_answer(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    kube = memory_kube(server, clock)

    async def renewed_unnoticed() -> None:
        await kube.merge_patch(
            Lease, "lock", {"spec": {"leaseDurationSeconds": 16}}, namespace="ns"
        )

    elector = LeaderElector(kube, Election("lock", "ns", "a"), clock=clock, metrics=metrics)
    await elector.run(renewed_unnoticed, asyncio.Event())
    assert server.objects["leases"]["ns/lock"]["spec"]["holderIdentity"] == ""  # type: ignore[index]


async def test_the_holder_marks_the_lease_and_keeps_what_others_put_on_it(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    kube = memory_kube(server, clock)
    meta = ObjectMeta(name="lock", namespace="ns", labels={"theirs": "1", "ours": "old"})
    await kube.create(Lease(metadata=meta))
    mine = Election("lock", "ns", "a", labels={"ours": "1"}, annotations={"shard": "zone=a"})

    async def lead() -> None:
        pass

    await LeaderElector(kube, mine, clock=clock, metrics=metrics).run(lead, asyncio.Event())
    marked = server.objects["leases"]["ns/lock"]["metadata"]
    assert isinstance(marked, dict)
    assert marked["labels"] == {"theirs": "1", "ours": "1"}
    assert marked["annotations"] == {"shard": "zone=a"}


def test_timings_must_leave_room() -> None:
    with pytest.raises(ConfigurationError, match="renew deadline"):
        Timing(renew_deadline=timedelta(seconds=15))
