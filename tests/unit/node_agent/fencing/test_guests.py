"""Ending every guest of a host."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError
from hypercobalt.node_agent.fencing.guests import Ended, stop_all

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.fixture
async def libvirt() -> FakeLibvirt:
    made = FakeLibvirt()
    for name in ("a", "b", "off"):
        made.put(Domain(name, name, name != "off", DomainState.RUNNING))
    return made


def running(libvirt: FakeLibvirt) -> set[str]:
    return {domain.uuid for domain in libvirt.here.values() if domain.active}


async def test_every_running_guest_is_ended_and_counted(libvirt: FakeLibvirt) -> None:
    assert await stop_all(libvirt, "test", Ended()) == 2
    assert running(libvirt) == set()
    assert libvirt.calls["destroy"] == 2


async def test_each_guest_is_recorded_once_as_ended_by_the_agent(libvirt: FakeLibvirt) -> None:
    ended = Ended()
    await stop_all(libvirt, "test", ended)
    assert [ended.take(one) for one in ("a", "b", "off", "a")] == [True, True, False, False]


async def test_a_host_without_guests_is_done_at_once() -> None:
    assert await stop_all(FakeLibvirt(), "test", Ended()) == 0


async def test_stop_is_retried_until_libvirt_lists_and_ends_all_guests(
    libvirt: FakeLibvirt,
) -> None:
    libvirt.failures["domains"] = LibvirtError("no connection")
    ending = asyncio.create_task(stop_all(libvirt, "test", Ended()))
    await asyncio.sleep(30)
    assert not ending.done()
    libvirt.failures["destroy"] = LibvirtRefusedError("the process does not end")
    del libvirt.failures["domains"]
    await asyncio.sleep(30)
    assert not ending.done()
    assert running(libvirt) == {"a", "b"}
    del libvirt.failures["destroy"]
    assert await ending == 2
    assert running(libvirt) == set()


async def test_a_guest_that_starts_meanwhile_is_ended_too(libvirt: FakeLibvirt) -> None:
    libvirt.delays["destroy"] = 5
    ending = asyncio.create_task(stop_all(libvirt, "test", Ended()))
    await asyncio.sleep(1)
    libvirt.put(Domain("late", "late", True, DomainState.RUNNING))
    assert await ending == 3
    assert running(libvirt) == set()
