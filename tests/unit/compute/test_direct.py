"""The compute service `direct` on hosts in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.contracts.compute import (
    HOSTS,
    MOVES,
    RECOVERY,
    Site,
    servers_of_a_dead_host_are_evacuated_as_they_were,
)
from tests.contracts.direct import CONTRACTS, A, B, Storage, World, ended, named
from tests.unit.compute.memory import ALLOWED, C, Fixed, Memory, identity, place
from tests.waiting import until

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Devices, Disk, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason, Suspended
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.ports import NoPorts
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Size
from hypercobalt.compute.port import ComputeService
from hypercobalt.runtime import FakeClock

pytestmark = pytest.mark.looptime

NO_QEMU_CERTIFICATE = (
    "internal error: unable to execute QEMU command 'object-add': "
    "Unable to access credentials /etc/pki/qemu/ca-cert.pem: No such file or directory"
)
Contract = Callable[[World], Awaitable[None]]


def give_uuid(daemon: FakeLibvirt, uuid: str) -> None:
    daemon.host = replace(daemon.host, uuid=uuid)


@pytest.fixture
def world() -> Memory:
    return Memory()


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_direct_service_keeps_the_contract(world: Memory, contract: Contract) -> None:
    await contract(world)


class PortSite:
    """Hosts in memory, as the contracts of the port see them."""

    zone = ""

    def __init__(self, world: Memory, service: ComputeService) -> None:
        self._world, self.service = world, service
        self.hosts = (A, B)

    async def boot(self, host: str) -> str:
        return await self._boot(host, runs=True)

    async def boot_stopped(self, host: str) -> str:
        return await self._boot(host, runs=False)

    async def _boot(self, host: str, *, runs: bool) -> str:
        name = f"vm-{len(await self._world.where())}"
        await self._world.add(name, disk="shared", runs=runs)
        made = self._world.host(A).here.pop(identity(name))
        self._world.host(host).put(made)
        return made.uuid

    async def crash(self, host: str) -> None:
        self._world.host(host).disconnect()

    async def restore(self, host: str) -> None:
        self._world.host(host).connect()

    async def aggregate(self, name: str, zone: str = "") -> None:
        raise AssertionError(f"there is no aggregate {name}")


class Counting:
    """A directory whose agents count at once what is on their hosts."""

    def __init__(self, world: Memory) -> None:
        self._world = world

    def places(self) -> tuple[Place, ...]:
        return tuple(self._counted(place) for place in self._world.places.values())

    def _counted(self, place: Place) -> Place:
        here = self._world.host(place.name).here
        used = Size(len(here), len(here) * 1024)
        return replace(place, used=used, domains=frozenset(here))


PORT = [*HOSTS, *MOVES, *RECOVERY]
# A host is forced down by the proof in its Hypervisor's status: test_direct_evacuation.py.
PORT.remove(servers_of_a_dead_host_are_evacuated_as_they_were)


@pytest.mark.parametrize("contract", PORT, ids=lambda contract: contract.__name__)
async def test_direct_service_keeps_the_contract_of_ports(
    world: Memory, contract: Callable[[Site], Awaitable[None]]
) -> None:
    service = DirectService(Counting(world), world.daemons, NoPorts(), allowed=ALLOWED)
    try:
        await contract(PortSite(world, service))
    finally:
        await service.close()


async def test_a_service_without_owners_locks_nothing_and_leaves_no_providers(
    world: Memory,
) -> None:
    async with world.service() as service:
        assert service.owners is None
        assert service.providers is None


# -- candidates ----------------------------------------------------------------------------------


async def test_capacities_are_of_open_hosts_with_enough_left(world: Memory) -> None:
    await world.add("a")
    full, shut = Size(8, 100), "it is in maintenance"
    world.places[B] = replace(world.places[B], used=full)
    world.places["kvm-4"] = replace(place("kvm-4"), closed=shut)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert [room.host for room in await service.moves.candidates(server)] == [C]
        host = await service.hosts.get(C)
        assert host is not None
        await service.hosts.disable(host, "for a test")
        assert await service.moves.candidates(server) == ()


async def test_arriving_instance_takes_capacity_until_the_agent_counts_it(world: Memory) -> None:
    await world.add("a", slow=True)
    await world.add("b")
    async with world.service() as service:
        await service.moves.live_migrate(await named(service, A, "a"), B)
        rooms = {
            room.host: room.used
            for room in await service.moves.candidates(await named(service, A, "b"))
        }
        assert rooms == {B: Size(1, 1024), C: Size(0, 0)}

    counted = frozenset({identity("a")})
    world.places[B] = replace(world.places[B], used=Size(1, 1024), domains=counted)
    async with world.service() as service:
        rooms = {
            room.host: room.used
            for room in await service.moves.candidates(await named(service, A, "b"))
        }
        assert rooms == {B: Size(1, 1024), C: Size(0, 0)}


async def test_two_moves_at_once_do_not_both_get_the_last_capacity(world: Memory) -> None:
    for name in ("a", "b"):
        await world.add(name, slow=True)
    world.places[B] = replace(world.places[B], capacity=Size(8, 1024))
    async with world.service() as service:
        servers = [await named(service, A, name) for name in ("a", "b")]
        calls = (service.moves.live_migrate(server, B) for server in servers)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        moves = await service.moves.moves(A)
    (refused,) = (outcome for outcome in outcomes if outcome is not None)
    assert isinstance(refused, ComputeConflictError)
    assert "kvm-2 no longer has the capacity" in str(refused)
    assert len(moves) == 1


# -- moves that go wrong -------------------------------------------------------------------------


async def test_without_a_target_nothing_is_moved(world: Memory) -> None:
    await world.add("a")
    async with world.service() as service:
        assert not service.moves.chooses_target
        with pytest.raises(RefusedError, match="name a target host"):
            await service.moves.live_migrate(await named(service, A, "a"))


async def test_a_target_that_dies_leaves_the_vm_on_its_source(world: Memory) -> None:
    await world.add("a", disk="shared", slow=True)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await service.moves.moves(A)
        world.host(B).disconnect()
        move = await ended(service, server)
    assert move.status == "error"
    assert move.message.startswith("it has stayed on kvm-1: ")
    assert [one for one in await world.where() if one[1] != B] == [("a", A, "running")]


async def test_memory_and_disks_are_encrypted_unless_the_setting_is_off(
    world: Memory,
) -> None:
    directory = Fixed(*world.places.values())
    usual = DirectService(directory, world.daemons, NoPorts(), allowed=ALLOWED)
    clear = DirectService(directory, world.daemons, NoPorts(), tls=False, allowed=ALLOWED)
    for service, name in ((usual, "a"), (clear, "b")):
        await world.add(name)
        server = await named(service, A, name)
        await service.moves.live_migrate(server, B)
        await ended(service, server)
        await service.close()
    assert [options.tls for options in world.host(A).migrations] == [True, False]


async def test_migration_that_fails_for_tls_names_the_remedy(world: Memory) -> None:
    await world.add("a")
    world.host(A).failures["migrate"] = LibvirtRefusedError(NO_QEMU_CERTIFICATE)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
    assert "Unable to access credentials /etc/pki/qemu/ca-cert.pem" in move.message
    assert "--no-direct-tls" in move.message


async def test_error_of_a_host_without_tls_names_the_remedy(world: Memory) -> None:
    await world.add("a")
    refused = "unable to connect to server at '10.0.0.2:16514': Connection refused"
    world.host(B).failures["capabilities"] = LibvirtError(refused)
    async with world.service() as service:
        with pytest.raises(UnreachableError, match=r"host kvm-2: .*libvirtd-tls\.socket"):
            await service.moves.live_migrate(await named(service, A, "a"), B)


async def test_a_source_that_does_not_answer_is_waited_for(world: Memory) -> None:
    await world.add("a", disk="shared", slow=True)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await service.moves.moves(A)
        world.host(A).disconnect()
        with pytest.raises(UnreachableError):
            await service.moves.moves(A)
        looks = world.host(A).calls["domains"]

        async def is_followed() -> bool:
            return world.host(A).calls["domains"] > looks + 1

        await until(is_followed)
        world.host(A).connect()
        assert (await ended(service, server)).status == "error"


@pytest.mark.parametrize("host", [A, B], ids=["source", "target"])
async def test_move_whose_host_restarts_meanwhile_has_not_arrived(world: Memory, host: str) -> None:
    await world.add("a", disk="shared", slow=True)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)

        async def arrives() -> bool:
            return identity("a") in world.host(B).jobs

        await until(arrives)
        world.host(host).stop(identity("a"))
        assert (await ended(service, server)).status == "error"
    left = "running" if host == B else "shut off"
    assert await world.where() == [("a", A, left)]


async def test_move_that_fails_by_a_fault_of_the_operator_ends(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the instance is under way for ever, and its host is never empty."""
    await world.add("a")

    async def broken(*about: object) -> None:
        raise KeyError(about)

    monkeypatch.setattr(world.host(A), "migrate", broken)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
    assert (move.status, move.message) == ("error", "fault of the operator (KeyError); see its log")


async def test_vm_that_a_migration_left_paused_is_resumed(world: Memory) -> None:
    await world.add("a")
    host = world.host(A)
    host.failures["migrate"] = LibvirtError("End of file while reading data")
    host.delays["migrate"] = 0.05
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        host.suspend(server.id, Suspended.MIGRATED)
        await ended(service, server)
    assert host.calls["resume"] == 1


NO_WRITES = LibvirtRefusedError("cannot create path '/shared/vms/mark': Input/output error")


async def test_shared_disk_is_not_copied_when_its_host_cannot_write_there(world: Memory) -> None:
    """The mark of its agent is from before: a copy would overwrite its own source."""
    await world.add("a", disk="shared")
    world.store(A)
    world.host(A).failures["mark"] = NO_WRITES
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        await ended(service, server)
    (options,) = world.host(A).migrations
    assert options.copies == ()


@pytest.mark.parametrize("disk", ["shared", "local"])
async def test_disk_that_may_be_shared_is_not_copied(world: Memory, disk: Storage) -> None:
    await world.add("a", disk=disk)
    world.host(A).failures["mark"] = NO_WRITES
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
    assert world.host(A).migrations == []
    assert "Input/output error" in move.message


async def test_a_disk_of_another_vm_is_not_written_over(world: Memory) -> None:
    await world.add("a", disk="local")
    other = replace(world.host(A).here[identity("a")], uuid=identity("other"), name="other")
    world.host(B).put(other)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
    assert "/local/vms/a.img is that of other on kvm-2" in move.message
    assert await world.local_files("a") == [A, B]


@pytest.mark.parametrize(
    "uses",
    [
        Devices((Disk("vda", path="/local/vms/b.img", backing=("/local/vms/a.img",)),)),
        Devices((Disk("vda", path="/local//vms/x/../a.img"),)),
        Devices(nvram="/local/vms/a.img"),
        Devices(logs=("/local/vms/a.img",)),
        Devices(kernels=("/local/vms/a.img",)),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
async def test_no_file_of_another_vm_is_written_over(
    world: Memory, uses: Devices, exists: bool
) -> None:
    await world.add("a", disk="local")
    other = replace(world.host(A).here[identity("a")], uuid=identity("other"), name="other")
    world.host(B).put(replace(other, devices=uses, active=False, state=DomainState.SHUTOFF))
    if exists:
        world.host(B).files.add("/local/vms/a.img")
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        move = await ended(service, server)
    assert "/local/vms/a.img" in move.message
    assert (move.status, move.claimed_by) == ("error", ""), "another target may do"
    assert world.host(A).migrations == []


async def test_a_definition_that_stayed_behind_is_removed_not_moved(world: Memory) -> None:
    await world.add("a", disk="shared")
    running = world.host(A).here[identity("a")]
    world.host(C).put(running)
    left = replace(running, active=False, state=DomainState.SHUTOFF, reason=ShutoffReason.MIGRATED)
    world.host(A).put(left)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        move = await ended(service, server)
    assert (move.status, move.target) == ("confirmed", C)
    assert await world.where() == [("a", C, "running")]


async def test_definition_that_the_agent_of_its_target_does_not_store_stays_where_it_is(
    world: Memory,
) -> None:
    await world.add("a", disk="shared", runs=False)
    world.store(A)
    world.store(B)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        move = await ended(service, server)
    assert move.status == "error"
    assert f"the agent of {B} has not stored the definition of a within 60 s" in move.message
    assert await world.where() == [("a", A, "shut off")]


async def test_a_transfer_that_went_elsewhere_before_is_taken_back(world: Memory) -> None:
    await world.add("a", disk="shared", runs=False)
    await world.copy_definition("a")
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, C)
        await ended(service, server)
    assert await world.where() == [("a", C, "shut off")]


# -- hosts ---------------------------------------------------------------------------------------


async def test_a_host_is_found_by_its_whole_name_or_first_label(world: Memory) -> None:
    async with world.service() as service:
        for name in (A, f"{A}.example.com"):
            host = await service.hosts.get(name)
            assert host is not None
            assert (host.name, host.hypervisor_id, host.enabled) == (A, f"id-{A}", True)
        assert await service.hosts.get("kvm-10") is None
        assert await service.hosts.get("kvm") is None


async def test_a_host_without_an_address_is_not_taken_for_an_empty_one(world: Memory) -> None:
    await world.add("a")
    del world.places[A]
    async with world.service() as service:
        for read in (service.moves.servers, service.moves.moves):
            with pytest.raises(UnreachableError, match=f"host {A}: no Hypervisor"):
                await read(A)


async def test_servers_of_a_host_are_read_from_its_libvirtd(world: Memory) -> None:
    await world.add("a")
    world.places[A] = replace(world.places[A], domains=frozenset({"moved-a-moment-ago"}))
    async with world.service() as service:
        host = await service.hosts.get(A, fresh=True)
        assert host is not None
        assert host.servers == (identity("a"),)
        world.host(A).disconnect()
        with pytest.raises(UnreachableError):
            await service.hosts.get(A, fresh=True)


async def test_a_host_with_vms_is_not_forgotten(world: Memory) -> None:
    await world.add("a")
    async with world.service() as service:
        host = await service.hosts.get(A)
        assert host is not None
        with pytest.raises(RefusedError, match="1 virtual machines: a"):
            await service.hosts.remove(host)
        world.host(A).here.clear()
        await service.hosts.remove(host)


# -- which daemon it is --------------------------------------------------------------------------


async def test_server_does_not_move_to_a_daemon_of_another_host(world: Memory) -> None:
    await world.add("a")
    give_uuid(world.host(B), world.host(C).host.uuid)
    async with world.service() as service:
        server = await named(service, A, "a")
        with pytest.raises(RefusedError, match=f"{B}.*{world.host(C).host.uuid}"):
            await service.moves.live_migrate(server, B)
        rooms = await service.moves.candidates(server)

    assert await world.where() == [("a", A, "running")]
    assert [room.host for room in rooms] == [C]


async def test_server_does_not_move_from_a_daemon_of_another_host(world: Memory) -> None:
    await world.add("a")
    give_uuid(world.host(A), world.host(C).host.uuid)
    async with world.service() as service:
        server = await named(service, A, "a")
        with pytest.raises(RefusedError, match=A):
            await service.moves.live_migrate(server, B)

    assert await world.where() == [("a", A, "running")]


async def test_daemon_that_was_mended_is_a_target_again(world: Memory) -> None:
    await world.add("a")
    right = world.host(B).host.uuid
    give_uuid(world.host(B), world.host(C).host.uuid)
    clock = FakeClock()
    service = DirectService(
        Fixed(*world.places.values()), world.daemons, NoPorts(), clock=clock, allowed=ALLOWED
    )
    try:
        server = await named(service, A, "a")
        with pytest.raises(RefusedError):
            await service.moves.live_migrate(server, B)
        give_uuid(world.host(B), right)
        clock.advance(timedelta(minutes=1))

        assert {room.host for room in await service.moves.candidates(server)} == {B, C}
        await service.moves.live_migrate(server, B)
        assert (await ended(service, server)).status == "completed"
    finally:
        await service.close()


async def test_refused_host_is_never_connected_to(world: Memory) -> None:
    await world.add("a")
    why = f"{C} has the same address"
    world.places[B] = replace(world.places[B], control="", refused=why, closed=why)
    async with world.service() as service:
        server = await named(service, A, "a")
        with pytest.raises(RefusedError, match=why):
            await service.moves.live_migrate(server, B)
        with pytest.raises(UnreachableError, match=why):
            await service.moves.servers(B)
        with pytest.raises(RefusedError, match=why):
            await service.hosts.get(B)

    assert not world.daemons.at("").calls


@pytest.mark.parametrize("answers", [True, False])
async def test_server_that_no_agent_lists_is_looked_for_on_every_host(
    world: Memory, *, answers: bool
) -> None:
    """An agent's list is cut at 1,024: what it lacks may be there all the same."""
    await world.add("a")
    world.places[A] = replace(world.places[A], domains=frozenset({identity("another")}))
    if not answers:
        world.host(A).disconnect()
    async with world.service() as service:
        if answers:
            found = await service.moves.server(identity("a"))
            assert found is not None
            assert found.host == A
        else:
            with pytest.raises(UnreachableError, match=f"silent hosts: {A}"):
                await service.moves.server(identity("a"))
