"""Ending every guest of a host."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended, stop_all
from hypercobalt.node_agent.host.launchers import PodLaunchers

LAUNCHER = ("python3", "-m", LAUNCHER_MODULE, '{"namespace":"default","name":"guest","uid":"u"}')

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@pytest.fixture
async def libvirt() -> FakeLibvirt:
    made = FakeLibvirt()
    for name in ("a", "b", "off"):
        made.put(Domain(name, name, name != "off", DomainState.RUNNING))
    return made


def host(libvirt: FakeLibvirt, pods: FakePods | None = None) -> AllGuests:
    return AllGuests(libvirt, PodLaunchers(pods or FakePods()))


def running(libvirt: FakeLibvirt) -> set[str]:
    return {domain.uuid for domain in libvirt.here.values() if domain.active}


async def test_every_running_guest_is_ended_and_counted(libvirt: FakeLibvirt) -> None:
    assert await stop_all(host(libvirt), "test", Ended()) == 2
    assert running(libvirt) == set()
    assert libvirt.calls["destroy"] == 2


async def test_each_guest_is_recorded_once_as_ended_by_the_agent(libvirt: FakeLibvirt) -> None:
    ended = Ended()
    await stop_all(host(libvirt), "test", ended)
    assert [ended.take(one) for one in ("a", "b", "off", "a")] == [True, True, False, False]


async def test_a_host_without_guests_is_done_at_once() -> None:
    assert await stop_all(host(FakeLibvirt()), "test", Ended()) == 0


async def test_stop_is_retried_until_libvirt_lists_and_ends_all_guests(
    libvirt: FakeLibvirt,
) -> None:
    libvirt.failures["domains"] = LibvirtError("no connection")
    ending = asyncio.create_task(stop_all(host(libvirt), "test", Ended()))
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
    ending = asyncio.create_task(stop_all(host(libvirt), "test", Ended()))
    await asyncio.sleep(1)
    libvirt.put(Domain("late", "late", True, DomainState.RUNNING))
    assert await ending == 3
    assert running(libvirt) == set()


async def test_guests_of_launcher_pods_are_ended_and_no_other_pod(libvirt: FakeLibvirt) -> None:
    pods = FakePods()
    pods.set("p", LAUNCHER, ("qemu-system-x86_64",))
    pods.set("other", ("nginx",), ("qemu-img",))
    assert await stop_all(host(libvirt, pods), "test", Ended()) == 3
    assert pods.killed == ["p"]


async def test_launcher_that_outlives_its_kill_is_waited_for() -> None:
    pods = FakePods()
    pods.set("p", LAUNCHER)
    pods.stubborn.add("p")
    ending = asyncio.create_task(stop_all(host(FakeLibvirt(), pods), "test", Ended()))
    await asyncio.sleep(30)
    assert not ending.done()
    pods.stubborn.clear()
    assert await ending == 1


async def test_systemd_that_is_away_holds_up_the_end_but_no_domain(libvirt: FakeLibvirt) -> None:
    """A list that cannot be read is no proof that no launcher runs."""
    pods = FakePods()
    pods.leave()
    ending = asyncio.create_task(stop_all(host(libvirt, pods), "test", Ended()))
    await asyncio.sleep(30)
    assert running(libvirt) == set()
    assert not ending.done()
    libvirt.put(Domain("late", "late", True, DomainState.RUNNING))
    pods.come_back()
    assert await ending == 3
    assert running(libvirt) == set()


async def test_launcher_that_looks_like_another_program_is_ended_and_waited_for() -> None:
    """A guest that has broken out chooses the command lines of its pod."""
    pods = FakePods()
    pods.set("p", LAUNCHER, ("qemu-system-x86_64",))
    guests = host(FakeLibvirt(), pods)
    assert await guests.launchers.running()
    pods.set("p", ("nginx",))
    pods.stubborn.add("p")
    ending = asyncio.create_task(stop_all(guests, "test", Ended()))
    await asyncio.sleep(30)
    assert not ending.done()
    pods.stubborn.clear()
    assert await ending == 1


async def test_launcher_among_very_many_processes_is_ended() -> None:
    pods = FakePods()
    pods.set("p", *((f"fork-{number}",) for number in range(300)), LAUNCHER)
    assert await stop_all(host(FakeLibvirt(), pods), "test", Ended()) == 1
    assert pods.killed == ["p"]
