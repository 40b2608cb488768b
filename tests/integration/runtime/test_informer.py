"""Informers under faults, on a real socket: the cache equals the server, and no event is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from tests.integration.runtime.scripted import Reply, Request, ScriptedServer, eventually, refusal

from hypercobalt.api.core import Node
from hypercobalt.runtime import Backoff, Connection, FakeClock, Informer, Kube, Metrics, key_of
from hypercobalt.runtime.client.requests import Selection

RETRY = Backoff(base=timedelta(milliseconds=5), cap=timedelta(milliseconds=50))
NEVER = Backoff(timedelta(hours=1), timedelta(hours=1), jitter=lambda ceiling: ceiling)
IDLE = timedelta(milliseconds=250)


class Witness:
    """Keeps what it receives, and checks that it makes sense: add, updates, delete."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}
        self.changes: list[tuple[str, str]] = []

    def on_add(self, obj: Node) -> None:
        assert key_of(obj) not in self.known, f"added twice: {key_of(obj)}"
        self.known[key_of(obj)] = obj
        self.changes.append(("add", key_of(obj)))

    def on_update(self, old: Node, new: Node) -> None:
        assert self.known[key_of(new)] is old, "the old object is not the last one reported"
        assert old.metadata.uid == new.metadata.uid, "another object of that name"
        self.known[key_of(new)] = new
        self.changes.append(("update", key_of(new)))

    def on_delete(self, obj: Node) -> None:
        del self.known[key_of(obj)]
        self.changes.append(("delete", key_of(obj)))

    def versions(self) -> dict[str, str]:
        return {key: obj.metadata.resourceVersion for key, obj in self.known.items()}


@asynccontextmanager
async def informing(
    kube: Kube,
    metrics: Metrics,
    *,
    fields: str = "",
    idle: timedelta = IDLE,
    retry: Backoff = RETRY,
) -> AsyncIterator[tuple[Informer[Node], Witness]]:
    informer = Informer(
        kube,
        Selection(Node, fields=fields),
        metrics=metrics,
        idle=idle,
        retry=retry,
        page=3,
        indexes={"zone": lambda node: [node.metadata.labels.get("zone", "")]},
    )
    witness = Witness()
    informer.add_handler(witness)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(5):
            await informer.wait_synced()
        yield informer, witness
    finally:
        task.cancel()
        await asyncio.wait({task})


def add(server: ScriptedServer, *names: str, zone: str = "a") -> None:
    for name in names:
        server.put("nodes", {"metadata": {"name": name, "labels": {"zone": zone}}})


async def equal(server: ScriptedServer, informer: Informer[Node], witness: Witness) -> None:
    """Wait until cache, witness and server have the same objects at the same versions."""

    def same() -> bool:
        cached = {key_of(node): node.metadata.resourceVersion for node in informer.cache}
        return cached == witness.versions() == server.versions("nodes")

    await eventually(same)


def break_watches(server: ScriptedServer) -> None:
    server.drop_watches()


def end_in_410(server: ScriptedServer) -> None:
    server.compact()


def silence(server: ScriptedServer) -> None:
    server.silent = True


async def test_age_counts_from_the_last_answer_of_the_server(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a")
    assert Informer(kube, Selection(Node), metrics=metrics).age is None
    async with informing(kube, metrics, idle=timedelta(seconds=5)) as (informer, _):
        await eventually(lambda: server.calls["watch"] > 0)
        await eventually(lambda: (informer.age or timedelta(0)) > timedelta(milliseconds=50))
        server.bookmark()
        await eventually(lambda: (informer.age or IDLE) < timedelta(milliseconds=50))


def storm(code: int) -> Callable[[ScriptedServer], None]:
    def start(server: ScriptedServer) -> None:
        server.fail(code, times=8, verbs=("watch", "list"))
        server.drop_watches()

    return start


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(break_watches, id="dropped"),
        pytest.param(end_in_410, id="410-in-a-watch"),
        pytest.param(silence, id="half-open"),
        pytest.param(storm(429), id="429-storm"),
        pytest.param(storm(500), id="500-storm"),
    ],
)
async def test_cache_equals_server_after_a_fault(
    server: ScriptedServer,
    kube: Kube,
    metrics: Metrics,
    fault: Callable[[ScriptedServer], None],
) -> None:
    add(server, "kept", "changed", "gone", "reborn")
    async with informing(kube, metrics) as (informer, witness):
        await equal(server, informer, witness)
        fault(server)
        add(server, "changed", "new")
        server.remove("nodes", "gone")
        server.remove("nodes", "reborn")
        add(server, "reborn")
        await asyncio.sleep(0)
        if server.silent:
            # Nothing more comes on this connection: only its silence shows the loss.
            await eventually(lambda: server.calls["watch"] > 1)
            server.silent = False
            server.bookmark()
        await equal(server, informer, witness)
        add(server, "after")
        await equal(server, informer, witness)
    if fault is end_in_410:
        assert server.calls["list"] > 2
    assert ("update", "kept") not in witness.changes
    reborn = [what for what, key in witness.changes if key == "reborn"]
    assert reborn == ["add", "delete", "add"]


async def test_cache_equals_server_after_a_restart_that_lost_history(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a", "b")
    async with informing(kube, metrics) as (informer, witness):
        await server.stop()
        server.remove("nodes", "a")
        add(server, "b", "c", "d", "e")
        server.compact()
        await server.start()
        await equal(server, informer, witness)
    assert witness.changes.count(("delete", "a")) == 1


async def test_watch_resumes_from_the_last_bookmark(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a")
    async with informing(kube, metrics) as (informer, witness):
        await eventually(lambda: server.watching == 1)
        server.bookmark()
        marked = server.version
        await eventually(lambda: informer._version == str(marked))
        server.drop_watches()
        await eventually(lambda: server.calls["watch"] == 2)
        assert server.requests[-1].params["resourceVersion"] == str(marked)
        await equal(server, informer, witness)
    assert server.calls["list"] == 1


async def test_watch_begins_again_on_request(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a")
    async with informing(kube, metrics) as (informer, witness):
        await eventually(lambda: server.watching == 1)
        informer.restart()
        informer.restart()  # which is being done
        await eventually(lambda: server.calls["watch"] == 2)
        add(server, "b")
        await equal(server, informer, witness)
    assert server.calls["list"] == 1


async def test_watch_that_waits_for_its_next_attempt_begins_at_once_on_request(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    """The next attempt of a host that was cut off may be half a minute away."""
    add(server, "a")
    async with informing(kube, metrics, retry=NEVER) as (informer, witness):
        await eventually(lambda: server.watching == 1)
        server.drop_watches()
        await eventually(lambda: informer.breaks == 1)
        informer.restart()
        await eventually(lambda: server.calls["watch"] == 2)
        add(server, "b")
        await equal(server, informer, witness)


async def test_410_between_pages_starts_the_list_again(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, *"abcdefg")
    left = [1]

    def expire(request: Request) -> Reply | None:
        if "continue" in request.params and left:
            left.pop()
            server.remove("nodes", "a")
            return refusal(410, "Expired")
        return None

    server.faults.append(expire)
    async with informing(kube, metrics) as (informer, witness):
        await equal(server, informer, witness)


async def test_selector_is_applied_by_the_server(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "mine", "other")
    async with informing(kube, metrics, fields="metadata.name=mine") as (informer, _):
        add(server, "other", "mine")
        await eventually(lambda: len(server.log) == 4)
        version = server.versions("nodes")["mine"]
        await eventually(lambda: [n.metadata.resourceVersion for n in informer.cache] == [version])
    selected = [r.params["fieldSelector"] for r in server.requests]
    assert set(selected) == {"metadata.name=mine"}


async def test_indexes_follow_changes(server: ScriptedServer, kube: Kube, metrics: Metrics) -> None:
    add(server, "a", "b", zone="x")
    async with informing(kube, metrics) as (informer, witness):
        add(server, "b", zone="y")
        await equal(server, informer, witness)
        assert [key_of(n) for n in informer.cache.find("zone", "x")] == ["a"]
        assert [key_of(n) for n in informer.cache.find("zone", "y")] == ["b"]
        server.remove("nodes", "b")
        await equal(server, informer, witness)
        assert informer.cache.find("zone", "y") == []


async def test_an_unreadable_object_keeps_its_last_state_and_stops_no_other(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a", "b")
    async with informing(kube, metrics) as (informer, witness):
        server.put("nodes", {"metadata": {"name": "a"}, "spec": {"unschedulable": "maybe"}})
        add(server, "c")
        await eventually(lambda: informer.cache.get("c") is not None)
        assert informer.cache.get("a") is not None
        server.compact()
        await eventually(lambda: server.calls["list"] > 1)
        add(server, "d")
        await eventually(lambda: informer.cache.get("d") is not None)
        assert informer.cache.get("a") is not None
        server.remove("nodes", "a")
        await eventually(lambda: informer.cache.get("a") is None)
    assert witness.changes.count(("delete", "a")) == 1
    value = metrics.registry.get_sample_value(
        "hypercobalt_informer_unreadable_total", {"resource": "nodes"}
    )
    assert value is not None
    assert value >= 2


async def test_late_handler_receives_everything(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    add(server, "a", "b")
    async with informing(kube, metrics) as (informer, _):
        late = Witness()
        informer.add_handler(late)
        assert sorted(late.known) == ["a", "b"]


async def test_trouble_that_lasts_is_reported_once_and_again_after_it_was_over(
    server: ScriptedServer, kube: Kube, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "hypercobalt.runtime.informer")

    def reports() -> int:
        return sum("scripted 404" in record.getMessage() for record in caplog.records)

    async with informing(kube, metrics) as (informer, witness):
        for times in (1, 2):
            failed = server.calls["watch"] + 5
            server.fail(404, times=5, verbs=("watch",))
            server.drop_watches()
            await eventually(lambda failed=failed: server.calls["watch"] > failed)
            add(server, f"seen-{times}")
            await equal(server, informer, witness)
            assert reports() == times


async def test_cache_equals_server_after_many_random_faults(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    """Faults and writes in turns; in the end, and whenever it is calm, all are equal."""
    faults = (break_watches, end_in_410, storm(503), lambda _: None)
    async with informing(kube, metrics) as (informer, witness):
        for turn in range(12):
            faults[turn % len(faults)](server)
            for number in range(5):
                name = f"n{(turn * 3 + number) % 11}"
                if name in server.objects.get("nodes", {}) and number % 3 == 0:
                    server.remove("nodes", name)
                else:
                    add(server, name)
            await asyncio.sleep(0)
            if turn % 3 == 2:
                server.faults.clear()
                await equal(server, informer, witness)
        server.faults.clear()
        await equal(server, informer, witness)


@pytest.mark.parametrize("hours", [5, -5])
async def test_a_watch_outlasts_a_step_of_the_wall_clock(
    server: ScriptedServer, metrics: Metrics, hours: int
) -> None:
    clock = FakeClock(source=asyncio.get_running_loop().time)
    add(server, "old")
    async with (
        Kube(Connection(server.url), clock=clock) as kube,
        informing(kube, metrics, idle=timedelta(seconds=30)) as (informer, witness),
    ):
        clock.step(timedelta(hours=hours))
        add(server, "new")
        await equal(server, informer, witness)
        assert (server.calls["list"], server.calls["watch"]) == (1, 1)
