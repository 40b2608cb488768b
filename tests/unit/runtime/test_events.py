"""Events: aggregated and limited; recording one never blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import pytest
from tests.integration.runtime.scripted import Hang, Json, Reply, Request, ScriptedServer, refusal
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.core import ConfigMap, Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import FakeClock, Metrics, Recorder
from hypercobalt.runtime.events import BURST, MAX_SERIES

pytestmark = pytest.mark.looptime
NODE = Node(metadata=ObjectMeta(name="a", uid="1"))


@asynccontextmanager
async def recording(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> AsyncIterator[Recorder]:
    kube = memory_kube(server, clock)
    recorder = Recorder(kube, "example.com/test", "me", clock=clock, metrics=metrics)
    stop = asyncio.Event()
    task = asyncio.create_task(recorder.run(stop))
    try:
        yield recorder
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await task


def events(server: ScriptedServer) -> list[Json]:
    return list(server.objects.get("events", {}).values())


def counts(server: ScriptedServer) -> list[object]:
    return sorted(
        cast("Json", event.get("series") or {"count": 1})["count"]  # type: ignore[type-var]
        for event in events(server)
    )


async def test_an_event_names_object_reason_and_reporter(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    about = ConfigMap(metadata=ObjectMeta(name="m", namespace="ns", uid="2"))
    async with recording(server, clock, metrics) as recorder:
        recorder.record(about, "Warning", "Broken", "It broke", action="Checking")
        await asyncio.sleep(1)
    (event,) = events(server)
    assert cast("Json", event["metadata"])["namespace"] == "ns"
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "Broken", "It broke")
    assert (event["reportingController"], event["action"]) == ("example.com/test", "Checking")
    assert cast("Json", event["regarding"])["kind"] == "ConfigMap"


async def test_repeats_become_a_count_written_now_and_then(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        for _ in range(100):
            recorder.record(NODE, "Normal", "Same", "again", action="Testing")
            await asyncio.sleep(0.2)
        await asyncio.sleep(15)
    assert counts(server) == [100]
    assert server.calls["post"] + server.calls["patch"] <= 5


async def test_notes_that_differ_beyond_what_is_written_are_one_event(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    """A host writes what it likes into the texts that notes have; nothing of the rest is kept."""
    long = "\u00e9" * 2**20
    async with recording(server, clock, metrics) as recorder:
        for number in range(3):
            recorder.record(NODE, "Normal", "Same", f"{long}{number}", action="Testing")
        assert sum(map(len, recorder._series)) < 2048
        await asyncio.sleep(15)
    assert counts(server) == [3]
    assert events(server)[0]["note"] == "\u00e9" * 512


async def test_repetition_much_later_is_a_new_event(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        for _ in range(2):
            recorder.record(NODE, "Normal", "Same", "again", action="Testing")
            await asyncio.sleep(600)
    assert counts(server) == [1, 1]


async def test_a_chatty_object_meets_its_budget(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        for number in range(BURST + 10):
            recorder.record(NODE, "Normal", "Chatty", f"note {number}", action="Testing")
        await asyncio.sleep(10)
        assert len(events(server)) == BURST
        await asyncio.sleep(timedelta(minutes=5).total_seconds())
        recorder.record(NODE, "Normal", "Chatty", "later", action="Testing")
        await asyncio.sleep(1)
        assert len(events(server)) == BURST + 1
    dropped = metrics.registry.get_sample_value
    assert dropped("hypercobalt_events_dropped_total", {"reason": "rate"}) == 10


async def test_memory_is_bounded_while_the_server_is_away(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    kube = memory_kube(server, clock, reachable=lambda: False)
    recorder = Recorder(kube, "example.com/test", "me", clock=clock, metrics=metrics)
    for number in range(MAX_SERIES + 50):
        about = Node(metadata=ObjectMeta(name=f"n{number}"))
        recorder.record(about, "Normal", "Away", "x", action="Testing")
    dropped = metrics.registry.get_sample_value
    assert dropped("hypercobalt_events_dropped_total", {"reason": "full"}) == 50


async def test_written_events_make_way_for_those_of_further_objects(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.runtime.events.MAX_SERIES", 20)
    async with recording(server, clock, metrics) as recorder:
        for number in range(50):
            about = Node(metadata=ObjectMeta(name=f"n{number}"))
            recorder.record(about, "Normal", "Onboarded", "x", action="Testing")
            await asyncio.sleep(0.1)
    assert len(events(server)) == 50
    dropped = metrics.registry.get_sample_value
    assert not dropped("hypercobalt_events_dropped_total", {"reason": "full"})


async def test_events_that_nothing_repeats_any_more_take_no_memory(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        recorder.record(NODE, "Normal", "Once", "x", action="Testing")
        await asyncio.sleep(600)
        recorder.record(NODE, "Normal", "Lately", "x", action="Testing")
        await asyncio.sleep(130)
        assert [one.event.reason for one in recorder._series.values()] == ["Lately"]
    assert counts(server) == [1, 1]


async def test_event_without_an_answer_holds_up_no_others(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    def hang(request: Request) -> Reply | None:
        if request.body["reason"] == "Lost":
            raise Hang
        return None

    server.faults.append(hang)
    async with recording(server, clock, metrics) as recorder:
        for reason in ("Lost", "Seen"):
            recorder.record(NODE, "Normal", reason, "x", action="Testing")
        await asyncio.sleep(1)
        recorder.record(NODE, "Normal", "SeenLater", "x", action="Testing")
        await asyncio.sleep(1)
        assert {event["reason"] for event in events(server)} == {"Seen", "SeenLater"}


async def test_an_outage_delays_and_does_not_lose(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        server.fail(500, times=3, verbs=("post",))
        recorder.record(NODE, "Normal", "Kept", "x", action="Testing")
        await asyncio.sleep(30)
    assert counts(server) == [1]


async def test_a_refused_event_is_dropped(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        server.fail(403, times=100, verbs=("post",))
        recorder.record(NODE, "Normal", "Refused", "x", action="Testing")
        await asyncio.sleep(30)
    assert server.calls["post"] == 1
    dropped = metrics.registry.get_sample_value
    assert dropped("hypercobalt_events_dropped_total", {"reason": "refused"}) == 1


@pytest.mark.parametrize(
    ("code", "posts"),
    [
        pytest.param(404, 1, id="its-namespace-is-gone"),
        pytest.param(409, 12, id="every-name-is-taken"),
    ],
)
async def test_an_event_that_cannot_be_created_is_given_up(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics, code: int, posts: int
) -> None:
    def refuse(_: Request) -> Reply:
        return refusal(code, "AlreadyExists" if code == 409 else "NotFound")

    async with recording(server, clock, metrics) as recorder:
        server.faults.append(refuse)
        recorder.record(NODE, "Normal", "Unwanted", "x", action="Testing")
        await asyncio.sleep(600)
    assert server.calls["post"] == posts
    dropped = metrics.registry.get_sample_value
    assert dropped("hypercobalt_events_dropped_total", {"reason": "refused"}) == 1


async def test_an_expired_series_of_events_starts_again(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        recorder.record(NODE, "Normal", "Same", "x", action="Testing")
        await asyncio.sleep(20)
        server.objects["events"].clear()
        recorder.record(NODE, "Normal", "Same", "x", action="Testing")
        await asyncio.sleep(20)
    assert counts(server) == [2]


async def test_stop_writes_the_remaining_events(
    server: ScriptedServer, clock: FakeClock, metrics: Metrics
) -> None:
    async with recording(server, clock, metrics) as recorder:
        await asyncio.sleep(1)
        recorder.record(NODE, "Normal", "Last", "words", action="Stopping")
    assert counts(server) == [1]
