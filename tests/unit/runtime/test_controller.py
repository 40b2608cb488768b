"""Which changes lead to a pass, and the effect of its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.integration.runtime.scripted import ScriptedServer
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.core import ConfigMap, Node, NodeSpec
from hypercobalt.api.meta import Object, ObjectMeta, OwnerReference
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.runtime import (
    Change,
    Controller,
    FakeClock,
    Informer,
    KeyBackoff,
    Metrics,
    Result,
    WatchEvent,
    generation_changed,
    key_of,
    mapped,
    owned,
    primary,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.controller import Watch

T = TypeVar("T", bound=Object)
pytestmark = pytest.mark.looptime
BACKOFF = KeyBackoff(base=timedelta(seconds=1), cap=timedelta(seconds=8), jitter=lambda c: c)


class Script:
    """A reconciler that does, per pass, what a test sets; then nothing."""

    def __init__(self, *steps: Callable[[], Coroutine[None, None, Result]]) -> None:
        self.steps = list(steps)
        self.passes: list[tuple[str, float]] = []
        self.running, self.most = 0, 0

    async def reconcile(self, key: str, /) -> Result:
        loop = asyncio.get_running_loop()
        self.passes.append((key, round(loop.time(), 1)))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.steps.pop(0)() if self.steps else Result()
        finally:
            self.running -= 1

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.passes]

    def gaps(self) -> list[float]:
        times = [at for _, at in self.passes]
        return [round(b - a, 1) for a, b in pairwise(times)]


def fail(error: BaseException) -> Callable[[], Coroutine[None, None, Result]]:
    async def step() -> Result:
        raise error

    return step


def added(obj: T) -> WatchEvent[T]:
    return WatchEvent(Change.ADDED, key_of(obj), obj.metadata.resourceVersion, obj)


class Source:
    """An informer whose cache the test fills by hand."""

    def __init__(self, metrics: Metrics, clock: FakeClock) -> None:
        kube = memory_kube(ScriptedServer(), clock)
        self.nodes = Informer(kube, Selection(Node), metrics=metrics)
        self.maps = Informer(kube, Selection(ConfigMap), metrics=metrics)
        self.nodes._synced.set()
        self.maps._synced.set()
        self.version = 0

    def put(self, name: str, *, generation: int = 1) -> None:
        self.version += 1
        meta = ObjectMeta(name=name, resourceVersion=str(self.version), generation=generation)
        self.nodes.take(added(Node(metadata=meta, spec=NodeSpec())))

    def put_map(self, name: str, *owners: OwnerReference, **data: str) -> None:
        self.version += 1
        meta = ObjectMeta(
            name=name, namespace="ns", resourceVersion=str(self.version), ownerReferences=owners
        )
        self.maps.take(added(ConfigMap(metadata=meta, data=data)))


@pytest.fixture
async def source(metrics: Metrics, clock: FakeClock) -> Source:
    return Source(metrics, clock)


@asynccontextmanager
async def running(
    script: Script,
    watches: Sequence[Watch],
    metrics: Metrics,
    clock: FakeClock,
    concurrency: int = 1,
) -> AsyncIterator[None]:
    controller = Controller(
        "test", script, watches=watches, concurrency=concurrency, backoff=BACKOFF
    )
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(metrics=metrics, clock=clock, stop=stop))
    await asyncio.sleep(0.1)
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(1000):
            await task


async def test_stored_and_changed_objects_are_reconciled(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    script = Script()
    source.put("a")
    async with running(script, [primary(source.nodes)], metrics, clock):
        source.put("b")
        await asyncio.sleep(1)
        source.nodes._delete("a", Node(metadata=ObjectMeta(name="a")))
        await asyncio.sleep(1)
    assert script.keys == ["a", "b", "a"]


async def test_predicate_lets_only_new_generations_through(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    script = Script()
    watch = primary(source.nodes, when=generation_changed)
    async with running(script, [watch], metrics, clock):
        for generation in (1, 1, 2):
            source.put("a", generation=generation)
            await asyncio.sleep(1)
    assert len(script.passes) == 2


async def test_owned_objects_lead_to_their_controlling_owner_of_the_kind(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    def owner(kind: str, name: str, *, controller: bool = True) -> OwnerReference:
        return OwnerReference(apiVersion="v1", kind=kind, name=name, uid="u", controller=controller)

    script = Script()
    async with running(script, [owned(source.maps, Node)], metrics, clock):
        source.put_map("m1", owner("Node", "a"), owner("Node", "not", controller=False))
        source.put_map("m2", owner("Pod", "not"))
        await asyncio.sleep(1)
    assert script.keys == ["a"]


async def test_mapping_enqueues_both_the_old_and_the_new(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    script = Script()
    watch = mapped(source.maps, lambda m: [m.data["node"]])
    async with running(script, [watch], metrics, clock):
        source.put_map("m", node="a")
        await asyncio.sleep(1)
        source.put_map("m", node="b")
        await asyncio.sleep(1)
    assert script.keys == ["a", "a", "b"]


async def test_key_is_reconciled_again_after_the_requeue_delay(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    async def later() -> Result:
        return Result(timedelta(seconds=30))

    script = Script(later)
    source.put("a")
    async with running(script, [primary(source.nodes)], metrics, clock):
        await asyncio.sleep(100)
    assert script.gaps() == [30.0]


@pytest.mark.parametrize(
    ("errors", "gaps"),
    [
        pytest.param([TransientError("x")] * 5, [1, 2, 4, 8, 8], id="transient-backs-off"),
        pytest.param([ValueError("bug")] * 3, [1, 2, 4], id="a-bug-backs-off"),
        pytest.param(
            [TransientError("x", retry_after=timedelta(seconds=17))],
            [17],
            id="retry-after-of-the-server",
        ),
        pytest.param([TerminalError("x", reason="Bad")], [], id="terminal-waits-for-a-change"),
        pytest.param(
            [ExceptionGroup("g", [TerminalError("x", reason="Bad")])], [], id="inside-a-group"
        ),
        pytest.param([asyncio.CancelledError()], [1], id="cancelled-by-itself"),
    ],
)
async def test_failed_pass_is_retried_by_the_class_of_its_error(
    source: Source,
    metrics: Metrics,
    clock: FakeClock,
    errors: list[BaseException],
    gaps: list[float],
) -> None:
    script = Script(*(fail(error) for error in errors))
    source.put("a")
    async with running(script, [primary(source.nodes)], metrics, clock):
        await asyncio.sleep(100)
        assert script.gaps() == gaps
        source.put("a", generation=2)
        await asyncio.sleep(1)
    assert len(script.passes) == len(gaps) + 2
    value = metrics.registry.get_sample_value
    labels = {"controller": "test"}
    assert value("controller_runtime_reconcile_errors_total", labels) == len(errors)
    assert value("controller_runtime_reconcile_total", {**labels, "result": "error"}) == len(errors)


async def test_keys_run_side_by_side_up_to_the_limit_and_each_alone(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    async def slow() -> Result:
        await asyncio.sleep(5)
        return Result()

    script = Script(*([slow] * 12))
    for name in "abcdef":
        source.put(name)
    async with running(script, [primary(source.nodes)], metrics, clock, concurrency=4):
        source.put("a", generation=2)  # while it is being worked on
        await asyncio.sleep(100)
    assert script.most == 4
    assert sorted(script.keys) == ["a", "a", "b", "c", "d", "e", "f"]
    first, second = (at for key, at in script.passes if key == "a")
    assert second >= first + 5


async def test_stop_lets_a_pass_finish(source: Source, metrics: Metrics, clock: FakeClock) -> None:
    finished: list[bool] = []

    async def slow() -> Result:
        await asyncio.sleep(50)
        finished.append(True)
        return Result()

    script = Script(slow)
    source.put("a")
    source.put("b")
    async with running(script, [primary(source.nodes)], metrics, clock):
        pass
    assert (finished, script.keys) == ([True], ["a"])


async def test_pass_waits_until_the_caches_are_filled(
    source: Source, metrics: Metrics, clock: FakeClock
) -> None:
    source.maps._synced.clear()
    script = Script()
    source.put("a")
    watches = [primary(source.nodes), owned(source.maps, Node)]
    async with running(script, watches, metrics, clock):
        await asyncio.sleep(10)
        assert script.keys == []
        source.maps._synced.set()
        await asyncio.sleep(1)
        assert script.keys == ["a"]


def test_deletion_mark_counts_as_a_new_generation(clock: FakeClock) -> None:
    old = Node(metadata=ObjectMeta(name="a", generation=1))
    new = replace(old, metadata=replace(old.metadata, deletionTimestamp=clock.now()))
    assert generation_changed(old, new)
    assert not generation_changed(old, old)
