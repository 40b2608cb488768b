"""A host that answers as late as it may: a recovery of another host does not wait for it long.

The bound is what a host costs that does not answer at all: until it is fenced, others wait for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, named, newest
from tests.unit.compute.memory import C, Memory, identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.model import Devices, Disk
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Move, Size
from hypercobalt.operator.eviction.planning.targets import Reservations, choose

pytestmark = pytest.mark.looptime

UNTIL_FENCED: Final = 105.0
"""Seconds from the silence of a host to the end of its recovery, as measured with prompt hosts."""
LOOKS: Final[dict[str, float]] = {
    "capabilities": 9.5,
    "domains": 9.5,
    "document": 9.5,
    "has_file": 9.5,
}
CHANGES: Final[dict[str, float]] = {"define": 9.5, "undefine": 9.5, "mark": 9.5, "boot": 59.0}


async def dead_host(world: Memory, *names: str, directories: int = 1) -> None:
    """Have A die with some guests, and B have most room, and start nothing."""
    for name in names:
        await world.add(name, disk="shared")
        made = world.host(A).here[identity(name)]
        paths = [f"/shared/vms/{number}/{name}.img" for number in range(directories)]
        world.daemons.shared.update(f"/shared/vms/{number}" for number in range(directories))
        disks = tuple(Disk(f"vd{chr(97 + at)}", path=path) for at, path in enumerate(paths))
        world.host(A).put(replace(made, devices=Devices(disks)))
    world.places[B] = replace(world.places[B], capacity=Size(1000, 10**6))
    for host in (A, B, C):
        world.store(host)
    await world.lose(A)
    world.host(B).failures = {"boot": LibvirtRefusedError("there is no memory")}


async def recovered(service: DirectService, name: str) -> float:
    """Start a guest of A elsewhere as an Eviction does, and return the seconds that it takes."""
    loop, avoid = asyncio.get_running_loop(), list[str]()
    began = loop.time()
    while True:
        server = await named(service, A, name)
        found = await service.moves.candidates(server)
        target = choose(server, found, Reservations(), avoid=avoid) or ""
        await service.recovery.evacuate(server, target)

        async def ended() -> Move | None:
            move = await newest(service, server)  # noqa: B023 - called before the next server
            return move if move.ended else None

        await until(ended, seconds=600)
        if (await newest(service, server)).succeeded:
            return loop.time() - began
        avoid.append(target)


@pytest.mark.parametrize(
    ("delays", "directories"),
    [
        pytest.param(LOOKS | CHANGES, 1, id="all calls"),
        pytest.param(CHANGES, 1, id="changes alone"),
        pytest.param({"has_file": 9.5}, 12, id="many directories"),
    ],
)
async def test_late_host_delays_a_recovery_no_longer_than_a_silent_one(
    delays: dict[str, float], directories: int
) -> None:
    world = Memory()
    await dead_host(world, "a", directories=directories)
    world.host(B).delays = delays
    async with world.service() as service:
        assert await recovered(service, "a") < UNTIL_FENCED
    assert ("a", C, "running") in await world.where()


async def test_host_that_started_nothing_for_long_is_the_last_for_the_next_instance() -> None:
    world = Memory()
    await dead_host(world, "a", "b")
    world.host(B).delays = CHANGES
    async with world.service() as service:
        await recovered(service, "a")
        assert await recovered(service, "b") < 5
    assert world.host(B).calls["boot"] == 1


async def test_late_host_is_a_target_for_want_of_another() -> None:
    world = Memory()
    await dead_host(world, "a")
    world.host(B).delays, world.host(B).failures = LOOKS, {}
    world.places[C] = replace(world.places[C], closed="it is full")
    async with world.service() as service:
        await recovered(service, "a")
    assert ("a", B, "running") in await world.where()


async def test_host_that_was_late_is_a_target_like_others_after_a_while() -> None:
    world = Memory()
    await dead_host(world, "a")
    world.host(B).delays = LOOKS
    async with world.service() as service:
        server = await named(service, A, "a")
        late = {one.host: one.is_late for one in await service.moves.candidates(server)}
        world.host(B).delays = {}
        await asyncio.sleep(601)
        after = {one.host: one.is_late for one in await service.moves.candidates(server)}
    assert (late, after) == ({B: True, C: False}, {B: False, C: False})


async def test_target_that_answers_no_call_is_the_last_one_of_the_next_move() -> None:
    """The target reports its own free capacity: it would be chosen each time."""
    world = Memory()
    await dead_host(world, "a")
    world.host(B).disconnect("no route to host")
    async with world.service() as service:
        server = await named(service, A, "a")
        assert choose(server, await service.moves.candidates(server), Reservations()) == B
        with pytest.raises(UnreachableError):
            await service.recovery.evacuate(server, B)
        assert choose(server, await service.moves.candidates(server), Reservations()) == C
