"""The work queue: its invariants over any history, and its times."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hypercobalt.runtime import FakeClock, KeyBackoff, Metrics, WorkQueue
from hypercobalt.runtime.queue import QueueClosedError

KEYS = st.sampled_from("abcd")


def make(clock: FakeClock, metrics: Metrics | None = None) -> WorkQueue:
    backoff = KeyBackoff(
        base=timedelta(seconds=1), cap=timedelta(seconds=60), jitter=lambda ceiling: ceiling
    )
    return WorkQueue("test", metrics=metrics or Metrics(), clock=clock, backoff=backoff)


class QueueMachine(RuleBasedStateMachine):
    """Against a model: an ordered list of waiting keys, and a set of those being worked on."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = make(FakeClock())
        self.waiting: list[str] = []
        self.working: list[str] = []
        self.again: list[str] = []

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if key in self.working:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    @precondition(lambda self: self.waiting)
    @rule()
    def get(self) -> None:
        taking = self.queue.get()
        with pytest.raises(StopIteration) as caught:
            taking.send(None)
        key = caught.value.value
        assert key == self.waiting.pop(0), "first come, first served"
        assert key not in self.working, "one worker per key"
        self.working.append(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.working))
        self.queue.done(key)
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.waiting.append(key)

    @invariant()
    def depth_is_the_models(self) -> None:
        assert len(self.queue) == len(self.waiting)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestQueueMachine = QueueMachine.TestCase


async def taken(queue: WorkQueue, within: float) -> str | None:
    try:
        async with asyncio.timeout(within):
            return await queue.get()
    except TimeoutError:
        return None


@pytest.mark.looptime
async def test_earliest_delay_counts(clock: FakeClock) -> None:
    queue = make(clock)
    queue.add_after("a", timedelta(seconds=50))
    queue.add_after("a", timedelta(seconds=10))
    queue.add_after("a", timedelta(seconds=30))
    assert await taken(queue, 9.9) is None
    assert await taken(queue, 0.2) == "a"
    queue.done("a")
    assert await taken(queue, 100) is None


@pytest.mark.looptime
async def test_add_makes_a_delay_moot(clock: FakeClock) -> None:
    queue = make(clock)
    queue.add_after("a", timedelta(seconds=5))
    queue.add("a")
    assert await taken(queue, 0.1) == "a"
    queue.done("a")
    assert await taken(queue, 10) is None


@pytest.mark.looptime
async def test_backoff_doubles_to_its_cap_until_forgotten(clock: FakeClock) -> None:
    queue = make(clock)
    waits = []
    for _ in range(8):
        waits.append(queue.retry("a").total_seconds())
        assert await taken(queue, 61) == "a"
        queue.done("a")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    queue.forget("a")
    assert queue.retry("a") == timedelta(seconds=1)


@pytest.mark.looptime
async def test_a_hot_key_does_not_delay_other_keys(clock: FakeClock) -> None:
    queue = make(clock)
    for key in ("hot", "b", "c"):
        queue.add(key)
    served = []
    for _ in range(6):
        key = await queue.get()
        served.append(key)
        queue.add("hot")
        queue.done(key)
    assert served == ["hot", "b", "c", "hot", "hot", "hot"]


@pytest.mark.looptime
async def test_a_cancelled_worker_loses_no_key(clock: FakeClock) -> None:
    queue = make(clock)
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    async with asyncio.timeout(1):
        assert await second == "a"
    assert first.cancelled()


@pytest.mark.looptime
async def test_drain_hands_out_what_waits_and_then_ends(clock: FakeClock) -> None:
    queue = make(clock)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await waiting == "a"
    queue.add("b")
    queue.add_after("c", timedelta(seconds=1))
    queue.close(drain=True)
    queue.add("d")
    assert await queue.get() == "b"
    with pytest.raises(QueueClosedError):
        await queue.get()


@pytest.mark.looptime
async def test_close_wakes_every_worker(clock: FakeClock) -> None:
    queue = make(clock)
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close(drain=False)
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 3


@pytest.mark.looptime
async def test_metrics_show_depth_adds_and_durations(clock: FakeClock, metrics: Metrics) -> None:
    queue = make(clock, metrics)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    clock.advance(timedelta(seconds=5))
    key = await queue.get()
    clock.advance(timedelta(seconds=2))
    queue.done(key)

    def value(name: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"name": "test"})

    assert value("workqueue_depth") == 1
    assert value("workqueue_adds_total") == 2
    assert value("workqueue_queue_duration_seconds_sum") == pytest.approx(5, abs=0.1)
    assert value("workqueue_work_duration_seconds_sum") == pytest.approx(2, abs=0.1)
