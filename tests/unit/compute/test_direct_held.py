"""A live move to a host that dies before its agent has stored what came there."""

from __future__ import annotations

import asyncio

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.compute.memory import BOOT, C, Memory, identity

from hypercobalt.adapters.libvirt.model import MigrationOptions
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.compute.direct.held import MarkedDirectories
from hypercobalt.compute.direct.service import DirectService

pytestmark = pytest.mark.looptime

_LOOKED: float = 11  # seconds; by then the operator has looked at what B's agent has stored


async def _world() -> Memory:
    world = Memory()
    await world.add("a", disk="shared")
    for host in (A, B, C):
        world.store(host)
    return world


async def _move(world: Memory, service: DirectService) -> None:
    server = await named(service, A, "a")
    await service.moves.live_migrate(server, B)
    assert (await ended(service, server)).status == "completed"
    world.store(A)  # its agent takes out what has left


async def _left_on_b(world: Memory, service: DirectService) -> list[str]:
    world.cut(B)
    world.fence(B)
    return [server.name for server in await service.moves.servers(B)]


async def test_it_is_started_elsewhere_though_its_new_host_has_never_stored_it() -> None:
    world = await _world()
    async with world.service() as service:
        await _move(world, service)
        assert await _left_on_b(world, service) == ["a"]
        server = await named(service, B, "a")
        assert server.waits_for_host == ""
        await service.recovery.evacuate(server, C)
        assert (await ended(service, server)).status == "done"
    assert ("a", C, "running") in await world.where()


async def test_move_that_another_process_has_begun_is_held_as_well() -> None:
    world = await _world()
    world.daemons.seconds[identity("a")] = 10
    async with world.service() as first:
        await first.moves.live_migrate(await named(first, A, "a"), B)
        await asyncio.sleep(2)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.moves(A)
        assert (await ended(service, server)).status == "completed"
        world.store(A)
        assert await _left_on_b(world, service) == ["a"]


async def test_host_that_dies_before_the_operator_has_seen_the_arrival_has_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await _world()
    migrate = world.host(A).migrate

    async def migrated(uuid: str, options: MigrationOptions) -> None:
        await migrate(uuid, options)
        world.cut(B)

    monkeypatch.setattr(world.host(A), "migrate", migrated)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await asyncio.sleep(5)
        world.store(A)
        assert await _left_on_b(world, service) == ["a"]


async def test_definition_for_which_its_new_host_has_no_room_stays_held() -> None:
    world = await _world()
    async with world.service() as service:
        await _move(world, service)
        world.stored[B] = HostDefinitions(BOOT, left_out={identity("a"): "a"})
        await asyncio.sleep(_LOOKED)
        assert await _left_on_b(world, service) == ["a"]
        server = await named(service, B, "a")
        assert server.waits_for_host == ""


async def test_what_its_owner_has_removed_is_not_held() -> None:
    world = await _world()
    async with world.service() as service:
        await _move(world, service)
        del world.host(B).here[identity("a")]
        await asyncio.sleep(_LOOKED)
        assert await _left_on_b(world, service) == []


async def test_what_is_stored_and_removed_later_is_not_held() -> None:
    world = await _world()
    async with world.service() as service:
        await _move(world, service)
        world.store(B)
        await asyncio.sleep(_LOOKED)
        del world.host(B).here[identity("a")]
        world.store(B)
        assert await _left_on_b(world, service) == []


async def test_what_has_stayed_on_its_first_host_is_held_for_no_other() -> None:
    world = await _world()
    world.daemons.seconds[identity("a")] = 60
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await asyncio.sleep(5)
        assert await _left_on_b(world, service) == []


def test_as_many_directories_as_a_captured_host_names_take_bounded_memory() -> None:
    marked = MarkedDirectories()
    names = [f"/shared/vms/{number}" for number in range(1001)]
    for name in names:
        marked.add(".hypercobalt-b", name)
    assert [name for name in names if not marked.has(".hypercobalt-b", name)] == names[:1]
