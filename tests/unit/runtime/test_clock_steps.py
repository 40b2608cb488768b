"""The wall clock is set by hours, either way, while things wait: nothing is early, late or lost.

Leases have such a test of their own.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.runtime.scripted import Hang, Reply, Request, ScriptedServer
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.coordination import Event
from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.kubeconfig import Identity
from hypercobalt.runtime import (
    Connection,
    DeadlineExceededError,
    FakeClock,
    KeyBackoff,
    Metrics,
    Recorder,
    WorkQueue,
)
from hypercobalt.runtime.client.auth import credentials_for
from hypercobalt.runtime.events import BURST

pytestmark = [
    pytest.mark.looptime,
    pytest.mark.parametrize("step", [timedelta(hours=5), timedelta(hours=-5)], ids=str),
]
NODE = Node(metadata=ObjectMeta(name="a", uid="1"))


def sample(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


async def test_clock_step_changes_no_delay_of_the_queue(
    clock: FakeClock, metrics: Metrics, step: timedelta
) -> None:
    backoff = KeyBackoff(base=timedelta(seconds=20), jitter=lambda ceiling: ceiling)
    queue = WorkQueue("q", metrics=metrics, clock=clock, backoff=backoff)
    loop = asyncio.get_running_loop()
    started = loop.time()
    queue.add_after("late", timedelta(seconds=30))
    queue.retry("failed")
    clock.step(step)
    handed_out = []
    for _ in range(2):
        key = await queue.get()
        clock.step(step)
        handed_out.append((key, round(loop.time() - started)))
        queue.done(key)
    assert handed_out == [("failed", 20), ("late", 30)]
    assert sample(metrics, "workqueue_queue_duration_seconds_sum", name="q") == pytest.approx(0)
    assert sample(metrics, "workqueue_work_duration_seconds_sum", name="q") == pytest.approx(0)


async def test_clock_step_changes_no_deadline_of_a_call(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics, step: timedelta
) -> None:
    def hang(_: Request) -> Reply | None:
        clock.step(step)
        raise Hang

    server.faults.append(hang)
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(DeadlineExceededError):
        await memory_kube(server, clock, metrics=metrics).get(Node, "a")
    assert loop.time() - started == pytest.approx(30, abs=1)
    measured = sample(
        metrics,
        "hypercobalt_kube_call_duration_seconds_sum",
        verb="get",
        resource="nodes",
        code="<error>",
    )
    assert measured == pytest.approx(30, abs=1)


async def test_clock_step_changes_no_age_of_a_token_file(
    clock: FakeClock, tmp_path: Path, step: timedelta
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    identity = Identity(token_file=file)
    credentials = credentials_for(Connection("https://api", user=identity), clock)
    first = await credentials.current()
    file.write_text("two")
    clock.step(step)
    assert await credentials.current() is first
    clock.advance(timedelta(minutes=1))
    assert (await credentials.current()).authorization == "Bearer two"


async def test_clock_step_changes_no_series_and_no_budget_of_events(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics, step: timedelta
) -> None:
    kube = memory_kube(server, clock)
    recorder = Recorder(kube, "example.com/test", "me", clock=clock, metrics=metrics)
    stop = asyncio.Event()
    running = asyncio.create_task(recorder.run(stop))
    for number in range(BURST):
        recorder.record(NODE, "Normal", "Chatty", f"note {number}", action="Testing")
    await asyncio.sleep(20)
    clock.step(step)
    recorder.record(NODE, "Normal", "Chatty", "note 0", action="Testing")
    recorder.record(NODE, "Normal", "Chatty", "one too many", action="Testing")
    await asyncio.sleep(1)
    written = (await kube.list(Event)).items
    assert len(written) == BURST
    assert [event.series.count for event in written if event.series] == [2]
    assert sample(metrics, "hypercobalt_events_dropped_total", reason="rate") == 1
    stop.set()
    await running
