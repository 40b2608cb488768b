"""A captured host decides what its definitions say; no other host does what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.adapters.libvirt.documents.portable import attacks
from tests.unit.compute.crashing import Crashing, Fuse
from tests.unit.compute.memory import BOOT, MARK, C, Memory, identity

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.fake_domains import document_of
from hypercobalt.adapters.libvirt.model import Devices, Disk, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import ComputeConflictError, RefusedError

pytestmark = pytest.mark.looptime

VM: Final = identity("a")
ATTACKS: Final = {name: attacks.ATTACKS[name] for name in attacks.ATTACKS if name != "local disk"}


@pytest.fixture
def world() -> Memory:
    return Memory()


def hostile(attack: attacks.Attack) -> str:
    """An attack in the document of the instance `a`."""
    xml = attack.xml.replace("/shared/", "/shared/vms/")
    return xml.replace(attacks.UUID, VM).replace(f"<name>{attacks.NAME}<", "<name>a<")


def store(world: Memory, xml: str, *, mark: str = MARK) -> None:
    """Have host A store this for `a`, and a definition in order for every other instance."""
    world.store(A)
    kept = dict(world.stored[A].domains)
    kept[VM] = DomainDefinition("a", xml, active=True)
    world.stored[A] = HostDefinitions(BOOT, mark, kept)


def touched(world: Memory) -> list[str]:
    """UUIDs of what the other hosts have, and the documents that they were given."""
    others = [world.host(name) for name in (B, C)]
    return [found for one in others for found in (*one.here, *one.defined)]


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_hostile_definition_is_started_nowhere_and_the_others_are(
    world: Memory, attack: attacks.Attack
) -> None:
    await world.add("a", disk="shared")
    await world.add("b", disk="shared")
    store(world, hostile(attack))
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert server.waits_for_host
        with pytest.raises(RefusedError, match="waits for kvm-1"):
            await service.recovery.evacuate(server, B)
        assert touched(world) == []
        other = await named(service, A, "b")
        await service.recovery.evacuate(other, B)
        assert (await ended(service, other)).status == "done"
    assert set(world.host(B).here) == {identity("b")}


async def test_refusal_names_device_and_rule(world: Memory) -> None:
    await world.add("a", disk="shared")
    store(world, hostile(attacks.ATTACKS["serial file"]))
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        assert (await named(service, A, "a")).waits_for_host == (
            "it is tied to its host by: serial port of the type file /etc/cron.d/x "
            "(<devices/serial> has type='file': it must be one of pty, null, unix)"
        )


async def test_definition_that_changes_before_it_is_defined_is_judged_again(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    store(world, document_of(world.host(A).here[VM]))
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert server.waits_for_host == ""
        store_again = world.stored[A]
        bad = DomainDefinition("a", hostile(attacks.ATTACKS["serial file"]), active=True)
        world.stored[A] = HostDefinitions(store_again.bootID, store_again.mark, {VM: bad})
        with pytest.raises(RefusedError):
            await service.recovery.evacuate(server, B)
    assert touched(world) == []


async def test_definition_of_another_hosts_instance_does_not_replace_it(world: Memory) -> None:
    """Stored under a UUID of its own host, with the UUID of a victim's in the document."""
    await world.add("a", disk="shared")
    victim = replace(world.host(A).here[VM], uuid=identity("victim"), name="victim")
    world.host(B).put(replace(victim, active=False))
    store(world, document_of(victim))
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert "<uuid> is not that of the instance" in server.waits_for_host
        with pytest.raises(RefusedError):
            await service.recovery.evacuate(server, B)
    assert world.host(B).defined == []


@pytest.mark.parametrize(
    "path", ["/dev/watchdog", "/etc/passwd", "/shared/vms/../../dev/watchdog", "/proc/kmsg", "x"]
)
async def test_no_host_is_queried_about_directories_outside_the_roots(
    world: Memory, path: str
) -> None:
    """Asked about a directory, libvirt opens each file in it: `/dev/watchdog` resets a host."""
    await world.add("a", disk="shared")
    made = world.host(A).here[VM]
    evil = replace(made, devices=Devices((Disk("vda", path=path), Disk("sda", "cdrom", path))))
    world.host(A).put(evil)
    async with world.service() as service:
        live = await named(service, A, "a")
        with pytest.raises(RefusedError):
            await service.moves.live_migrate(live, B)
        await service.moves.candidates(live)
        store(world, document_of(evil))
        world.cut(A)
        world.fence(A)
        dead = await named(service, A, "a")
        assert dead.waits_for_host
        with pytest.raises(RefusedError):
            await service.recovery.evacuate(dead, B)
    for host in (B, C):
        calls = world.host(host).calls
        assert not calls["has_file"] + calls["mark"] + calls["make_directory"], host


@pytest.mark.parametrize(
    "mark", [".hypercobalt-id-kvm-2", "victim.img", "", ".", "../vms/victim.img", MARK + "/x"]
)
async def test_mark_of_another_host_proves_no_sharing(world: Memory, mark: str) -> None:
    """kvm-2 leaves its mark in its own directories, and where everybody reads its name."""
    await world.add("a", disk="local")
    there = world.host(B)
    there.files |= {
        f"/local/vms/{name}" for name in ("a.img", "victim.img", ".hypercobalt-id-kvm-2")
    }
    store(world, document_of(world.host(A).here[VM]), mark=mark)
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert "no other host is known to share its disks" in server.waits_for_host
        with pytest.raises(RefusedError):
            await service.recovery.evacuate(server, B)
    assert touched(world) == []


Move = Callable[[DirectService], Awaitable[None]]


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_no_move_carries_a_hostile_definition(
    world: Memory, attack: attacks.Attack, runs: bool
) -> None:
    await world.add("a", disk="shared", runs=runs)
    world.host(A).documents[VM] = hostile(attack)
    async with world.service() as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        with pytest.raises(RefusedError, match="its definition is not given to another host") as no:
            await move(server, B)
        assert no.value.reason == "Hindered"
        assert await service.moves.moves(A) == ()
    assert touched(world) == []
    assert world.host(A).migrations == []


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_definition_that_turns_hostile_after_the_order_is_not_carried(
    world: Memory, runs: bool
) -> None:
    await world.add("a", disk="shared", runs=runs)
    source = world.host(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        await move(server, B)
        source.documents[VM] = hostile(attacks.ATTACKS["serial file"])
        found = await ended(service, server)
        assert (found.status, "<devices/serial>" in found.message) == ("error", True)
    assert touched(world) == []
    assert source.migrations == []
    assert VM in source.here


async def test_target_gets_the_rewritten_document_and_not_the_sources(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.add("b", disk="shared", runs=False)
    for name in ("a", "b"):
        uuid = identity(name)
        emulator = "<devices><emulator>/tmp/qemu</emulator><!-- x -->"
        xml = document_of(world.host(A).here[uuid]).replace("<devices>", emulator)
        world.host(A).documents[uuid] = xml
    async with world.service() as service:
        for name, move in (("a", service.moves.live_migrate), ("b", service.moves.cold_migrate)):
            server = await named(service, A, name)
            await move(server, B)
            assert (await ended(service, server)).status in {"completed", "confirmed"}
    (options,) = world.host(A).migrations
    for xml in (options.running, options.defined, *world.host(B).defined):
        assert "<domain" in xml
        assert "emulator" not in xml
        assert "<!--" not in xml
    assert "<domain" not in repr(options)


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_log_of_a_definition_that_moves_is_no_file_of_another_instance(
    world: Memory, runs: bool
) -> None:
    """The document that the new host would get decides, whatever the source lists."""
    await world.add("a", disk="shared", runs=runs)
    source, path = world.host(A), "/shared/vms/a/disk"
    own = source.here[VM]
    victim = replace(own, uuid=identity("v"), name="v", devices=Devices((Disk("vda", path=path),)))
    world.host(C).put(victim)
    devices = replace(own.devices, logs=(path,))
    source.documents[VM] = document_of(replace(own, devices=devices))
    async with world.service() as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        await move(server, B)
        found = await ended(service, server)
    assert (found.status, found.claimed_by) == ("error", C)
    assert f"its console log {path} is the disk of v on {C}" in found.message
    assert touched(world) == [identity("v")]
    assert source.migrations == []


async def test_disk_that_only_the_document_has_writes_over_no_file(world: Memory) -> None:
    """A captured source lists its own disk, and hands out a document with another's."""
    await world.add("a", disk="local")
    source = world.host(A)
    theirs = Disk("vda", path="/local/vms/theirs.img")
    own = source.here[VM]
    source.files.add(theirs.path)
    world.host(B).files.add(theirs.path)
    devices = Devices((theirs,))
    world.host(B).put(replace(own, uuid=identity("v"), name="v", devices=devices))
    source.documents[VM] = document_of(replace(own, devices=devices))
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        found = await ended(service, server)
    assert (found.status, source.migrations) == ("error", [])
    assert f"its disk {theirs.path} is that of v on {B}" in found.message


def looked_into(world: Memory, host: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The directories that a host's libvirtd is made to look into, or to write to, from now on."""
    found, there = set[str](), world.host(host)
    has_file, mark = there.has_file, there.mark

    async def looked(directory: str, name: str) -> bool:
        found.add(directory)
        return await has_file(directory, name)

    async def marked(directory: str, name: str) -> None:
        found.add(directory)
        await mark(directory, name)

    monkeypatch.setattr(there, "has_file", looked)
    monkeypatch.setattr(there, "mark", marked)
    return found


def lists_another(world: Memory, path: str) -> None:
    """Have host A list a disk that the document of `a`, which is in order, does not have."""
    source = world.host(A)
    own = source.here[VM]
    source.documents.setdefault(VM, document_of(own))
    source.put(replace(own, devices=Devices((Disk("vda", path=path),))))


@pytest.mark.parametrize("path", ["/etc/cron.d/x", "/dev/watchdog", "/shared/vms/../../etc/x"])
@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_move_looks_into_no_directory_that_only_the_source_lists(
    world: Memory, monkeypatch: pytest.MonkeyPatch, path: str, runs: bool
) -> None:
    await world.add("a", disk="shared", runs=runs)
    world.store(A)
    lists_another(world, path)
    # libvirt itself goes by its own definition, not by what it lists.
    world.host(A).failures["migrate"] = LibvirtRefusedError("not of interest")
    seen = looked_into(world, B, monkeypatch)
    async with world.service() as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        try:
            await move(server, B)
        except RefusedError:
            assert not runs
        else:
            await ended(service, server)
    assert seen <= {"/shared/vms"}


async def test_move_of_another_process_looks_into_no_directory_that_only_the_source_lists(
    world: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add("a", disk="shared")
    world.store(A)
    world.daemons.seconds[VM] = 10
    async with world.service() as first:
        await first.moves.live_migrate(await named(first, A, "a"), B)
        await asyncio.sleep(2)
    lists_another(world, "/etc/cron.d/x")
    seen = looked_into(world, B, monkeypatch)
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.moves(A)
        await ended(service, server)
    assert seen <= {"/shared/vms"}


async def test_disk_that_only_the_document_of_a_cold_move_has_is_no_file_of_the_target(
    world: Memory,
) -> None:
    """A captured source lists a shared disk, and hands out a document with one of the target."""
    await world.add("a", disk="shared", runs=False)
    source = world.host(A)
    own = source.here[VM]
    theirs = Disk("vda", path="/local/vms/theirs.img")
    world.host(B).files.add(theirs.path)
    source.documents[VM] = document_of(replace(own, devices=Devices((theirs,))))
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        found = await ended(service, server)
    assert (found.status, found.message) == ("error", f"{B} does not see {theirs.path}")
    assert world.host(B).defined == []


async def test_source_that_takes_a_domain_back_gets_its_own_document(world: Memory) -> None:
    """The document is the source's own: what no other host may have stays where it was."""
    await world.add("a", disk="shared", runs=False)
    source: FakeLibvirt = world.host(A)
    source.documents[VM] = document_of(source.here[VM]).replace(
        "<devices>", "<devices><emulator>/usr/bin/qemu</emulator>"
    )
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.moves.cold_migrate(server, B)
        assert (await ended(service, server)).status == "confirmed"
    assert source.defined == []


# -- ports of the network --------------------------------------------------------------------------

PORT: Final = identity("port")


async def _with_the_port_of_a_victim(world: Crashing, *, runs: bool = True) -> None:
    """`a` on host A says that it has the port of a victim on host C."""
    await world.add("a", disk="shared", runs=runs)
    made = world.host(A).here[VM]
    devices = replace(made.devices, ports=(PORT,))
    world.host(A).put(replace(made, devices=devices))
    victim = replace(made, uuid=identity("v"), name="victim", active=True, devices=devices)
    world.host(C).put(victim)
    world.ports.bound[PORT] = (C,)


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_move_takes_no_port_of_another_instance(runs: bool) -> None:
    world = Crashing()
    await _with_the_port_of_a_victim(world, runs=runs)
    async with world.process(Fuse(10**6)) as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        await move(server, B)
        found = await ended(service, server)
    assert (found.status, "is that of victim on kvm-3" in found.message) == ("error", True)
    assert world.ports.bound == {PORT: (C,)}
    assert VM not in world.host(B).here


@pytest.mark.parametrize("runs", [True, False], ids=["live", "cold"])
async def test_move_takes_no_port_that_only_its_document_has(runs: bool) -> None:
    world = Crashing()
    await _with_the_port_of_a_victim(world, runs=runs)
    source = world.host(A)
    source.documents[VM] = document_of(source.here[VM])
    source.put(replace(source.here[VM], devices=replace(source.here[VM].devices, ports=())))
    async with world.process(Fuse(10**6)) as service:
        server = await named(service, A, "a")
        move = service.moves.live_migrate if runs else service.moves.cold_migrate
        await move(server, B)
        found = await ended(service, server)
    assert (found.status, "is that of victim on kvm-3" in found.message) == ("error", True)
    assert world.ports.bound == {PORT: (C,)}
    assert VM not in world.host(B).here


@pytest.mark.parametrize("victim_died", [False, True])
async def test_evacuation_takes_no_port_of_another_instance(victim_died: bool) -> None:
    world = Crashing()
    await _with_the_port_of_a_victim(world)
    for host in (A, C) if victim_died else (A,):
        await world.lose(host)
    async with world.process(Fuse(10**6)) as service:
        server = await named(service, A, "a")
        await service.recovery.evacuate(server, B)
        found = await ended(service, server)
    assert (found.status, "is that of victim on kvm-3" in found.message) == ("error", True)
    assert world.ports.bound == {PORT: (C,)}
    assert world.host(B).defined == []


async def test_restart_takes_no_port_of_another_instance() -> None:
    world = Crashing()
    await _with_the_port_of_a_victim(world)
    async with world.process(Fuse(10**6)) as service:
        with pytest.raises(ComputeConflictError, match="is that of victim on kvm-3"):
            await service.recovery.restart(await named(service, A, "a"))
    assert world.ports.bound == {PORT: (C,)}
    assert world.host(A).here[VM].active


# -- an instance of another host that has the same UUID --------------------------------------------


@pytest.mark.parametrize(
    ("reason", "started"),
    [
        (ShutoffReason.UNKNOWN, False),
        (ShutoffReason.SAVED, False),
        (ShutoffReason.MIGRATED, True),  # left there by a migration away from it
    ],
)
async def test_instance_that_is_off_on_another_host_is_not_replaced(
    world: Memory, reason: ShutoffReason, started: bool
) -> None:
    await world.add("a", disk="shared")
    own = replace(world.host(A).here[VM], active=False, state=DomainState.SHUTOFF)
    world.host(B).put(replace(own, reason=int(reason)))
    await world.lose(A)
    async with world.service() as service:
        for target in (B, C):
            server = await service.moves.server(VM)
            assert server is not None
            if server.host != A:
                break
            await service.recovery.evacuate(server, target)
            found = await ended(service, server)
            assert ("it is defined on kvm-2, too" in found.message) is not started
    assert bool(world.host(B).defined + world.host(C).defined) is started
