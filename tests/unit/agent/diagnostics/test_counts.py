"""Each request for a use is counted once, by a closed set of kinds and outcomes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.pages import ROOT, first_cells

from hypercobalt.agent.diagnostics.counts import NAME, Counts, UseOutcome
from hypercobalt.agent.diagnostics.record import Records
from hypercobalt.agent.diagnostics.serving import MOST_AT_ONCE, UseServer
from hypercobalt.agent.diagnostics.use import BusyError, RefusedUseError, Use, UseRequest
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec
from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime import Connection, FakeClock, Kube, Metrics
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.routes import Answer, Request, Requester, Stream
from hypercobalt.runtime.streaming import close

PAGE = (ROOT / "docs/security.md").read_text()
OWN = OVSNode(
    metadata=ObjectMeta(name="kvm-1"), spec=OVSNodeSpec(nodeRef=NodeReference(name="kvm-1"))
)


class Kept(Records):
    """Events that no API server has to take; `refuse` makes it take none."""

    refuse = False

    async def store(self, about: Object, reason: str, note: str) -> None:
        if Kept.refuse:
            raise HypercobaltError("no answer within 5 s")

    def refused(self, about: Object | None, note: str) -> None:
        pass


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def server(registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> UseServer:
    monkeypatch.setattr(Kept, "refuse", False)
    clock, metrics = FakeClock(datetime(2026, 11, 1, tzinfo=UTC)), Metrics()
    kube = Kube(Connection("http://127.0.0.1:1"))
    recorder = Recorder(kube, "ovs.c5c3.io/ovs-agent", "test", clock=clock, metrics=metrics)
    return UseServer(lambda: OWN, Kept(recorder), Counts(["trace"], registry), clock)


def counted(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """Series above 0."""
    (family,) = registry.collect()
    return {
        (one.labels["use"], one.labels["outcome"]): one.value
        for one in family.samples
        if one.name == NAME and one.value
    }


def request(query: str = "", method: str = "POST") -> Request:
    return Request(method, "/", query, {}, requester=Requester("jane"))


def use(error: BaseException | None = None, seconds: float = 10.0) -> Use:
    async def handle(_: UseRequest) -> Answer:
        if error is not None:
            raise error
        return Answer(200, b"{}")

    return Use("trace", "trace", handle, "POST", seconds=seconds)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, UseOutcome.ANSWERED),
        (RefusedUseError("no such port"), UseOutcome.REFUSED),
        (BusyError("one at a time"), UseOutcome.BUSY),
        (HypercobaltError("ovs-vswitchd does not answer"), UseOutcome.UNAVAILABLE),
        (TimeoutError(), UseOutcome.TIMEOUT),
        (RuntimeError("a bug"), UseOutcome.FAILED),
    ],
)
async def test_answer_is_counted_by_its_outcome(
    server: UseServer, registry: CollectorRegistry, error: BaseException | None, outcome: UseOutcome
) -> None:
    await server.serve(use(error), request())
    assert counted(registry) == {("trace", outcome): 1.0}


@pytest.mark.parametrize("invalid", [request("unknown=1"), request(method="HEAD")])
async def test_invalid_request_is_counted_as_refused(
    server: UseServer, registry: CollectorRegistry, invalid: Request
) -> None:
    await server.serve(use(), invalid)
    assert counted(registry) == {("trace", UseOutcome.REFUSED): 1.0}


async def test_use_without_its_event_is_counted_as_unavailable(
    server: UseServer, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kept, "refuse", True)
    await server.serve(use(), request())
    assert counted(registry) == {("trace", UseOutcome.UNAVAILABLE): 1.0}


async def test_client_that_leaves_before_the_answer_is_counted(
    server: UseServer, registry: CollectorRegistry
) -> None:
    async def never(_: UseRequest) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.create_task(server.serve(Use("trace", "trace", never, "POST"), request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert counted(registry) == {("trace", UseOutcome.ABANDONED): 1.0}
    assert server.under_way == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, UseOutcome.ANSWERED),
        (HypercobaltError("tap1 is gone"), UseOutcome.UNAVAILABLE),
        (RuntimeError("a bug"), UseOutcome.FAILED),
    ],
)
@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_stream_is_counted_once_at_its_end(
    server: UseServer,
    registry: CollectorRegistry,
    error: Exception | None,
    outcome: UseOutcome,
    taken: int,
) -> None:
    async def packets() -> AsyncGenerator[bytes]:
        yield b"packet"
        if error is not None:
            raise error

    async def handle(_: UseRequest) -> Stream:
        return Stream(packets())

    found = await server.serve(Use("trace", "trace", handle, "POST"), request())
    assert isinstance(found, Stream)
    assert counted(registry) == {}
    ended_by_error = False
    for _ in range(taken):
        try:
            await anext(found.chunks)
        except StopAsyncIteration:
            pass
        except (HypercobaltError, RuntimeError):
            ended_by_error = True
    await close(found)
    left = outcome if ended_by_error else UseOutcome.ANSWERED
    assert counted(registry) == {("trace", left): 1.0}
    assert server.under_way == 0


async def test_use_beyond_those_at_once_is_counted_as_busy(
    server: UseServer, registry: CollectorRegistry
) -> None:
    server.under_way = MOST_AT_ONCE
    await server.serve(use(), request())
    assert counted(registry) == {("trace", UseOutcome.BUSY): 1.0}


def test_labels_are_a_closed_set(registry: CollectorRegistry) -> None:
    counts = Counts(["trace", "ports"], registry)
    for name in ("trace", "", "../x", "x" * 10_000, "trace\n"):
        counts.add(name, UseOutcome.DENIED)
    assert counted(registry) == {("trace", "denied"): 1.0, ("none", "denied"): 4.0}
    (family,) = registry.collect()
    zeros = [one for one in family.samples if one.name == NAME and one.labels["use"] == "ports"]
    assert {one.labels["outcome"] for one in zeros} == set(UseOutcome)


def test_page_names_every_outcome() -> None:
    table = PAGE[PAGE.index("| Outcome | What |") :].partition("\n\n")[0]
    assert set(first_cells(table)) == set(UseOutcome)
    for page in ("ovs-agent.md", "security.md"):
        assert re.search(rf"`{NAME}\{{use,outcome\}}`", Path(ROOT / "docs" / page).read_text())
