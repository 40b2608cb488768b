"""What the compute service `direct` does with hosts; run on hosts in memory and on real ones."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import pytest
from tests.waiting import until

from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import Move, Server

A, B = "kvm-1", "kvm-2"
CAPTURED = "kvm-9"
Storage = Literal["shared", "local"]


class World(Protocol):
    """Two hosts, and what a contract does to them."""

    async def add(
        self, name: str, *, disk: Storage | None = None, runs: bool = True, slow: bool = False
    ) -> None:
        """Make a virtual machine on host A; a slow one takes many seconds to move."""
        ...

    async def copy_definition(self, name: str) -> None:
        """Define a machine of host A on host B as well."""
        ...

    async def set_autostart(self, name: str) -> None:
        """Have a machine of host A started with its host."""
        ...

    async def where(self) -> list[tuple[str, str, str]]:
        """Name, host and state (`running`, `shut off`) of every domain."""
        ...

    async def autostarts(self, host: str) -> list[str]:
        """Names of the machines that are started with the host."""
        ...

    async def local_files(self, name: str) -> list[str]:
        """Hosts that have the machine's local disk."""
        ...

    async def claim(self, host: str) -> None:
        """Have `CAPTURED` list the address and the UUID that are recorded as this host's."""
        ...

    async def lose(self, host: str) -> None:
        """Cut a host's power, after its agent has stored what is there, and prove it dead."""
        ...

    async def bring_back(self, host: str) -> None:
        """Boot a host that was lost; the other one's agent has stored what that has taken over."""
        ...

    def service(self) -> AbstractAsyncContextManager[DirectService]:
        """The service, as one process has it."""
        ...


async def named(service: DirectService, host: str, name: str) -> Server:
    """The server of this name on a host."""
    return next(one for one in await service.moves.servers(host) if one.name == name)


async def newest(service: DirectService, server: Server) -> Move:
    """The server's newest move away from its host."""
    return next(m for m in await service.moves.moves(server.host) if m.server == server.id)


async def ended(service: DirectService, server: Server) -> Move:
    """The same, once it has ended."""

    async def has_ended() -> bool:
        return (await newest(service, server)).ended

    await until(has_ended)
    return await newest(service, server)


async def _under_way(service: DirectService, server: Server) -> Move:
    async def flows() -> bool:
        move = await newest(service, server)
        return move.remaining > 0 or move.disk_remaining > 0

    await until(flows)
    return await newest(service, server)


# -- the contracts -----------------------------------------------------------------------------


async def a_running_vm_goes(world: World) -> None:
    await world.add("a")
    await _goes(world, files=[])


async def a_running_vm_goes_to_a_host_whose_address_another_claims(world: World) -> None:
    await world.claim(B)
    await a_running_vm_goes(world)
    async with world.service() as service:
        with pytest.raises(RefusedError, match=f"host {B} holds the address"):
            await service.hosts.get(CAPTURED)
        with pytest.raises(RefusedError, match=f"host {B} holds the address"):
            await service.moves.live_migrate(await named(service, B, "a"), CAPTURED)


async def a_running_vm_goes_to_its_shared_disk(world: World) -> None:
    await world.add("a", disk="shared")
    server = await _goes(world, files=[])
    assert not server.local_disk


async def a_running_vm_takes_its_local_disk_along(world: World) -> None:
    await world.add("a", disk="local")
    server = await _goes(world, files=[B])
    assert server.local_disk


async def _goes(world: World, files: list[str]) -> Server:
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
        there = await service.moves.server(server.id)
    assert (move.status, move.kind, move.target, move.message) == (
        "completed",
        "live-migration",
        B,
        "",
    )
    assert there is not None
    assert (there.host, there.running) == (B, True)
    assert await world.where() == [("a", B, "running")]
    assert await world.local_files("a") == files
    return server


async def a_stopped_vm_goes_by_its_definition(world: World) -> None:
    await world.add("a", disk="shared", runs=False)
    await world.set_autostart("a")
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        move = await ended(service, server)
    assert (move.status, move.message) == ("confirmed", "")
    assert await world.where() == [("a", B, "shut off")]
    assert await world.autostarts(B) == ["a"]


async def an_interrupted_transfer_is_finished(world: World) -> None:
    await world.add("a", disk="shared", runs=False)
    await world.copy_definition("a")
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        move = await ended(service, server)
    assert move.status == "confirmed"
    assert await world.where() == [("a", B, "shut off")]


async def a_stopped_vm_with_a_local_disk_is_refused_with_the_reason(world: World) -> None:
    await world.add("a", disk="local", runs=False)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert "off and has disks on the host itself" in server.hindrance
        with pytest.raises(RefusedError, match="vda"):
            await service.moves.cold_migrate(server, B)
    assert await world.where() == [("a", A, "shut off")]


async def a_move_that_is_requested_twice_is_one(world: World) -> None:
    await world.add("a", slow=True)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await service.moves.live_migrate(server, B)
        move = await _under_way(service, server)
        await service.moves.live_migrate(server, B)
        assert (await named(service, A, "a")).task_state == "migrating"
        assert len(await service.moves.moves(A)) == 1
        await service.moves.force_complete(move)
        assert (await ended(service, server)).status == "completed"
        with pytest.raises(ComputeConflictError):
            await service.moves.live_migrate(server, B)


async def an_aborted_move_leaves_nothing(world: World) -> None:
    await world.add("a", disk="local", slow=True)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await service.moves.abort(await _under_way(service, server))
        move = await ended(service, server)
        await service.moves.abort(move)
    assert move.status == "cancelled"
    assert await world.where() == [("a", A, "running")]
    assert await world.local_files("a") == [A]


async def another_process_finds_the_move_and_ends_it(world: World) -> None:
    await world.add("a", disk="local", slow=True)
    async with world.service() as first:
        server = await named(first, A, "a")
        await first.moves.live_migrate(server, B)
        await _under_way(first, server)
    async with world.service() as second:
        await second.moves.live_migrate(server, B)
        found = await _under_way(second, server)
        assert (found.target, found.status) == (B, "running")
        await second.moves.force_complete(found)
        move = await ended(second, server)
    assert (move.id, move.status) == (found.id, "completed")
    assert await world.where() == [("a", B, "running")]
    assert await world.local_files("a") == [B]


async def instances_of_a_dead_host_run_elsewhere_and_are_removed_there(world: World) -> None:
    await world.add("a", disk="shared")
    await world.add("b", disk="shared", runs=False)
    async with world.service() as service:
        await world.lose(A)
        for name in ("a", "b"):
            server = await named(service, A, name)
            await service.recovery.evacuate(server, B)
            move = await ended(service, server)
            assert (move.status, move.message) == ("done", "")
        assert await service.moves.servers(A) == ()
        there = {one.name: one.running for one in await service.moves.servers(B)}
        assert there == {"a": True, "b": False}
        await world.bring_back(A)
        host = await service.hosts.get(A)
        assert host is not None
        await service.hosts.enable(host)
    assert await world.where() == [("a", B, "running"), ("b", B, "shut off")]


async def a_vm_is_restarted_on_its_host(world: World) -> None:
    await world.add("a")
    await world.add("b", runs=False)
    async with world.service() as service:
        for name in ("a", "b"):
            await service.recovery.restart(await named(service, A, name))
    assert await world.where() == [("a", A, "running"), ("b", A, "running")]


CONTRACTS = (
    a_running_vm_goes,
    a_running_vm_goes_to_a_host_whose_address_another_claims,
    a_running_vm_goes_to_its_shared_disk,
    a_running_vm_takes_its_local_disk_along,
    a_stopped_vm_goes_by_its_definition,
    an_interrupted_transfer_is_finished,
    a_stopped_vm_with_a_local_disk_is_refused_with_the_reason,
    a_move_that_is_requested_twice_is_one,
    an_aborted_move_leaves_nothing,
    another_process_finds_the_move_and_ends_it,
    instances_of_a_dead_host_run_elsewhere_and_are_removed_there,
    a_vm_is_restarted_on_its_host,
)
