"""What a captured host's libvirtd lists decides nothing about another host's instance."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.compute.crashing import Crashing, Fuse
from tests.unit.compute.memory import C, identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.model import (
    MIGRATION_IN,
    MIGRATION_OUT,
    Devices,
    Disk,
    Domain,
    DomainState,
    JobStats,
    JobType,
)
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.compute.direct.cold import moving_from
from hypercobalt.compute.errors import ComputeConflictError, MayRunElsewhereError

pytestmark = pytest.mark.looptime

UUID: Final = identity("victim")
PORT: Final = identity("port")
DISK: Final = "/shared/vms/victim.img"
ENDLESS: Final = 10**6


def victim(*, runs: bool = True) -> Domain:
    return Domain(
        uuid=UUID,
        name="victim",
        active=runs,
        state=DomainState.RUNNING if runs else DomainState.SHUTOFF,
        reason=0 if runs else ShutoffReason.SHUTDOWN,
        memory_bytes=1024**3,
        vcpus=1,
        devices=Devices((Disk("vda", path=DISK),), (PORT,)),
    )


@pytest.fixture
def world() -> Crashing:
    made = Crashing()
    made.daemons.shared_files.add(DISK)
    return made


def lists(world: Crashing, host: str, view: str) -> None:
    """Have a host's libvirtd list the victim as if it were on its way there, or from there."""
    paused = replace(victim(), state=DomainState.PAUSED, reason=PausedReason.MIGRATION)
    operation = {"arrives": MIGRATION_IN, "leaves": MIGRATION_OUT}[view]
    world.host(host).put(paused)
    world.host(host).jobs[UUID] = JobStats(JobType.UNBOUNDED, {"operation": operation})


def has(world: Crashing, host: str, domain: Domain) -> None:
    """Have a host have the victim, and no job of it."""
    world.host(host).jobs.pop(UUID, None)
    world.host(host).put(domain)


def lacks(world: Crashing, host: str) -> None:
    world.host(host).jobs.pop(UUID, None)
    world.host(host).here.pop(UUID, None)


def blind(world: Crashing, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a host deny that it sees any file."""

    async def sees_nothing(directory: str, name: str) -> bool:
        del directory, name
        return False

    monkeypatch.setattr(world.host(host), "has_file", sees_nothing)


# -- ports of moves that ended with their process --------------------------------------------------


@pytest.mark.parametrize("runs", [True, False], ids=["runs", "off"])
@pytest.mark.parametrize(("home", "captured"), [(A, B), (B, A)])
async def test_port_of_an_instance_is_settled_on_no_host_that_lists_a_copy(
    world: Crashing, home: str, captured: str, *, runs: bool
) -> None:
    world.ports.bound[PORT] = (A, B)
    has(world, home, victim())
    has(world, captured, victim(runs=runs))
    async with world.process(Fuse(ENDLESS)) as service:
        await service.moves.servers(C)
    assert world.ports.bound == {PORT: (A, B)}


async def test_port_is_settled_on_no_host_while_the_other_one_is_silent(world: Crashing) -> None:
    world.ports.bound[PORT] = (A, B)
    has(world, A, victim())
    has(world, B, victim())
    world.host(A).disconnect("no route to host")
    async with world.process(Fuse(ENDLESS)) as service:
        await service.moves.servers(C)
        assert world.ports.bound == {PORT: (A, B)}
        world.host(A).connect()
        lacks(world, B)

        async def is_settled() -> bool:
            await service.moves.servers(C)
            return world.ports.bound == {PORT: (A,)}

        await until(is_settled)


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(
            replace(victim(runs=False), reason=ShutoffReason.MIGRATED), id="left by a migration"
        ),
        pytest.param(replace(victim(runs=False), evacuated=moving_from(B)), id="moves there, off"),
        None,
    ],
)
async def test_port_is_settled_where_the_other_host_reports_that_the_instance_is(
    world: Crashing, there: Domain | None
) -> None:
    world.ports.bound[PORT] = (A, B)
    has(world, B, victim(runs=there is None or there.evacuated is None))
    if there is not None:
        has(world, A, there)
    async with world.process(Fuse(ENDLESS)) as service:
        await service.moves.servers(C)
    assert world.ports.bound == {PORT: (B,)}


# -- moves that another process has begun ----------------------------------------------------------


async def test_instance_has_not_moved_to_a_host_that_lists_it_before_its_target(
    world: Crashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest moves from A to C; B lists it as arriving, as running, and sees no file of it."""
    blind(world, B, monkeypatch)
    world.ports.bound[PORT] = (A, C)
    lists(world, A, "leaves")
    lists(world, B, "arrives")
    async with world.process(Fuse(ENDLESS)) as service:
        await service.moves.moves(A)
        lists(world, C, "arrives")
        await service.moves.moves(A)
        await asyncio.sleep(5)
        has(world, C, victim())
        has(world, B, victim())
        lacks(world, A)
        await asyncio.sleep(5)
        assert DISK in world.daemons.shared_files
        assert B not in world.ports.bound[PORT]
        assert not [move for move in await service.moves.moves(A) if move.succeeded]


async def test_port_of_a_move_that_a_third_host_claims_is_settled_between_its_two_hosts(
    world: Crashing,
) -> None:
    """Another process has begun the move from A to C; B lists the guest as running meanwhile."""
    world.ports.bound[PORT] = (A, C)
    lists(world, A, "leaves")
    lists(world, C, "arrives")
    async with world.process(Fuse(ENDLESS)) as service:
        (move,) = await service.moves.moves(A)
        assert move.target == C
        await service.moves.servers(A)
        has(world, B, victim())
        has(world, C, victim())
        lacks(world, A)
        await asyncio.sleep(5)
        (move,) = await service.moves.moves(A)
        assert (move.status, move.claimed_by) == ("error", B)
        await asyncio.sleep(60)
    assert world.ports.bound == {PORT: (C,)}
    assert DISK in world.daemons.shared_files


async def test_instance_of_a_host_that_dies_while_it_moves_is_listed_whoever_runs_it(
    world: Crashing,
) -> None:
    """The guest moves from A to C; B lists it as arriving there, and as running once A is dead."""
    lists(world, A, "leaves")
    lists(world, B, "arrives")
    async with world.process(Fuse(ENDLESS)) as service:
        await service.moves.moves(A)
        await asyncio.sleep(5)
        await world.lose(A)
        has(world, B, victim())
        await asyncio.sleep(5)
        assert [server.id for server in await service.moves.servers(A)] == [UUID]
    assert PORT not in world.ports.bound


async def test_host_that_lists_anothers_moving_instance_as_its_own_gets_no_port(
    world: Crashing,
) -> None:
    """The guest moves from C to B, and stays on C; A lists it as leaving, and as having stayed."""
    has(world, C, victim())
    world.ports.bound[PORT] = (C,)
    world.daemons.seconds[UUID] = 60
    async with world.process(Fuse(ENDLESS)) as service:
        server = await named(service, C, "victim")
        await service.moves.live_migrate(server, B)

        async def arrives() -> bool:
            return UUID in world.host(B).here

        await until(arrives)
        lists(world, A, "leaves")
        await service.moves.moves(A)
        await world.host(C).abort(UUID)
        await ended(service, server)
        has(world, A, victim())
        await asyncio.sleep(5)
    assert world.ports.bound == {PORT: (C,)}


def refused_by(world: Crashing, host: str) -> None:
    """Have A's migrations fail, and a host list the victim as arriving all the same."""
    lists(world, host, "arrives")
    world.host(A).failures["migrate"] = LibvirtRefusedError("the target refuses")


async def test_target_that_lists_a_move_for_ever_keeps_no_instance_from_its_next_one(
    world: Crashing,
) -> None:
    """B is sent an instance of A; it refuses that, and lists it as arriving from then on."""
    has(world, A, victim())
    async with world.process(Fuse(ENDLESS)) as service:
        refused_by(world, B)
        server = await named(service, A, "victim")
        await service.moves.live_migrate(server, B)
        first = await ended(service, server)
        assert (first.status, first.target) == ("error", B)
        del world.host(A).failures["migrate"]
        await service.moves.live_migrate(server, C)
        second = await ended(service, server)
        assert (second.status, second.target) == ("completed", C)


async def test_target_that_lists_a_dead_hosts_instance_as_arriving_is_named(
    world: Crashing,
) -> None:
    has(world, A, victim())
    async with world.process(Fuse(ENDLESS)) as service:
        refused_by(world, B)
        server = await named(service, A, "victim")
        await service.moves.live_migrate(server, B)
        await asyncio.sleep(5)
        await world.lose(A)
        (server,) = await service.moves.servers(A)
        await ended(service, server)
        await service.recovery.evacuate(server, C)
        found = await ended(service, server)
        assert (found.target, found.status, found.claimed_by) == (C, "error", B)


async def test_failed_move_deletes_no_file_that_another_instance_has_got_meanwhile(
    world: Crashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A's instance is to get a disk on B where the victim gets its own before A's move fails."""
    path = "/local/vms/victim.img"
    blind(world, A, monkeypatch)
    await world.add("a", disk="local", slow=True)
    own = world.host(A).here[identity("a")]
    world.host(A).put(replace(own, devices=Devices((Disk("vda", path=path),))))
    async with world.process(Fuse(ENDLESS)) as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)

        async def arrives() -> bool:
            return identity("a") in world.host(B).here

        await until(arrives)
        has(world, B, replace(victim(), devices=Devices((Disk("vda", path=path),))))
        await world.host(A).abort(identity("a"))
        assert (await ended(service, server)).status == "cancelled"
    assert path in world.host(B).files


async def test_host_that_sees_no_file_keeps_no_instance_that_is_off_on_its_own(
    world: Crashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B, which is asked first, denies that it sees the shared directory."""
    blind(world, B, monkeypatch)
    has(world, A, victim(runs=False))
    async with world.process(Fuse(ENDLESS)) as service:
        server = await named(service, A, "victim")
        await service.moves.cold_migrate(server, C)
        assert (await ended(service, server)).status == "confirmed"
    assert await world.where() == [("victim", C, "shut off")]


# -- hosts that do not answer ----------------------------------------------------------------------


async def test_restart_takes_no_port_of_an_instance_on_a_silent_host(world: Crashing) -> None:
    has(world, C, victim())
    world.store(C)
    world.host(C).disconnect("no route to host")
    world.ports.bound[PORT] = (C,)
    own = replace(victim(), uuid=identity("a"), name="a")
    world.host(A).put(replace(own, devices=Devices(ports=(PORT,))))
    async with world.process(Fuse(ENDLESS)) as service:
        with pytest.raises(ComputeConflictError, match="is that of victim on kvm-3"):
            await service.recovery.restart(await named(service, A, "a"))
    assert world.ports.bound == {PORT: (C,)}


async def test_restart_takes_no_port_of_the_same_instance_on_a_silent_host(
    world: Crashing,
) -> None:
    has(world, C, victim())
    world.store(C)
    world.host(C).disconnect("no route to host")
    world.ports.bound[PORT] = (C,)
    has(world, A, replace(victim(runs=False), reason=ShutoffReason.CRASHED))
    async with world.process(Fuse(ENDLESS)) as service:
        with pytest.raises(MayRunElsewhereError, match=f"{C} does not answer"):
            await service.recovery.restart(await named(service, A, "victim"))
    assert world.ports.bound == {PORT: (C,)}


async def test_live_move_takes_no_port_of_an_instance_on_a_silent_host(world: Crashing) -> None:
    has(world, C, victim())
    world.store(C)
    world.host(C).disconnect("no route to host")
    world.ports.bound[PORT] = (C,)
    own = replace(victim(), uuid=identity("a"), name="a")
    world.host(A).put(replace(own, devices=Devices(ports=(PORT,))))
    async with world.process(Fuse(ENDLESS)) as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        found = await ended(service, server)
    assert (found.status, found.claimed_by) == ("error", C)
    assert world.ports.bound == {PORT: (C,)}
