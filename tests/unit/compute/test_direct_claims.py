"""Without OpenStack: a captured host defines what it likes, and takes nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.compute.memory import ALLOWED, BOOT, MARK, C, Memory, Present, identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.fake_domains import domain_of
from hypercobalt.adapters.libvirt.model import (
    MIGRATION_IN,
    MIGRATION_OUT,
    Devices,
    Disk,
    Domain,
    DomainState,
    Evacuated,
    JobStats,
    JobType,
)
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.claims import files_taken, ports_taken
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.direct.shared_disks import Sharing
from hypercobalt.compute.errors import ComputeConflictError
from hypercobalt.compute.model import Move
from hypercobalt.errors import TransientError

pytestmark = pytest.mark.looptime

OWN: Final = Disk("vda", path="/shared/vms/mine.img")
THEIRS: Final = Disk("vda", path="/shared/vms/theirs.img")
PORT: Final = identity("port")
VOLUME: Final = Disk("vda", volume="rbd:volumes/theirs")


def guest(name: str, *disks: Disk, runs: bool = True, ports: tuple[str, ...] = ()) -> Domain:
    return Domain(
        uuid=identity(name),
        name=name,
        active=runs,
        state=DomainState.RUNNING if runs else DomainState.SHUTOFF,
        reason=0 if runs else ShutoffReason.SHUTDOWN,
        memory_bytes=1024**3,
        vcpus=1,
        devices=Devices(disks, ports),
    )


class Network:
    """Ports, and the hosts that may have them."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[str, ...]] = {}
        self.between: dict[str, tuple[str, ...]] = {}

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        self.bound |= dict.fromkeys(ports, hosts)

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return self.between

    async def close(self) -> None:
        pass


@pytest.fixture
def world() -> Memory:
    made = Memory()
    for name in (A, B, C):
        made.host(name).files |= {"/local/x"}
    made.daemons.shared_files |= {OWN.path, THEIRS.path}
    return made


def service(world: Memory, network: Network | None = None) -> DirectService:
    return DirectService(
        Present(world.places), world.daemons, network or Network(), stored=world, allowed=ALLOWED
    )


async def evacuated(made: DirectService, name: str) -> Move:
    server = await named(made, A, name)
    await made.recovery.evacuate(server, B)
    return await ended(made, server)


async def evacuation(world: Memory, name: str, network: Network | None = None) -> Move:
    """Evacuate a guest of A to B, by an operator that ends with that."""
    made = service(world, network)
    move = await evacuated(made, name)
    await made.close()
    return move


async def migration(world: Memory, name: str, network: Network | None = None) -> Move:
    """Move a guest of A to B, live if it runs, by an operator that ends with that."""
    made = service(world, network)
    server = await named(made, A, name)
    await (made.moves.live_migrate if server.running else made.moves.cold_migrate)(server, B)
    move = await ended(made, server)
    await made.close()
    return move


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    "disk",
    [
        pytest.param(THEIRS, id="the same path"),
        pytest.param(replace(THEIRS, readonly=True), id="to read it"),
        pytest.param(replace(THEIRS, device="cdrom"), id="as a medium"),
    ],
)
async def test_disk_of_another_hosts_guest_is_attached_to_nothing_of_a_dead_host(
    world: Memory, disk: Disk, *, runs: bool
) -> None:
    world.host(C).put(guest("victim", THEIRS, runs=runs))
    world.host(A).put(guest("attacker", disk))
    await world.lose(A)
    move = await evacuation(world, "attacker")
    assert move.status == "error"
    assert identity("attacker") not in world.host(B).here
    assert f"victim on {C}" in move.message
    assert move.claimed_by == C


async def test_disk_of_a_guest_whose_host_is_dead_as_well_is_its_own(world: Memory) -> None:
    world.host(C).put(guest("victim", THEIRS))
    world.host(A).put(guest("attacker", THEIRS))
    await world.lose(C)
    await world.lose(A)
    move = await evacuation(world, "attacker")
    assert (move.status, identity("attacker") in world.host(B).here) == ("error", False)


@pytest.mark.parametrize("runs", [True, False])
async def test_dead_host_with_unreadable_definitions_keeps_no_guest_of_another_down(
    world: Memory, *, runs: bool
) -> None:
    world.host(A).put(guest("victim", OWN, runs=runs, ports=(PORT,)))
    for host in (C, A):
        await world.lose(host)
    del world.stored[C]
    made = service(world)
    move = await evacuated(made, "victim")
    there = await made.moves.server(identity("victim"))
    await made.close()
    assert (move.status, there and there.host) == ("done", B), move.message


async def test_port_of_a_dead_hosts_guest_is_claimed_by_name(world: Memory) -> None:
    world.host(A).put(guest("victim", OWN, ports=(PORT,)))
    world.host(C).put(guest("attacker", ports=(PORT,)))
    await world.lose(A)
    move = await evacuation(world, "victim")
    assert (move.status, move.claimed_by) == ("error", C)


@pytest.mark.parametrize("reason", [0, ShutoffReason.SHUTDOWN])
@pytest.mark.parametrize(
    "mark", [None, Evacuated("kvm-9", "boot-1"), Evacuated(A, "an earlier boot")]
)
async def test_guest_that_is_off_on_another_host_is_not_started_by_a_dead_hosts_claim(
    world: Memory, reason: int, mark: Evacuated | None
) -> None:
    victim = replace(guest("victim", THEIRS, runs=False), reason=reason, evacuated=mark)
    world.host(C).put(victim)
    world.host(A).put(guest("victim", OWN))
    world.store(A)
    world.cut(A)
    world.fence(A)
    made = service(world)
    for one in await made.moves.servers(A):
        with_host = replace(one, host=A, waits_for_host="")
        await made.recovery.evacuate(with_host, B)
        move = await ended(made, with_host)
        assert (move.status, move.claimed_by) == ("error", C)
    await made.close()
    assert identity("victim") not in world.host(B).here
    assert world.host(C).here[identity("victim")] == victim


@pytest.mark.parametrize("there", [B, C], ids=["the target", "a third host"])
async def test_cold_move_touches_no_definition_that_no_move_has_made(
    world: Memory, there: str
) -> None:
    victim = guest("victim", THEIRS, runs=False)
    world.host(there).put(victim)
    world.host(A).put(guest("victim", OWN, runs=False))
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", there)
    assert f"is defined on {there} as well" in move.message
    assert world.host(there).here[identity("victim")] == victim
    assert world.host(A).here


@pytest.mark.parametrize("there", [B, C], ids=["the target", "a third host"])
async def test_cold_move_believes_no_host_that_runs_a_guest_of_its_uuid(
    world: Memory, there: str
) -> None:
    """A captured host runs what it likes: the guest has left only if its own host has seen that."""
    world.host(there).put(guest("victim", THEIRS))
    world.host(A).put(guest("victim", OWN, runs=False))
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", there)
    assert identity("victim") in world.host(A).here


@pytest.mark.parametrize("there", [B, C], ids=["the target", "a third host"])
async def test_live_move_goes_to_no_host_that_has_a_guest_of_its_uuid(
    world: Memory, there: str
) -> None:
    victim = guest("victim", THEIRS, runs=False)
    world.host(there).put(victim)
    world.host(A).put(guest("victim", OWN))
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", there)
    assert not world.host(A).calls["migrate"]
    assert world.host(there).here[identity("victim")] == victim


@pytest.mark.parametrize("begun", [False, True], ids=["refused", "begun"])
async def test_live_move_believes_no_target_that_runs_a_guest_which_ended_at_home(
    world: Memory, monkeypatch: pytest.MonkeyPatch, *, begun: bool
) -> None:
    """The target is captured, and waits for the guest's owner to shut it down."""
    source, captured = world.host(A), world.host(B)
    source.put(guest("victim", OWN))
    made = service(world)
    server = await named(made, A, "victim")

    def shut_down() -> None:
        captured.put(guest("victim", THEIRS))
        source.stop(identity("victim"), ShutoffReason.SHUTDOWN)

    async def migrate(*about: object) -> None:
        shut_down()
        raise LibvirtRefusedError(f"{about}: the domain is not running")

    async def shares(*about: object, **more: object) -> bool:
        if not begun:
            shut_down()
        return begun

    monkeypatch.setattr(source, "migrate", migrate)
    monkeypatch.setattr(Sharing, "shares", shares)
    await made.moves.live_migrate(server, B)
    move = await ended(made, server)
    await made.close()
    assert (move.status, move.claimed_by) == ("error", B)
    assert identity("victim") in source.here
    assert not source.here[identity("victim")].active


async def test_live_move_that_was_refused_deletes_no_disk_of_a_guest_that_is_removed(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, captured = world.host(A), world.host(B)
    local = Disk("vda", path="/local/vms/mine.img")
    source.files.add(local.path)
    source.put(guest("victim", local))
    made = service(world)
    server = await named(made, A, "victim")

    async def refuse(*about: object) -> None:
        captured.put(guest("victim", local))
        source.here.pop(identity("victim"), None)
        raise LibvirtRefusedError(f"{about}: no such port")

    monkeypatch.setattr(port_claims, "bind", refuse)
    await made.moves.live_migrate(server, B)
    move = await ended(made, server)
    await made.close()
    assert (move.status, move.claimed_by) == ("error", B)
    assert local.path in source.files


@pytest.mark.parametrize("runs", [True, False])
async def test_ports_of_another_hosts_guest_stay_where_they_are(
    world: Memory, *, runs: bool
) -> None:
    network = Network()
    network.bound = {PORT: (C,)}
    world.host(C).put(guest("victim", THEIRS, runs=runs, ports=(PORT,)))
    world.host(A).put(guest("attacker", OWN, runs=False, ports=(PORT,)))
    made = service(world, network)
    server = await named(made, A, "attacker")
    with pytest.raises(ComputeConflictError, match=f"{PORT} is that of victim"):
        await made.recovery.restart(server)
    await made.moves.cold_migrate(server, B)
    assert (await ended(made, server)).status == "error"
    await made.close()
    assert network.bound == {PORT: (C,)}


async def test_ports_that_two_guests_have_are_not_settled(world: Memory) -> None:
    network = Network()
    network.between = {PORT: (B, C)}
    world.host(C).put(guest("victim", THEIRS, ports=(PORT,)))
    world.host(A).put(guest("attacker", OWN, ports=(PORT,)))
    made = service(world, network)
    await made.moves.servers(A)
    await made.close()
    assert network.bound == {}


async def test_port_between_two_hosts_is_settled_on_no_third_one(world: Memory) -> None:
    network = Network()
    network.between = {PORT: (A, B)}
    world.host(A).put(guest("victim", OWN, ports=(PORT,)))
    world.host(C).put(guest("victim", THEIRS, ports=(PORT,)))
    made = service(world, network)
    await made.moves.servers(A)
    await made.close()
    assert network.bound == {PORT: (A,)}


async def test_guest_of_the_same_uuid_elsewhere_keeps_its_ports(world: Memory) -> None:
    network = Network()
    world.host(C).put(guest("victim", THEIRS, runs=False, ports=(PORT,)))
    world.host(A).put(guest("victim", OWN, runs=False, ports=(PORT,)))
    made = service(world, network)
    server = await named(made, A, "victim")
    with pytest.raises(ComputeConflictError, match=f"is defined on {C} as well"):
        await made.recovery.restart(server)
    await made.close()
    assert network.bound == {}


@pytest.mark.parametrize(
    ("mine", "theirs", "taken"),
    [
        (OWN, THEIRS, False),
        (replace(THEIRS, path="/shared/vms/x/../theirs.img"), THEIRS, True),
        (replace(THEIRS, path="//shared//vms/./theirs.img"), THEIRS, True),
        (VOLUME, VOLUME, True),
        (VOLUME, replace(VOLUME, volume="rbd:volumes/mine"), False),
        (replace(OWN, readonly=True), replace(OWN, device="cdrom"), False),
        (replace(OWN, readonly=True), OWN, True),
        (Disk("sda", "cdrom"), Disk("sda", "cdrom"), False),
    ],
)
def test_disk_has_one_domain_unless_all_only_read_it(
    mine: Disk, theirs: Disk, *, taken: bool
) -> None:
    own, other = guest("a", mine), guest("b", theirs)
    assert bool(files_taken(own, {C: (other,)})) is taken
    assert not files_taken(own, {C: (own,)}), "itself, as seen elsewhere"


FILE: Final = "/shared/vms/theirs.img"
USES: Final = {
    "disk": Devices((THEIRS,)),
    "medium": Devices((replace(THEIRS, device="cdrom"),)),
    "backing image": Devices((Disk("vda", backing=(FILE,)),)),
    "kernel": Devices(kernels=(FILE,)),
    "variables": Devices(nvram=FILE),
    "log": Devices(logs=(FILE,)),
    "socket": Devices(sockets=(FILE,)),
}
READ: Final = {"medium", "backing image", "kernel"}


@pytest.mark.parametrize("theirs", USES)
@pytest.mark.parametrize("mine", USES)
def test_file_has_one_domain_whatever_both_use_it_for(mine: str, theirs: str) -> None:
    own = replace(guest("a"), devices=USES[mine])
    other = replace(guest("b"), devices=USES[theirs])
    taken = files_taken(own, {C: (other,)})
    assert bool(taken) is not (mine in READ and theirs in READ)
    assert taken is None or (taken.host, FILE in taken.text, "b on" in taken.text) == (
        C,
        True,
        True,
    )
    named = taken if mine in {"variables", "log", "socket"} else None
    assert files_taken(own, {C: (other,)}, only_named=True) == named


@pytest.mark.parametrize(
    "mine",
    [
        Devices((THEIRS,), kernels=(FILE,)),
        Devices((Disk("vda", backing=(FILE,)),), logs=(FILE,)),
    ],
)
def test_file_that_a_domain_reads_and_writes_to_is_written_to(mine: Devices) -> None:
    own = replace(guest("a"), devices=mine)
    assert files_taken(own, {C: (replace(guest("b"), devices=Devices(kernels=(FILE,))),)})


def test_claim_names_what_both_use_the_file_for() -> None:
    taken = files_taken(guest("a", THEIRS), {C: (guest("b", THEIRS),)})
    assert taken == (C, f"its disk {FILE} is that of b on {C}, too")


def test_spelling_of_a_path_makes_no_other_file_of_it() -> None:
    own = replace(guest("a"), devices=Devices(logs=("//shared//vms/./x/../theirs.img",)))
    taken = files_taken(own, {C: (guest("b", THEIRS),)})
    assert taken == (C, f"its console log {FILE} is the disk of b on {C}")


def test_log_has_the_names_that_virtlogd_gives_it_when_it_is_full() -> None:
    own = replace(guest("disk"), devices=Devices(logs=("/shared/vms/disk",)))
    for number in (0, 2, 9):
        other = guest("b", Disk("vda", path=f"/shared/vms/disk.{number}"))
        assert files_taken(own, {C: (other,)})
    assert not files_taken(own, {C: (guest("b", Disk("vda", path="/shared/vms/disk.img")),)})


@pytest.mark.parametrize("what", ["kernel", "disk", "log"])
def test_directory_named_by_another_domains_uuid_is_written_to_by_that_alone(what: str) -> None:
    """Not all that lies there is in its definition."""
    path = f"/shared/vms/{identity('b')}/disk.info"
    uses = {
        "kernel": Devices(kernels=(path,)),
        "disk": Devices((Disk("vda", path=path),)),
        "log": Devices(logs=(path,)),
    }
    own = replace(guest("disk"), devices=uses[what])
    assert bool(files_taken(own, {C: (guest("b"),)})) is (what != "kernel")
    assert not files_taken(own, {C: (guest("c"),)})
    assert not files_taken(replace(own, uuid=identity("b")), {C: (guest("c"),)}), "its own"


@pytest.mark.parametrize(
    ("devices", "taken"),
    [
        (Devices(logs=("/shared/vms/b.log",)), True),
        (Devices(nvram="/shared/vms/b_VARS.fd"), True),
        (Devices(sockets=("/consoles/b.sock",)), True),
        (Devices(logs=(f"/shared/vms/{identity('a')}.log",)), False),
        (Devices((OWN,)), False),
    ],
)
def test_name_that_another_domain_has_names_no_file(devices: Devices, *, taken: bool) -> None:
    own = replace(guest("a"), name="b", devices=devices)
    assert bool(files_taken(own, {C: (guest("b"),)})) is taken
    assert not files_taken(own, {C: (guest("c"),)})


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(Devices((OWN,), logs=("/shared/vms/attacker/disk",)), id="log"),
        pytest.param(Devices((OWN,), nvram="/shared/vms/attacker/disk"), id="variables"),
        pytest.param(
            Devices((Disk("vda", path="/shared/vms/b.fd"),)), id="its variables as a disk"
        ),
    ],
)
async def test_file_of_another_hosts_guest_is_opened_by_nothing_of_a_dead_host(
    world: Memory, devices: Devices, *, runs: bool
) -> None:
    disk = "/shared/vms/attacker/disk"
    world.daemons.shared.add("/shared/vms/attacker")
    world.daemons.shared_files |= {disk, "/shared/vms/b.fd"}
    world.daemons.shared_files.add(f"/shared/vms/attacker/{MARK}")
    victim = guest("victim", Disk("vda", path=disk), runs=runs)
    world.host(C).put(replace(victim, devices=replace(victim.devices, nvram="/shared/vms/b.fd")))
    world.host(A).put(replace(guest("attacker"), devices=devices))
    await world.lose(A)
    move = await evacuation(world, "attacker")
    assert (move.status, move.claimed_by) == ("error", C)
    assert f"of victim on {C}" in move.message
    assert not world.host(B).defined


async def test_name_of_a_stored_definition_is_the_one_that_it_is_defined_by(world: Memory) -> None:
    """Not the one that its agent has written beside it."""
    world.host(C).put(guest("victim", THEIRS))
    devices = Devices((OWN,), logs=("/shared/vms/victim.log",))
    world.host(A).put(replace(guest("attacker"), name="victim", devices=devices))
    world.store(A)
    (kept,) = world.stored[A].domains.values()
    told = DomainDefinition(name="attacker", xml=kept.xml, active=True)
    world.stored[A] = HostDefinitions(BOOT, MARK, {identity("attacker"): told})
    world.cut(A)
    world.fence(A)
    move = await evacuation(world, "attacker")
    assert (move.status, move.claimed_by) == ("error", C)


BETWEEN: Final = {"held": None, "arrives": MIGRATION_IN, "leaves": MIGRATION_OUT}
"""Operations of the jobs of a domain that is between two hosts."""


def between(world: Memory, host: str, state: str) -> None:
    """Have a host's libvirtd report that `victim` is on its way, or was left there by a move."""
    paused = {"state": DomainState.PAUSED, "reason": PausedReason.MIGRATION}
    world.host(host).put(replace(guest("victim", THEIRS), **paused))  # type: ignore[arg-type]
    if operation := BETWEEN[state]:
        job = JobStats(JobType.UNBOUNDED, {"operation": operation})
        world.host(host).jobs[identity("victim")] = job


@pytest.mark.parametrize("state", BETWEEN)
async def test_host_that_has_a_dead_ones_guest_between_two_hosts_is_named(
    world: Memory, state: str
) -> None:
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    between(world, C, state)
    move = await evacuation(world, "victim")
    assert (move.status, move.claimed_by) == ("error", C)
    assert f"a migration has left it on host {C} ({state})" in move.message


async def test_host_that_has_a_dead_ones_guest_leave_without_an_end_is_named(world: Memory) -> None:
    """The move is followed, since another process may have begun it; it keeps nothing waiting."""
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    between(world, C, "leaves")
    between(world, B, "arrives")
    async with world.service() as service:
        (adopted,) = await service.moves.moves(C)
        assert (adopted.source, adopted.target, adopted.ended) == (C, B, False)
        (server,) = await service.moves.servers(A)
        assert server.task_state == ""
        await service.recovery.evacuate(server, B)
        move = await ended(service, server)
        assert (move.source, move.status, move.claimed_by) == (A, "error", B)
        (adopted,) = await service.moves.moves(C)
        assert not adopted.ended


@pytest.mark.parametrize("state", BETWEEN)
async def test_host_that_has_a_guest_that_moves_between_two_hosts_is_named(
    world: Memory, state: str
) -> None:
    world.host(A).put(guest("victim", OWN, runs=False))
    between(world, C, state)
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", C)


@pytest.mark.parametrize("there", [B, C], ids=["the target", "a third host"])
@pytest.mark.parametrize("state", ["held", "leaves"])
async def test_live_move_meets_no_host_that_has_its_guest_between_two(
    world: Memory, state: str, there: str
) -> None:
    """What leaves the target would count as a move under way, without end."""
    world.host(A).put(guest("victim", OWN))
    between(world, there, state)
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", there)
    assert not world.host(A).calls["migrate"]


async def test_live_move_that_has_not_begun_is_not_under_way(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*about: object, **more: object) -> bool:
        raise LibvirtRefusedError(f"{about}: the storage has failed {more}")

    monkeypatch.setattr(Sharing, "shares", refuse)
    world.host(A).put(guest("victim", OWN))
    between(world, B, "arrives")
    move = await migration(world, "victim")
    assert (move.status, move.claimed_by) == ("error", B)


async def test_host_that_is_silent_claims_nothing(world: Memory) -> None:
    world.host(A).put(guest("victim", OWN))
    world.host(A).put(guest("idle", OWN, runs=False))
    world.host(C).disconnect("no route to host")
    made = service(world)
    server = await named(made, A, "idle")
    await made.moves.cold_migrate(server, B)
    assert (await ended(made, server)).claimed_by == ""
    await world.lose(A)
    move = await evacuated(made, "victim")
    await made.close()
    assert (move.status, move.claimed_by) == ("error", "")


def test_port_of_another_domain_is_taken() -> None:
    own = guest("a", ports=("p", "q"))
    assert ports_taken(own, {C: (guest("b", ports=("q",)),)})
    assert not ports_taken(own, {C: (guest("b", ports=("r",)), own)})


async def back(world: Memory) -> None:
    """Have A, which was fenced, return, and be taken into service."""
    world.boot(A)
    made = service(world)
    host = await made.hosts.get(A)
    assert host is not None
    await made.hosts.enable(host)
    await made.close()


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(None, id="no mark"),
        pytest.param(Evacuated(A, BOOT), id="a mark"),
        pytest.param(Evacuated(A, BOOT, seal="0" * 64), id="a mark with a seal"),
        pytest.param(Evacuated(A, BOOT, pending=True), id="a pending one"),
    ],
)
async def test_host_that_is_back_keeps_what_another_claims_to_have_from_it(
    world: Memory, mark: Evacuated | None, *, runs: bool
) -> None:
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    world.host(C).put(replace(guest("victim", THEIRS, runs=runs), evacuated=mark))
    await back(world)
    assert identity("victim") in world.host(A).here
    assert not world.host(A).calls["undefine"]


@pytest.mark.parametrize("runs", [True, False])
async def test_host_that_runs_what_another_claims_to_run_is_back_and_keeps_it(
    world: Memory, *, runs: bool
) -> None:
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    world.host(C).put(guest("victim", THEIRS, runs=runs))
    world.boot(A)
    world.host(A).start(identity("victim"))
    await back(world)
    assert world.host(A).here[identity("victim")].active
    assert not world.host(A).calls["undefine"]


async def test_seal_of_one_guest_is_not_valid_for_another(world: Memory) -> None:
    """A captured host has been given a guest of a dead one, and claims the other one, too."""
    world.host(A).put(guest("given", OWN))
    world.host(A).put(guest("victim", THEIRS, runs=False))
    await world.lose(A)
    made = service(world)
    assert (await evacuated(made, "given")).status == "done"
    await made.close()
    seal = world.host(B).here[identity("given")].evacuated
    assert seal is not None
    assert seal.seal
    world.host(B).put(replace(guest("victim", OWN, runs=False), evacuated=seal))
    await back(world)
    assert [*world.host(A).here] == [identity("victim")], "the other one is where it was sent"


@pytest.mark.parametrize("mark", [Evacuated(A, BOOT), Evacuated(A, BOOT, seal="f" * 64)])
async def test_mark_of_another_host_hides_no_guest_of_a_dead_one(
    world: Memory, mark: Evacuated
) -> None:
    """The guest is named among those to recover, with the host that has it as well."""
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    claim = replace(guest("victim", THEIRS, runs=False), evacuated=mark, reason=0)
    world.host(C).put(claim)
    made = service(world)
    assert [one.name for one in await made.moves.servers(A)] == ["victim"]
    move = await evacuated(made, "victim")
    await made.close()
    assert (move.status, C in move.message) == ("error", True)


async def tried_in_vain(world: Memory, *, restarts: bool) -> DirectService:
    """Have C tried as the target of a guest of A, in vain; it keeps the definition, and runs it.

    Returns:
        The operator; with `restarts`, the process that follows it.
    """
    made = service(world)
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    kept: list[Domain] = []
    captured = world.host(C)

    async def refuse(uuid: str) -> None:
        kept.append(captured.here[uuid])
        raise LibvirtRefusedError("domain: the host does not like it")

    server = await named(made, A, "victim")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(captured, "boot", refuse)
        await made.recovery.evacuate(server, C)
        assert (await ended(made, server)).status == "error"
    assert kept[0].evacuated is not None
    assert kept[0].evacuated.seal
    captured.put(replace(kept[0], active=True, state=DomainState.RUNNING))
    if not restarts:
        return made
    await made.close()
    return service(world)


@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "operator restarts"])
async def test_target_that_was_tried_in_vain_hides_no_guest_of_a_dead_host(
    world: Memory, *, restarts: bool
) -> None:
    """The target has our seal that the guest was on its way there."""
    made = await tried_in_vain(world, restarts=restarts)
    assert [one.name for one in await made.moves.servers(A)] == ["victim"]
    move = await evacuated(made, "victim")
    await made.close()
    assert (move.status, move.claimed_by) == ("error", C)


@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "operator restarts"])
async def test_target_that_was_tried_in_vain_takes_nothing_from_a_host_that_is_back(
    world: Memory, *, restarts: bool
) -> None:
    made = await tried_in_vain(world, restarts=restarts)
    world.boot(A)
    host = await made.hosts.get(A)
    assert host is not None
    await made.hosts.enable(host)
    await made.close()
    assert identity("victim") in world.host(A).here


async def test_target_that_was_taken_before_the_present_one_shows_nothing(world: Memory) -> None:
    """Also where the failure of the first start was not seen, and to every later process."""
    marks = Marks(world)
    first = await marks.sealed(identity("victim"), Evacuated(A, BOOT, pending=True))
    second = await marks.sealed(identity("victim"), Evacuated(A, BOOT, pending=True))
    runs = guest("victim", OWN)
    for process in (marks, Marks(world)):
        found = await process.only_ours([replace(runs, evacuated=one) for one in (first, second)])
        assert [one.evacuated for one in found] == [None, second]
    off = replace(guest("victim", OWN, runs=False), evacuated=first)
    assert await marks.only_ours([off]) == (off,), "what is to be undefined is found by it"


async def test_start_that_has_ended_is_over_though_its_end_cannot_be_recorded(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, mark = Marks(world), Evacuated(A, BOOT, pending=True)
    sealed = await marks.sealed(identity("victim"), mark)

    async def unreachable(*about: str) -> None:
        raise TransientError(f"{about}: the API server does not answer")

    monkeypatch.setattr(world.starts, "note", unreachable)
    await marks.ended(identity("victim"), mark)
    (found,) = await marks.only_ours([replace(guest("victim", OWN), evacuated=sealed)])
    assert found.evacuated is None


async def test_nothing_is_started_whose_beginning_cannot_be_recorded(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)

    async def unreachable(*about: str) -> None:
        raise TransientError("the API server does not answer")

    monkeypatch.setattr(world.starts, "note", unreachable)
    move = await evacuation(world, "victim")
    assert (move.status, move.message) == ("error", "the API server does not answer")
    assert identity("victim") not in world.host(B).here


async def test_mark_in_the_document_of_a_process_stays_good_once_it_has_started(
    world: Memory,
) -> None:
    """Libvirt changes that document only when the process ends; the host that is back needs it."""
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    move = await evacuation(world, "victim")
    assert move.succeeded
    of_its_process = domain_of(world.host(B).defined[0])
    assert of_its_process is not None
    runs = replace(of_its_process, active=True)
    assert runs.evacuated is not None
    assert runs.evacuated.pending
    assert await Marks(world).only_ours([runs]) == (runs,)


@pytest.mark.parametrize("was_on", [True, False], ids=["it ran", "it was off"])
@pytest.mark.parametrize(
    "claim",
    [
        pytest.param({"active": True, "state": DomainState.RUNNING}, id="runs"),
        pytest.param({"active": True, "state": DomainState.PAUSED}, id="is paused"),
        pytest.param({"reason": ShutoffReason.DESTROYED}, id="was destroyed"),
        pytest.param({"reason": ShutoffReason.SHUTDOWN}, id="was shut down"),
        pytest.param({"reason": ShutoffReason.CRASHED}, id="has crashed"),
        pytest.param({"reason": 0}, id="is off"),
    ],
)
async def test_copy_on_another_host_hides_no_guest_of_a_dead_one(
    world: Memory, claim: dict[str, object], *, was_on: bool
) -> None:
    """A captured host has whatever it likes; that proves nothing of another host's guest."""
    world.host(A).put(guest("victim", OWN, runs=was_on))
    await world.lose(A)
    copy = replace(guest("victim", THEIRS, runs=False), **claim)  # type: ignore[arg-type]
    world.host(C).put(copy)
    made = service(world)
    assert [one.name for one in await made.moves.servers(A)] == ["victim"]
    host = await made.hosts.get(A, fresh=True)
    assert host is not None
    assert host.servers == (identity("victim"),)
    move = await evacuated(made, "victim")
    await made.close()
    assert (move.status, move.claimed_by) == ("error", C)
    assert B not in move.message, "one claim is one Event, whatever targets are tried"
    assert identity("victim") not in world.host(B).here
    assert world.host(C).here[identity("victim")].active is copy.active


@pytest.mark.parametrize("runs", [True, False])
async def test_guest_whose_move_was_seen_to_arrive_has_left_a_dead_host(
    world: Memory, *, runs: bool
) -> None:
    """Its host had no time to store that."""
    world.host(A).put(guest("moved", OWN, runs=runs))
    world.store(A)
    made = service(world)
    server = await named(made, A, "moved")
    await (made.moves.live_migrate if runs else made.moves.cold_migrate)(server, B)

    async def is_there() -> bool:
        return identity("moved") in world.host(B).here

    await until(is_there)
    world.store(B)
    assert (await ended(made, server)).succeeded
    world.cut(A)
    world.fence(A)
    assert await made.moves.servers(A) == ()
    await made.close()


async def test_move_that_another_host_had_hides_no_guest_of_a_dead_one(world: Memory) -> None:
    """The move is of the same UUID, from the captured host to a third one."""
    world.host(A).put(guest("victim", OWN))
    await world.lose(A)
    world.host(C).put(guest("victim", THEIRS))
    made = service(world)
    theirs = await named(made, C, "victim")
    await made.moves.live_migrate(theirs, B)

    async def over() -> bool:
        return all(move.ended for move in await made.moves.moves(C))

    await until(over)
    assert [one.name for one in await made.moves.servers(A)] == ["victim"]
    await made.close()


async def test_seal_stays_with_a_guest_that_moves_on(world: Memory) -> None:
    world.host(A).put(guest("moved", OWN))
    await world.lose(A)
    made = service(world)
    await evacuated(made, "moved")
    await made.close()
    made = service(world)
    server = await named(made, B, "moved")
    await made.moves.live_migrate(server, C)

    async def is_there() -> bool:
        return (await made.moves.moves(B))[0].succeeded

    await until(is_there)
    await made.close()
    await back(world)
    assert identity("moved") in world.host(C).here
    assert not world.host(A).here
