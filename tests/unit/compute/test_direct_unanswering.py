"""Without OpenStack: a host that reports, and answers no call, holds a recovery up for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named, newest
from tests.unit.compute.memory import BOOT, C, Memory, identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.model import Devices, Domain, Evacuated
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import MayRunElsewhereError

pytestmark = pytest.mark.looptime

VM: Final = identity("a")
LONG: Final = 600.0


@pytest.fixture
async def world() -> Memory:
    """C reports."""
    made = Memory()
    await made.add("a", disk="shared")
    for name in (A, B, C):
        made.store(name)
    made.places[C] = replace(made.places[C], reports=True)
    return made


async def die(world: Memory) -> None:
    """A dies while C answers no call."""
    world.host(C).disconnect("no route to host")
    await world.lose(A)


async def started_within(service: DirectService, seconds: float) -> float:
    """Have the operator try again every ten seconds; return when A's instance was started."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() - began < seconds:
        server = await named(service, A, "a")
        try:
            await service.recovery.evacuate(server, B)
        except MayRunElsewhereError:
            pass
        else:
            if (await ended(service, server)).status == "done":
                return loop.time() - began
        await asyncio.sleep(10)
    return seconds


async def test_host_that_reports_and_answers_no_call_delays_a_recovery(world: Memory) -> None:
    await die(world)
    async with world.service() as service:
        took = await started_within(service, LONG)
    assert 100 < took < 150
    assert ("a", B, "running") in await world.where()


async def test_host_that_reports_and_answers_no_call_delays_a_move_of_what_is_off(
    world: Memory,
) -> None:
    """Its host has booted since, so that libvirt shows no end there."""
    world.host(A).stop(VM)
    world.host(A).put(replace(world.host(A).here[VM], reason=0))
    world.host(C).disconnect("no route to host")
    async with world.service() as service:
        world.store(A)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await until(lambda: moved_off(world, service), seconds=LONG)
        took = loop.time() - began
    assert 100 < took < 200
    assert await world.where() == [("a", B, "shut off")]


async def moved_off(world: Memory, service: DirectService) -> bool:
    server = await named(service, A, "a")
    try:
        await service.moves.cold_migrate(server, B)
    except MayRunElsewhereError:
        return False
    while not (move := await newest(service, server)).ended:
        await asyncio.sleep(1)
        world.store(B)
    return move.succeeded


async def test_host_that_does_not_report_either_is_waited_for(world: Memory) -> None:
    """Until the host is fenced, or a person asserts that it is dead."""
    world.places[C] = replace(world.places[C], reports=False)
    await die(world)
    async with world.service() as service:
        assert await started_within(service, LONG) == LONG


async def test_host_that_was_given_the_instance_is_waited_for(world: Memory) -> None:
    """What its agent has stored is older than the move."""
    async with world.service() as service:
        server = await named(service, A, "a")
        stored = world.stored[A]
        await service.moves.live_migrate(server, C)
        assert (await ended(service, server)).status == "completed"
        world.host(C).disconnect("no route to host")
        await world.lose(A)
        world.stored[A] = stored
        assert await started_within(service, LONG) == LONG


async def test_host_whose_agent_has_stored_the_instance_is_waited_for(world: Memory) -> None:
    world.stored[C] = world.stored[A]
    await die(world)
    async with world.service() as service:
        assert await started_within(service, LONG) == LONG


async def test_instance_that_an_earlier_process_has_begun_to_start_waits(world: Memory) -> None:
    """On which host is not known."""
    await die(world)
    await Marks(world).sealed(VM, Evacuated(A, BOOT, pending=True))
    async with world.service() as service:
        assert await started_within(service, LONG) == LONG


async def test_host_that_has_answered_for_a_while_is_waited_for_again(world: Memory) -> None:
    await die(world)
    async with world.service() as service:
        assert await started_within(service, 60) == 60
        world.host(C).connect()
        world.host(C).put(world.host(A).here[VM])  # its copy holds the instance back
        await asyncio.sleep(70)
        await started_within(service, 60)
        world.host(C).here.clear()
        world.host(C).disconnect("no route to host")
        took = await started_within(service, LONG)
    assert 100 < took < 150


async def test_target_that_was_tried_in_vain_and_answers_no_call_is_waited_for(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target may have started what it was given; the same process knows which host that was."""
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        monkeypatch.setattr(world.host(C), "boot", _breaks(world))
        await service.recovery.evacuate(server, C)
        assert (await ended(service, server)).status == "error"
        assert await started_within(service, LONG) == LONG


def _breaks(world: Memory) -> Callable[[str], Awaitable[None]]:
    async def boot(uuid: str) -> None:
        world.host(C).disconnect("no route to host")
        raise LibvirtError(f"{uuid}: the connection was lost")

    return boot


async def test_host_that_answers_every_other_call_delays_a_recovery_no_longer(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lose(A)
    captured, calls = world.host(C), 0
    listed = captured.domains

    async def every_other(*, jobs: bool = False) -> tuple[Domain, ...]:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            raise LibvirtError("the connection was lost")
        return await listed(jobs=jobs)

    monkeypatch.setattr(captured, "domains", every_other)
    async with world.service() as service:
        assert await started_within(service, LONG) < 150


async def test_instance_without_a_lock_is_waited_for(world: Memory) -> None:
    """Nothing else would stop a second copy of it."""
    there = world.host(A).here[VM]
    world.host(A).put(
        replace(there, devices=Devices((replace(there.devices.disks[0], readonly=True),)))
    )
    await die(world)
    async with world.service() as service:
        assert await started_within(service, LONG) == LONG
