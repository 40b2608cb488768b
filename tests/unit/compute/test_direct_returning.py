"""Without OpenStack: which word of another host keeps a fenced host that is back out of service."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.compute.memory import BOOT, C, Memory, identity

from hypercobalt.adapters.libvirt.model import DomainState
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import RefusedError, UnreachableError

pytestmark = pytest.mark.looptime

VM: Final = identity("a")
LOCAL: Final = identity("local")


@pytest.fixture
async def world() -> Memory:
    """A has died, with an instance that can go elsewhere and one that waits for it."""
    made = Memory()
    await made.add("a", disk="shared")
    await made.add("local", disk="local")
    await made.lose(A)
    return made


async def evacuate(service: DirectService, target: str = B, name: str = "a") -> None:
    server = await named(service, A, name)
    await service.recovery.evacuate(server, target)
    assert (await ended(service, server)).status == "done"


async def enable(service: DirectService, name: str = A) -> None:
    host = await service.hosts.get(name)
    assert host is not None
    await service.hosts.enable(host)


@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "operator restarts"])
async def test_silence_of_a_host_concerns_no_instance_whose_evacuation_was_not_begun(
    world: Memory, *, restarts: bool
) -> None:
    async with world.service() as service:
        await evacuate(service)
        world.cut(C)
        world.boot(A)
        if not restarts:
            await enable(service)
    if restarts:
        async with world.service() as service:
            await enable(service)
    assert set(world.host(A).here) == {LOCAL}


@pytest.mark.parametrize("runs", [True, False])
async def test_silent_target_of_an_evacuation_is_waited_for(world: Memory, *, runs: bool) -> None:
    """Also of an instance that was off: nothing of it was started there."""
    await world.add("b", disk="shared", runs=runs)
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service, name="b")
    world.host(B).disconnect("no route to host")
    world.boot(A)
    async with world.service() as service:
        with pytest.raises(UnreachableError, match="no answer from kvm-2"):
            await enable(service)
    assert identity("b") in world.host(A).here


async def test_copy_that_another_host_runs_keeps_no_host_that_runs_the_instance_from_service(
    world: Memory,
) -> None:
    """No evacuation of it was begun: whoever lists it has it from no process of the operator."""
    world.host(C).put(
        replace(world.host(A).here[LOCAL], active=True, state=DomainState.RUNNING, reason=1)
    )
    world.boot(A)
    world.host(A).start(LOCAL)
    async with world.service() as service:
        await enable(service)
    assert world.host(A).here[LOCAL].active
    assert not world.host(A).calls["undefine"]
    assert not world.host(C).calls["undefine"]


async def test_instance_that_was_evacuated_and_runs_on_both_hosts_is_named(world: Memory) -> None:
    """Also where its new host's definition has lost the mark: its owner has redefined it."""
    async with world.service() as service:
        await evacuate(service)
        world.host(B).put(replace(world.host(B).here[VM], evacuated=None, earlier=()))
        world.boot(A)
        world.host(A).start(VM)
        with pytest.raises(RefusedError, match="runs there and on kvm-2") as refused:
            await enable(service)
    assert refused.value.reason == "RunsTwice"
    assert world.host(A).here[VM].active


# -- hosts that were given an instance -------------------------------------------------------------


async def given(world: Memory, service: DirectService) -> None:
    """Have B given A's instance; then A is back."""
    await evacuate(service)
    world.host(A).connect()
    world.places[A] = replace(world.places[A], fenced=False, up=True)


async def released(world: Memory, service: DirectService, *, within: float) -> None:
    """Have the operator try again every ten seconds until it takes A back."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + within
    while True:
        try:
            await enable(service)
        except UnreachableError:
            assert loop.time() < ends, "it waits for another host still"
            await asyncio.sleep(10)
        else:
            break
    world.places[A] = replace(world.places[A], fenced_boot="", closed="")


_GIVEN = ("silent", "stores nothing", "dead, and nothing of it can be read", "stores its name")


def takes(world: Memory, how: str) -> None:
    """Have B show nothing of what it was given."""
    if how == "stores its name":
        world.stored[B] = HostDefinitions(BOOT, left_out={VM: "a"})
    elif how != "stores nothing":
        world.host(B).disconnect("no route to host")
    if how.startswith("dead"):
        world.fence(B)
        world.stored.pop(B, None)


@pytest.mark.parametrize("how", [*_GIVEN, "another host has stored a copy"])
async def test_host_that_was_given_an_instance_delays_no_return_for_long(
    world: Memory, how: str
) -> None:
    async with world.service() as service:
        await given(world, service)
        takes(world, how if how in _GIVEN else "stores nothing")
        if how not in _GIVEN:
            world.host(C).put(replace(world.host(B).here[VM], evacuated=None, active=False))
            world.store(C)
        with pytest.raises(
            UnreachableError, match=f"{B}.*; without that it is taken back after 300 s"
        ):
            await enable(service)
        await released(world, service, within=310)
        assert not world.host(A).here[VM].active, "what may run on the other host stays, off"


@pytest.mark.parametrize("how", ["silent", "stores nothing"])
async def test_copy_that_a_host_was_taken_back_with_goes_once_its_new_host_shows_it(
    world: Memory, how: str
) -> None:
    async with world.service() as service:
        await given(world, service)
        if how == "silent":
            world.host(B).disconnect("no route to host")
        await released(world, service, within=310)
        await asyncio.sleep(200)
        assert VM in world.host(A).here
        world.host(B).connect()
        world.store(B)
        await asyncio.sleep(70)
        assert set(world.host(A).here) == {LOCAL}
    assert ("a", B, "running") in await world.where()


async def test_copy_that_its_owner_has_started_since_is_left_alone(world: Memory) -> None:
    """Its new host may list it for ever, with the mark that it was given."""
    async with world.service() as service:
        await given(world, service)
        await released(world, service, within=310)
        world.host(A).start(VM)
        world.host(A).stop(VM)
        world.store(B)
        await asyncio.sleep(200)
        assert VM in world.host(A).here


async def test_copy_of_a_host_that_has_died_again_is_looked_at_no_more(world: Memory) -> None:
    async with world.service() as service:
        await given(world, service)
        await released(world, service, within=310)
        world.places[A] = replace(world.places[A], fenced=True, fenced_boot="boot-2")
        world.store(B)
        await asyncio.sleep(200)
        assert VM in world.host(A).here
