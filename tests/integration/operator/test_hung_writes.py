"""A write of a Hypervisor that hangs holds up the other writers of it until its deadline only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta

import pytest
from tests.integration.runtime.scripted import Hang, Reply, Request, ScriptedServer

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.errors import TransientError
from hypercobalt.operator.definitions.starts import RecordedStarts
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Connection, DeadlineExceededError, Informer, Kube, Limits, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import WriteCache

NAME = "kvm-a"
ADDRESS, SERVICE = Part(fields={"internalIp": "192.0.2.1"}), Part(fields={"serviceId": "s"})
LIMITS = Limits(deadline=timedelta(milliseconds=300), attempt=timedelta(milliseconds=100))


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer()
    made.put("hypervisors", {"metadata": {"name": NAME}})
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("hangs", ["get", "patch"])
async def test_write_that_hangs_holds_up_others_until_its_deadline_and_loses_none(
    server: ScriptedServer, hangs: str
) -> None:
    """The first writer hangs: in its apply of the status, or as it reads before it patches."""
    hung = asyncio.Event()
    marked = "internalIp" if hangs == "patch" else ""

    def hang(request: Request) -> Reply | None:
        if request.verb == hangs and marked in str(request.body):
            hung.set()
            raise Hang
        return None

    async with Kube(Connection(server.url), limits=LIMITS) as kube:
        informer = Informer(kube, Selection(Hypervisor), metrics=Metrics())
        hypervisors = WriteCache(informer)
        informer.load(await kube.list(Hypervisor))
        (stored,) = hypervisors.all()
        statuses = StatusWriter(kube, hypervisors, lambda _: ())
        starts = RecordedStarts(kube, hypervisors)

        async def address() -> None:
            await statuses.put(stored, ADDRESS)

        async def service() -> None:
            await statuses.put(stored, SERVICE)

        async def start() -> None:
            await starts.note(NAME, "boot-1", "uuid", "1")

        first, other = (address, start) if hangs == "patch" else (start, address)
        server.faults.append(hang)
        async with asyncio.TaskGroup() as group:
            held = group.create_task(_refused(first()))
            await hung.wait()
            for one in (other, service):
                group.create_task(one())
            assert isinstance(await held, DeadlineExceededError)
        server.faults.clear()
        await first()  # as its controller does: the pass has failed
        found = await kube.get(Hypervisor, NAME)
    assert found is not None
    assert (found.status.internalIp, found.status.serviceId) == ("192.0.2.1", "s")
    assert hypervisors.get(NAME) == found
    assert starts.of(NAME, "boot-1") == {"uuid": "1"}


async def _refused(work: Coroutine[None, None, None]) -> TransientError | None:
    try:
        await work
    except TransientError as error:
        return error
    return None
