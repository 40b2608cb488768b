"""The operator ends at any call in the middle of a move: the next one finishes it, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.contracts.direct import A, B, named
from tests.unit.compute.crashing import Crashing, Fuse
from tests.unit.compute.memory import identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.model import (
    Devices,
    Disk,
)
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.model import Server

pytestmark = pytest.mark.looptime

_MORE_THAN_ANY = 60  # calls of one move


async def _request_move(service: DirectService, server: Server) -> None:
    if server.running:
        await service.moves.live_migrate(server, B)
    else:
        await service.moves.cold_migrate(server, B)


async def _empty(service: DirectService) -> None:
    """Move the servers of a host until none is left, as an operator does."""

    async def is_empty() -> bool:
        servers = await service.moves.servers(A)
        await service.moves.moves(A)
        for server in servers:
            if not server.task_state:
                await _request_move(service, server)
        return not servers

    await until(is_empty)

    async def all_ended() -> bool:
        return all(move.ended for move in await service.moves.moves(A))

    await until(all_ended)


@pytest.mark.parametrize(
    ("runs", "disk"),
    [(True, "/local/vms/a.img"), (True, "/shared/vms/a.img"), (False, "/shared/vms/a.img")],
)
async def test_a_crash_at_any_call_loses_and_doubles_nothing(runs: bool, disk: str) -> None:
    for number in range(_MORE_THAN_ANY):
        world, fuse = Crashing(), Fuse(number)
        await world.add("a", runs=runs)
        made = world.host(A).here[identity("a")]
        devices = Devices((Disk("vda", path=disk),), (identity("port-a"),))
        world.host(A).put(replace(made, devices=devices))
        world.ports.bound[identity("port-a")] = (A,)

        async with world.process(fuse) as first:
            emptying = asyncio.create_task(_empty(first))
            blown = asyncio.create_task(fuse.blown.wait())
            await asyncio.wait({emptying, blown}, return_when=asyncio.FIRST_COMPLETED)
            emptying.cancel()
            blown.cancel()
            await asyncio.gather(emptying, blown, return_exceptions=True)
        async with world.process(Fuse(10**6)) as second:
            await _empty(second)

        state = "running" if runs else "shut off"
        assert await world.where() == [("a", B, state)], number
        assert world.ports.bound == {identity("port-a"): (B,)}, number
        assert disk in world.host(B).files | world.daemons.shared_files, number
        if not fuse.blown.is_set():
            return
    pytest.fail(f"a move has more than {_MORE_THAN_ANY} calls")


async def test_the_move_succeeds_without_a_crash() -> None:
    world = Crashing()
    await world.add("a")
    async with world.process(Fuse(10**6)) as service:
        server = await named(service, A, "a")
        await _empty(service)
        assert [move.server for move in await service.moves.moves(A)] == [server.id]
