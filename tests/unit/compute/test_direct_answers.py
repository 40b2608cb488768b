"""Concurrent callers share few listings of a host; none is older than its caller's call."""

from __future__ import annotations

import asyncio

from hypercobalt.adapters.libvirt.fake import FakeDaemons, FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.compute.direct.answers import Answers
from hypercobalt.compute.direct.directory import Place
from hypercobalt.runtime import FakeClock

HOST = Place("kvm-1", "id", "qemu+tcp://192.0.2.1/system", "")
U1 = "11111111-0000-4000-8000-000000000001"


class Gated(FakeLibvirt):
    """Reads at once, answers once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.listed = asyncio.Event(), asyncio.Event()

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        found = await super().domains(jobs=jobs)
        self.listed.set()
        await self.gate.wait()
        return found


class Gates(FakeDaemons):
    """One host."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Gated()

    def at(self, uri: str) -> FakeLibvirt:
        return self.host


def begun() -> tuple[Gated, Answers]:
    daemons = Gates()
    return daemons.host, Answers(daemons, FakeClock())


async def test_twenty_calls_at_once_share_two_listings() -> None:
    host, answers = begun()
    host.gate.set()
    found = await asyncio.gather(*(answers.domains(HOST) for _ in range(20)))
    assert set(found) == {()}
    assert host.calls["domains"] == 2


async def test_listing_that_has_begun_before_the_call_is_not_used() -> None:
    host, answers = begun()
    first = asyncio.create_task(answers.domains(HOST))
    await host.listed.wait()
    host.put(Domain(U1, "vm1", True, DomainState.RUNNING))
    second = asyncio.create_task(answers.domains(HOST))
    await asyncio.sleep(0)
    host.gate.set()
    assert await first == ()
    assert [one.uuid for one in await second or ()] == [U1]


async def test_cancelled_caller_leaves_the_listing_to_the_next() -> None:
    host, answers = begun()
    calls = [asyncio.create_task(answers.domains(HOST)) for _ in range(3)]
    await host.listed.wait()
    calls[0].cancel()
    host.gate.set()
    assert await asyncio.gather(*calls[1:]) == [(), ()]
