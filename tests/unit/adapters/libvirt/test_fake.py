"""The libvirt in memory fails, hangs and sends events as a test sets."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.adapters.libvirt.events import Connected, Disconnected, DomainEvent
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState, JobStats, JobType
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle

UUID = "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"
DOMAIN = Domain(UUID, "a", active=True, state=DomainState.RUNNING, memory_bytes=1024, vcpus=1)


def as_port(fake: FakeLibvirt) -> Libvirt:
    return fake


async def test_without_connection_every_call_fails_and_no_event_comes() -> None:
    fake = FakeLibvirt()
    fake.put(DOMAIN)
    fake.disconnect("gone")
    events = as_port(fake).events()

    assert await anext(events) == Disconnected("gone")
    fake.stop(UUID)
    for call in (fake.domains, fake.stats, fake.capabilities, fake.domain_capabilities):
        with pytest.raises(LibvirtError, match="libvirt is not connected: gone"):
            await call()
    fake.connect()
    assert isinstance(await anext(events), Connected)
    assert [one.state for one in await fake.domains()] == [DomainState.SHUTOFF]
    await events.aclose()


async def test_a_failure_lasts_until_it_is_taken_out() -> None:
    fake = FakeLibvirt()
    fake.failures["domains"] = LibvirtError("internal error")

    for _ in range(2):
        with pytest.raises(LibvirtError, match="internal error"):
            await fake.domains()
    del fake.failures["domains"]

    assert await fake.domains() == ()
    assert fake.calls["domains"] == 3


@pytest.mark.looptime
async def test_fake_call_lasts_as_long_as_set() -> None:
    fake = FakeLibvirt()
    fake.delays["stats"] = 30

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(29):
            await fake.stats()


async def test_events_carry_what_happened() -> None:
    fake = FakeLibvirt()
    fake.add(DOMAIN)
    events = fake.events()
    await anext(events)

    fake.start(UUID)
    fake.stop(UUID, detail=2)
    await fake.undefine(UUID)

    got = [await anext(events) for _ in range(3)]
    assert [(one.type, one.detail) for one in got if isinstance(one, DomainEvent)] == [
        (Lifecycle.STARTED, 0),
        (Lifecycle.STOPPED, 2),
        (Lifecycle.UNDEFINED, 0),
    ]
    await events.aclose()


async def test_a_transient_domain_is_gone_once_it_stops() -> None:
    fake = FakeLibvirt()
    fake.create(DOMAIN)
    fake.jobs[UUID] = JobStats(JobType.UNBOUNDED, {"operation": 5})

    fake.stop(UUID, detail=3)

    assert await fake.domains() == ()
    assert await fake.job_stats(UUID) is None


async def test_jobs_are_those_that_were_set() -> None:
    fake = FakeLibvirt()
    fake.put(DOMAIN)
    fake.jobs[UUID] = JobStats(JobType.UNBOUNDED, {"operation": 5})
    fake.completed_jobs[UUID] = JobStats(JobType.COMPLETED, {"operation": 4})

    assert await fake.job_stats(UUID) == fake.jobs[UUID]
    assert await fake.job_stats(UUID, completed=True) == fake.completed_jobs[UUID]
    assert await fake.job_stats("other") is None
