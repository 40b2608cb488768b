"""Without OpenStack: what ran on a dead host runs elsewhere, once, and nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Final

import pytest
from tests.contracts.direct import A, B, ended, named
from tests.unit.compute.crashing import Crashing, Fuse
from tests.unit.compute.memory import ALLOWED, BOOT, MARK, C, Memory, Present, identity
from tests.waiting import until

from hypercobalt.adapters.libvirt.model import Devices, Disk, DomainState, Evacuated
from hypercobalt.adapters.libvirt.port import DiskInUseError, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason, Stopped
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.outcome import HostView, why_not
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.errors import (
    ComputeConflictError,
    MayRunElsewhereError,
    RefusedError,
    UnreachableError,
)
from hypercobalt.compute.model import Move, Server
from hypercobalt.errors import HypercobaltError

pytestmark = pytest.mark.looptime

VM: Final = identity("a")
HERE: Final = Evacuated(A, BOOT)


@pytest.fixture
def world() -> Memory:
    return Memory()


async def evacuate(service: DirectService, target: str = B, name: str = "a") -> Move:
    server = await named(service, A, name)
    await service.recovery.evacuate(server, target)
    return await ended(service, server)


def running(world: Memory) -> list[str]:
    """Hosts where the server runs."""
    return [host for name, host, state in _everywhere(world) if (name, state) == ("a", "running")]


def _everywhere(world: Memory) -> Iterable[tuple[str, str, str]]:
    for host in world.places:
        for domain in world.host(host).here.values():
            yield domain.name, host, "running" if domain.active else "shut off"


# -- a dead host -----------------------------------------------------------------------------------


async def test_running_servers_run_elsewhere_and_those_that_were_off_stay_off(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.add("b", disk="shared", runs=False)
    await world.lose(A)
    async with world.service() as service:
        listed = {one.name: one for one in await service.moves.servers(A)}
        assert {name: (one.status, one.running) for name, one in listed.items()} == {
            "a": ("ACTIVE", True),
            "b": ("SHUTOFF", False),
        }
        for name in ("a", "b"):
            move = await evacuate(service, name=name)
            assert (move.status, move.kind, move.target) == ("done", "evacuation", B), move
        assert await service.moves.servers(A) == ()
        there = {one.name: one.running for one in await service.moves.servers(B)}
        assert there == {"a": True, "b": False}
    assert world.host(B).definition(VM).evacuated == HERE
    assert running(world) == [B]


@pytest.mark.parametrize(
    ("state", "reason", "starts"),
    [
        pytest.param(DomainState.PAUSED, PausedReason.USER, False, id="by its owner"),
        pytest.param(DomainState.PAUSED, PausedReason.UNKNOWN, False, id="before libvirtd began"),
        pytest.param(DomainState.PAUSED, PausedReason.FROM_SNAPSHOT, False, id="as it was saved"),
        pytest.param(DomainState.PMSUSPENDED, 0, False, id="its guest sleeps"),
        pytest.param(DomainState.PAUSED, PausedReason.IO_ERROR, True, id="by its storage"),
        pytest.param(DomainState.PAUSED, PausedReason.SAVE, True, id="while it is saved"),
    ],
)
async def test_server_that_its_owner_has_suspended_is_defined_elsewhere_and_stays_off(
    world: Memory, state: DomainState, reason: int, *, starts: bool
) -> None:
    await world.add("a", disk="shared")
    world.host(A).put(replace(world.host(A).here[VM], state=state, reason=int(reason)))
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert (server.running, server.paused) == (starts, False)
        assert server.status == ("ACTIVE" if starts else "PAUSED")
        assert (await evacuate(service)).status == "done"
        assert await service.moves.servers(A) == ()
    there = world.host(B).definition(VM)
    assert (there.active, there.evacuated) == (starts, HERE)
    assert not world.host(B).calls["boot"] or starts


async def test_server_that_is_off_is_found_on_its_new_host_while_the_fenced_one_answers(
    world: Memory,
) -> None:
    """The agent of a host that was fenced by mistake has ended its guests; the copy stays there."""
    await world.add("a", disk="shared", runs=False)
    await world.lose(A)
    world.host(A).connect()
    async with world.service() as service:
        before = await service.moves.server(VM)
        assert before is not None
        assert (before.host, (await evacuate(service)).status) == (A, "done")
        after = await service.moves.server(VM)
        assert after is not None
        assert (after.host, after.status) == (B, "SHUTOFF")
        world.places[A] = replace(world.places[A], fenced=False)  # it has shown life
        after = await service.moves.server(VM)
        assert after is not None
        assert after.host == B
        await world.host(B).undefine(VM)
        left = await service.moves.server(VM)
        assert left is not None
        assert left.host == A  # nothing shows that it is gone


async def test_server_that_crashed_before_its_host_runs_elsewhere(world: Memory) -> None:
    """The host's agent reports the reason: the stored definition of a domain has none."""
    await world.add("a", disk="shared", runs=False)
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert (server.running, server.died) == (False, None)
        await service.recovery.evacuate(replace(server, died=True), B)
        assert (await ended(service, server)).status == "done"
        assert await service.moves.servers(A) == ()
    assert running(world) == [B]


async def test_dead_host_counts_servers_that_have_not_left_it(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.add("local", disk="local")
    before = frozenset({VM, identity("local")})
    world.places[A] = replace(world.places[A], domains=before)  # as its agent reported last
    await world.lose(A)

    async def counted(service: DirectService) -> set[str]:
        host = await service.hosts.get(A, fresh=True)
        assert host is not None
        return set(host.servers)

    async with world.service() as service:
        assert await counted(service) == before
        await evacuate(service)
        assert await counted(service) == {identity("local")}


async def test_disks_are_not_read_from_a_silent_host(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(B).disconnect()
    async with world.service() as service:
        assert (await named(service, A, "a")).waits_for_host == ""
    assert not world.host(B).calls["has_file"]
    assert world.host(C).calls["has_file"]


async def test_server_is_not_evacuated_without_a_proof(world: Memory) -> None:
    await world.add("a", disk="shared")
    world.store(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        host = await service.hosts.get(A)
        assert host is not None
        world.cut(A)
        with pytest.raises(RefusedError, match="not proven dead"):
            await service.recovery.evacuate(server, B)
        with pytest.raises(ComputeConflictError, match="not proven dead"):
            await service.hosts.force_down(host)
        world.fence(A)
        await service.hosts.force_down(host)
        seen = await service.hosts.get(A, fresh=True)
        assert seen is not None
        assert (seen.up, seen.forced_down) == (False, True)


async def test_host_that_lives_in_spite_of_its_proof_keeps_its_servers(world: Memory) -> None:
    await world.add("a", disk="shared")
    world.store(A)
    world.fence(A)  # the fence device has lied
    async with world.service() as service:
        move = await evacuate(service)
        assert (move.status, running(world)) == ("error", [A])
        assert f"it runs on host {A}" in move.message


async def test_third_host_that_is_silent_may_run_it(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(C).disconnect()
    async with world.service() as service:
        move = await evacuate(service)
        assert move.status == "error"
        assert f"host {C} does not answer and is not fenced" in move.message
        world.fence(C)
        assert (await evacuate(service)).status == "done"
    assert running(world) == [B]


async def test_waiting_for_the_answer_of_a_third_host_is_no_attempt(world: Memory) -> None:
    """A captured host answers when it likes: an Eviction given up meanwhile would wait longer."""
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(C).disconnect()
    async with world.service() as service:
        first = await evacuate(service)
        for _ in range(20):
            with pytest.raises(MayRunElsewhereError, match=f"host {C} does not answer"):
                await evacuate(service)
        assert await service.moves.moves(A) == (first,)
        world.host(C).connect()
        assert (await evacuate(service)).status == "done"
    assert running(world) == [B]


async def test_host_that_has_left_the_site_is_waited_for_no_longer(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(C).disconnect()
    async with world.service() as service:
        assert (await evacuate(service)).status == "error"
        del world.places[C]
        assert (await evacuate(service)).status == "done"


async def test_definitions_that_cannot_be_read_hide_nothing(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    del world.stored[A]
    async with world.service() as service:
        with pytest.raises(UnreachableError, match="nothing is stored"):
            await service.moves.servers(A)
        with pytest.raises(UnreachableError, match="nothing is stored"):
            await service.moves.server(VM)


async def test_definition_that_did_not_fit_is_named(world: Memory) -> None:
    world.stored[A] = HostDefinitions(BOOT, left_out={VM: "a"})
    world.cut(A)
    world.fence(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert "did not fit" in server.waits_for_host
        with pytest.raises(RefusedError, match="no definition"):
            await service.recovery.evacuate(server, B)


async def test_server_that_another_dead_host_had_without_its_definition_waits_for_one_of_them(
    world: Memory,
) -> None:
    """That definition did not fit into what the other host has stored, and may be the newer one."""
    await world.add("a", disk="shared")
    await world.lose(A)
    world.cut(B)
    world.fence(B)
    world.stored[B] = HostDefinitions(BOOT, left_out={VM: "a"})
    async with world.service() as service:
        move = await evacuate(service, C)
        assert (move.status, move.claimed_by) == ("error", B)
        assert f"{A} and {B} both had it when they died" in move.message
    assert running(world) == []


async def test_record_of_another_dead_host_that_cannot_be_read_holds_nothing_up(
    world: Memory,
) -> None:
    """Its agent has written it: a captured host that died would hold up every other one."""
    await world.add("a", disk="shared")
    await world.lose(A)
    world.cut(B)
    world.fence(B)
    world.stored.pop(B, None)
    async with world.service() as service:
        assert (await evacuate(service, C)).status == "done"
    assert running(world) == [C]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": Devices((Disk("vda", path="/local/vms/a.img"),))}, "share its disks: vda"),
        ({"devices": Devices((Disk("vda", path="/dev/sdb", block=True),))}, "below a shared root"),
        ({"devices": Devices(bound=("host device pci 0000:3b:00.0",))}, "host device pci"),
        ({"devices": Devices(nvram="/var/lib/nvram/a.fd")}, "the text of <os/nvram>"),
        ({"saved": True}, "memory is saved"),
    ],
)
async def test_server_with_a_disk_on_its_host_waits_for_the_host(
    world: Memory, changes: dict[str, object], words: str
) -> None:
    await world.add("a", disk="shared")
    made = world.host(A).here[VM]
    world.host(A).put(replace(made, **changes))  # type: ignore[arg-type]
    await world.lose(A)
    if "host device" in words:
        _write(world, "<hostdev type='pci'/>")
    async with world.service() as service:
        server = await named(service, A, "a")
        assert words in server.waits_for_host
        with pytest.raises(RefusedError, match="waits for"):
            await service.recovery.evacuate(server, B)
    assert running(world) == []


def _write(world: Memory, device: str) -> None:
    """Have what the documents of the hosts in memory do not show in the stored one."""
    kept = world.stored[A].domains[VM]
    xml = kept.xml.replace("</devices>", f"{device}</devices>")
    domains = {VM: DomainDefinition(kept.name, xml, active=True)}
    world.stored[A] = HostDefinitions(BOOT, MARK, domains)


async def test_server_that_starts_with_its_host_is_refused_by_name(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.set_autostart("a")
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert "virsh autostart --disable a" in server.waits_for_host
        with pytest.raises(RefusedError, match="autostart"):
            await service.recovery.evacuate(server, B)


async def test_storage_that_hangs_on_every_host_makes_no_disk_a_local_one(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    for host in (B, C):
        world.host(host).failures["has_file"] = LibvirtError("no answer within 10 s")
    async with world.service() as service:
        found = await named(service, A, "a")
        assert found.waits_for_host == ""
        with pytest.raises(RefusedError, match="share its disks"):
            await service.recovery.evacuate(found, B)
        del world.host(B).failures["has_file"]
        assert (await evacuate(service)).status == "done"
    assert running(world) == [B]


async def test_file_of_the_same_name_is_no_shared_disk(world: Memory) -> None:
    await world.add("a", disk="local")
    world.host(B).files.add("/local/vms/a.img")
    await world.lose(A)
    async with world.service() as service:
        assert "share its disks" in (await named(service, A, "a")).waits_for_host


async def test_target_that_does_not_share_the_disk_gets_nothing(world: Memory) -> None:
    await world.add("a", disk="local")
    for path in ("/local/vms/a.img", f"/local/vms/{MARK}"):
        world.host(C).files.add(path)  # C has the same directory, B has not
    await world.lose(A)
    async with world.service() as service:
        move = await evacuate(service, B)
        assert (move.status, "does not share" in move.message) == ("error", True)
        assert (await evacuate(service, C)).status == "done"
    assert running(world) == [C]


async def test_directory_that_a_process_has_not_looked_at_yet_is_looked_at_first(
    world: Memory,
) -> None:
    """A new leader has the listings of its predecessor, and no answers about disks."""
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as before:
        server = await named(before, A, "a")
    async with world.service() as service:
        await service.recovery.evacuate(server, B)
        assert (await ended(service, server)).status == "done"
    assert running(world) == [B]


async def test_start_that_fails_leaves_no_copy_and_can_be_tried_elsewhere(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(B).failures["boot"] = LibvirtRefusedError("Cannot allocate memory")
    async with world.service() as service:
        move = await evacuate(service, B)
        assert (move.status, move.message) == ("error", "Cannot allocate memory")
        assert await world.where() == [("a", A, "shut off")]
        assert (await evacuate(service, C)).status == "done"
    assert running(world) == [C]


async def test_start_that_the_lock_of_a_disk_stops_is_known_as_such(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(B).failures["boot"] = DiskInUseError('Failed to get "write" lock')
    async with world.service() as service:
        move = await evacuate(service, B)
        assert (move.status, move.in_use) == ("error", True)
        assert [one.in_use for one in await service.moves.moves(A)] == [True]
        assert not (await evacuate(service, C)).in_use


async def test_owner_who_powers_off_after_the_evacuation_is_obeyed(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        await evacuate(service)
        world.host(B).stop(VM)
        assert await service.moves.servers(A) == ()
        seen = await service.moves.server(VM)
        assert seen is not None
        assert (seen.host, seen.running) == (B, False)
        await service.recovery.evacuate(server, C)
        move = await ended(service, server)
        assert "to where it was evacuated" in move.message
    assert running(world) == []


@pytest.mark.parametrize("undefined", [True, False])
@pytest.mark.parametrize("call", ["boot", "domains"], ids=["is being", "was just"])
async def test_server_that_its_owner_destroys_while_it_is_started_does_not_come_back(
    world: Memory, call: str, *, undefined: bool
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    there = world.host(B)
    there.delays["boot"] = 5
    async with world.service() as service:
        server = await named(service, A, "a")
        await service.recovery.evacuate(server, B)

        async def is_started() -> bool:
            defined = VM in there.here and there.calls["boot"] > 0
            return defined and (call == "boot" or there.here[VM].active)

        await until(is_started)
        if call == "boot":
            there.start(VM)
        there.stop(VM, Stopped.DESTROYED)
        if undefined:
            there.forget(VM)
        there.failures["boot"] = LibvirtRefusedError("the domain is gone")
        assert (await ended(service, server)).status == "done"
        assert await service.moves.servers(A) == ()
        with contextlib.suppress(RefusedError):
            await service.recovery.evacuate(server, C)
            await ended(service, server)
    assert running(world) == []
    assert (VM in there.here) is not undefined
    if not undefined:
        assert there.here[VM].evacuated == HERE


async def test_server_whose_new_host_is_silent_is_not_taken_for_removed(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        world.host(B).forget(VM)
        world.host(B).disconnect()
        assert [one.name for one in await service.moves.servers(A)] == ["a"]


async def test_evacuation_that_is_requested_twice_is_one(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        server = await named(service, A, "a")
        await asyncio.gather(*(service.recovery.evacuate(server, host) for host in (B, C)))
        assert (await named(service, A, "a")).task_state == "evacuating"
        await ended(service, server)
        assert len(await service.moves.moves(A)) == 1
    assert len(running(world)) == 1


async def test_host_without_capacity_takes_no_server(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.places[B] = replace(world.places[B], used=world.places[B].capacity)
    async with world.service() as service:
        server = await named(service, A, "a")
        assert [one.host for one in await service.moves.candidates(server)] == [C]
        with pytest.raises(ComputeConflictError, match="kvm-2 no longer has the capacity"):
            await service.recovery.evacuate(server, B)


class Meddling:
    """A network in which something happens between the first look at the hosts and the start."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        self._happens()

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def close(self) -> None: ...


def _starts_on_c(world: Memory) -> None:
    made = world.host(A).here[VM]
    world.host(C).put(replace(made, active=True, state=DomainState.RUNNING))


def _is_fenced_anew(world: Memory) -> None:
    world.places[A] = replace(world.places[A], fenced_boot="boot-2")


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (_starts_on_c, f"runs on host {C}"),
        (lambda world: world.boot(A), "not fenced any more"),
        (_is_fenced_anew, "not fenced any more"),
    ],
)
async def test_change_before_the_start_stops_the_evacuation(
    world: Memory, happens: Callable[[Memory], None], words: str
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    meddling = Meddling(lambda: happens(world))
    service = DirectService(
        Present(world.places), world.daemons, meddling, stored=world, allowed=ALLOWED
    )
    server = await named(service, A, "a")
    await service.recovery.evacuate(server, B)
    await until(lambda: _over(service))
    assert VM not in world.host(B).here
    assert words in (await service.moves.moves(A))[0].message
    await service.close()


async def _over(service: DirectService) -> bool:
    return all(move.ended for move in await service.moves.moves(A))


async def test_server_that_was_off_is_not_defined_while_a_host_is_silent(world: Memory) -> None:
    await world.add("a", disk="shared", runs=False)
    await world.lose(A)
    world.host(C).disconnect()
    async with world.service() as service:
        assert (await evacuate(service)).status == "error"
    assert not world.host(B).here


async def test_dead_host_that_takes_connections_and_never_answers_delays_nothing(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.host(A).connect()
    world.host(A).delays["domains"] = 3600
    begun = asyncio.get_running_loop().time()
    async with world.service() as service:
        assert (await evacuate(service)).status == "done"
    # Two seconds for the listing; its silence is remembered then.
    assert asyncio.get_running_loop().time() - begun < 3


async def test_directory_without_a_mark_is_not_shared(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    world.stored[A] = HostDefinitions(BOOT, "", world.stored[A].domains)
    world.daemons.shared_files.add("/shared/vms/")
    async with world.service() as service:
        assert "share its disks" in (await named(service, A, "a")).waits_for_host


# -- one host after the other ----------------------------------------------------------------------


def thaw(world: Memory, host: str) -> None:
    """Have a host that was fenced by mistake answer again; its agent ends what ran there."""
    there = world.host(host)
    there.connect()
    for uuid in there.here:
        world.host(host).here[uuid] = replace(
            there.here[uuid],
            active=False,
            state=DomainState.SHUTOFF,
            reason=ShutoffReason.DESTROYED,
        )
    world.places[host] = replace(world.places[host], fenced=False, up=True)


@pytest.mark.parametrize("runs", [True, False])
async def test_leftover_of_a_host_that_was_fenced_by_mistake_hides_no_server_of_the_next(
    world: Memory, *, runs: bool
) -> None:
    await world.add("a", disk="shared", runs=runs)
    await world.lose(A)
    async with world.service() as service:
        assert (await evacuate(service)).status == "done"
        thaw(world, A)
        await world.lose(B)
        server = await named(service, B, "a")
        assert server.waits_for_host == ""
        await service.recovery.evacuate(server, C)
        assert (await ended(service, server)).status == "done"
        assert await service.moves.servers(B) == ()
        world.boot(A)
        await _enable(service, A)
        world.boot(B)
        await _enable(service, B)
    assert await world.where() == [("a", C, "running" if runs else "shut off")]


async def test_host_that_is_back_forgets_what_a_dead_one_took_over(world: Memory) -> None:
    """The guest has not been started again yet: it would be started on both hosts."""
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        await world.lose(B)
        world.boot(A)
        await _enable(service, A)
        world.places[A] = replace(world.places[A], fenced_boot="", closed="")
        assert VM not in world.host(A).here
        server = await named(service, B, "a")
        await service.recovery.evacuate(server, A)
        assert (await ended(service, server)).status == "done"
    assert running(world) == [A]


@pytest.mark.parametrize("another_leads", [False, True])
async def test_server_whose_new_host_dies_before_it_has_stored_it_is_the_first_one_s_again(
    world: Memory, another_leads: bool
) -> None:
    """Its definition is stored for its first host alone: from there it is started once more."""
    await world.add("a", disk="shared")
    await world.lose(A)
    world.store(B)
    async with world.service() as service:
        await evacuate(service)
        assert await service.moves.servers(A) == ()
        world.cut(B)
        world.fence(B)
        if not another_leads:
            await _evacuate_again(service)
    if another_leads:
        async with world.service() as service:
            await _evacuate_again(service)
    assert running(world) == [C]


async def _evacuate_again(service: DirectService) -> None:
    host = await service.hosts.get(A, fresh=True)
    assert host is not None
    assert host.servers == (VM,)
    server = await named(service, A, "a")
    await service.recovery.evacuate(server, C)
    assert (await ended(service, server)).status == "done"


async def test_server_that_two_dead_hosts_had_is_the_second_one_s(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        await world.lose(B)
        assert await service.moves.servers(A) == ()
        assert [one.name for one in await service.moves.servers(B)] == ["a"]
        server = await named(service, B, "a")
        await service.recovery.evacuate(server, C)
        assert (await ended(service, server)).status == "done"
        world.boot(B)
        await _enable(service, B)
        assert await service.moves.servers(A) == ()
        world.boot(A)
        await _enable(service, A)
    assert await world.where() == [("a", C, "running")]


# -- its return ------------------------------------------------------------------------------------


async def _enable(service: DirectService, name: str) -> None:
    host = await service.hosts.get(name)
    assert host is not None
    await service.hosts.enable(host)


async def test_host_that_is_back_forgets_what_was_evacuated_and_keeps_the_rest(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.add("off", disk="shared")
    await world.add("local", disk="local")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        await evacuate(service, name="off")
        world.host(B).stop(identity("off"))  # by its owner
        with pytest.raises(UnreachableError, match="what was evacuated is not known"):
            await _enable(service, A)
        world.boot(A)
        await _enable(service, A)
    assert await world.where() == [
        ("a", B, "running"),
        ("local", A, "shut off"),
        ("off", B, "shut off"),
    ]
    assert not world.host(A).calls["boot"]


async def test_silent_host_does_not_hold_up_one_of_which_all_is_found_elsewhere(
    world: Memory,
) -> None:
    """Else two hosts that failed one after the other wait for each other."""
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        world.cut(C)
        world.boot(A)
        await _enable(service, A)
    assert await world.where() == [("a", B, "running")]


async def test_host_that_runs_what_was_evacuated_is_not_taken_into_service(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        world.boot(A)
        world.host(A).start(VM)  # by hand
        with pytest.raises(RefusedError, match="destroy it there at once"):
            await _enable(service, A)


async def test_domain_that_runs_twice_keeps_no_other_leftover_on_the_host(world: Memory) -> None:
    """Else one guest that a captured host runs, too, keeps copies of others' guests."""
    await world.add("a", disk="shared")
    await world.add("b", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service)
        await evacuate(service, name="b")
        world.boot(A)
        world.host(A).start(VM)  # by hand
        with pytest.raises(RefusedError, match="destroy it there at once"):
            await _enable(service, A)
    assert set(world.host(A).here) == {VM}


async def test_host_is_taken_into_service_while_another_one_is_proven_dead(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service, B)
        await world.lose(C)
        world.boot(A)
        await _enable(service, A)
    assert VM not in world.host(A).here


async def test_host_is_not_taken_into_service_while_another_one_may_have_its_servers(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service, B)
        world.host(B).disconnect()
        world.boot(A)
        with pytest.raises(UnreachableError, match=B):
            await _enable(service, A)
        world.host(B).connect()
        with pytest.raises(UnreachableError, match="stay until the agents of their new hosts"):
            await _enable(service, A)
        world.store(B)
        await _enable(service, A)
    assert await world.where() == [("a", B, "running")]


async def test_what_its_new_host_has_not_stored_is_recorded_with_the_dead_host_alone(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        host = await service.hosts.get(A)
        assert host is not None
        assert await service.hosts.unstored(host) == set()
        await evacuate(service, B)
        assert await service.hosts.unstored(host) == {VM}
        world.store(B)
        assert await service.hosts.unstored(host) == set()
        world.host(B).disconnect()
        del world.stored[B]
        assert await service.hosts.unstored(host) == {VM}


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(None, id="nothing that can be read"),
        pytest.param(HostDefinitions(BOOT), id="what it had before"),
        pytest.param(HostDefinitions(BOOT, left_out={VM: "a"}), id="its name alone"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "operator restarts"])
async def test_dead_host_keeps_the_only_record_of_what_its_new_host_took_into_death(
    world: Memory, stored: HostDefinitions | None, *, restarts: bool
) -> None:
    await world.add("a", disk="shared")
    await world.add("b", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service, B)
        world.cut(B)
        world.fence(B)
        world.stored.pop(B, None)
        if stored is not None:
            world.stored[B] = stored
        if not restarts:
            assert VM in await _unstored(service)
    if restarts:
        async with world.service() as service:
            assert VM in await _unstored(service)


async def test_name_of_an_instance_that_its_new_host_has_stored_does_not_outlive_that_host(
    world: Memory,
) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        await evacuate(service, B)
        world.stored[B] = HostDefinitions(BOOT, left_out={VM: "a"})
        assert await _unstored(service) == {VM}


async def _unstored(service: DirectService) -> frozenset[str]:
    host = await service.hosts.get(A)
    assert host is not None
    return await service.hosts.unstored(host)


async def test_copy_that_was_never_started_goes_when_the_host_is_back(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    mark = await Marks(world).sealed(VM, replace(HERE, pending=True))
    world.host(C).put(replace(world.host(A).here[VM], evacuated=mark))
    world.boot(A)
    async with world.service() as service:
        await _enable(service, A)
    assert await world.where() == [("a", A, "shut off")]


async def test_server_that_was_not_evacuated_is_started_on_its_host_again(world: Memory) -> None:
    await world.add("a", disk="local")
    await world.lose(A)
    world.boot(A)
    async with world.service() as service:
        await _enable(service, A)
        await service.recovery.restart(await named(service, A, "a"))
    assert running(world) == [A]


# -- in place --------------------------------------------------------------------------------------


async def test_crashed_server_is_started_whatever_other_hosts_report(world: Memory) -> None:
    await world.add("a", disk="shared")
    world.host(C).disconnect()
    world.host(A).stop(VM, Stopped.FAILED)
    async with world.service() as service:
        await service.recovery.restart(await named(service, A, "a"))
    assert running(world) == [A]


@pytest.mark.parametrize("how", [None, Stopped.MIGRATED, Stopped.SAVED])
async def test_server_that_may_have_left_is_not_started_while_a_host_is_silent(
    world: Memory, how: Stopped | None
) -> None:
    await world.add("a", disk="shared", runs=how is not None)
    if how is not None:
        world.host(A).stop(VM, how)
    async with world.service() as service:
        server = await named(service, A, "a")
        world.host(C).disconnect()
        with pytest.raises(MayRunElsewhereError, match=f"host {C} does not answer"):
            await service.recovery.restart(server)
        assert running(world) == []
        world.host(C).connect()
        await service.recovery.restart(server)
    assert running(world) == [A]


async def test_server_that_runs_elsewhere_is_not_started(world: Memory) -> None:
    await world.add("a", disk="shared")
    world.host(B).put(world.host(A).here[VM])
    world.host(A).stop(VM, Stopped.FAILED)
    async with world.service() as service:
        with pytest.raises(ComputeConflictError, match=f"runs on host {B}"):
            await service.recovery.restart(await named(service, A, "a"))
    assert running(world) == [B]


async def test_silence_of_a_host_hides_no_other_one_that_runs_the_server(world: Memory) -> None:
    """An unknown state is waited for without a limit; a known state decides at once."""
    await world.add("a", disk="shared")
    for host in (B, C):
        world.host(host).put(world.host(A).here[VM])
    world.host(C).stop(VM, Stopped.MIGRATED)
    world.host(A).disconnect()
    async with world.service() as service:
        with pytest.raises(ComputeConflictError, match=f"runs on host {B}") as caught:
            await service.recovery.restart(await named(service, C, "a"))
    assert not isinstance(caught.value, MayRunElsewhereError)


async def test_hung_server_is_ended_and_started(world: Memory) -> None:
    await world.add("a", disk="shared")
    started = world.host(A).here[VM].id
    async with world.service() as service:
        await service.recovery.restart(await named(service, A, "a"))
    now = world.host(A).here[VM]
    assert (now.state, now.id != started) == (DomainState.RUNNING, True)


async def test_ports_of_a_restarted_server_are_where_it_is() -> None:
    world = Crashing()
    await world.add("a")
    world.host(A).put(replace(world.host(A).here[VM], devices=Devices(ports=(identity("port-a"),))))
    world.ports.bound[identity("port-a")] = (A, B)
    async with world.process(Fuse(10**6)) as service:
        server = await service.moves.server(VM)
        assert server is not None
        await service.recovery.restart(server)
    assert world.ports.bound == {identity("port-a"): (A,)}


async def test_server_that_was_not_persistent_is_there_after_its_restart(world: Memory) -> None:
    await world.add("a", disk="shared")
    world.host(A).create(world.host(A).here[VM])
    async with world.service() as service:
        await service.recovery.restart(await named(service, A, "a"))
    assert running(world) == [A]


async def test_server_of_a_fenced_host_is_not_restarted(world: Memory) -> None:
    await world.add("a", disk="shared")
    await world.lose(A)
    async with world.service() as service:
        with pytest.raises(ComputeConflictError, match="fenced"):
            await service.recovery.restart(await named(service, A, "a"))


# -- never twice -----------------------------------------------------------------------------------

TRUTHS: Final = ("absent", "off", "runs")
SIGHTS: Final = ("answers", "silent", "fenced", "lives in spite of its proof")
HOSTS: Final = list(product(TRUTHS, SIGHTS))


def _arrange(world: Memory, host: str, truth: str, sight: str) -> None:
    there, made = world.host(host), world.host(A).here[VM]
    if truth == "absent":
        there.here.pop(VM, None)
    else:
        runs = truth == "runs" and sight != "fenced"  # what is proven dead runs nothing
        state = DomainState.RUNNING if runs else DomainState.SHUTOFF
        there.put(replace(made, active=runs, state=state, reason=0, id=-1))
    if sight in {"silent", "fenced"}:
        there.disconnect()
    if sight in {"fenced", "lives in spite of its proof"}:
        world.fence(host)


@pytest.mark.parametrize("at_a", HOSTS, ids=str)
async def test_whatever_hosts_are_like_no_server_is_started_twice(at_a: tuple[str, str]) -> None:
    for at_b, at_c in product(HOSTS, HOSTS):
        world = Memory()
        await world.add("a", disk="shared")
        world.store(A)
        for host, (truth, sight) in ((B, at_b), (C, at_c), (A, at_a)):
            _arrange(world, host, truth, sight)
        before = running(world)
        server = Server(VM, "a", A, "ACTIVE")
        async with world.service() as service:
            for begin in (
                service.recovery.evacuate(server, B),
                service.recovery.evacuate(server, C),
                service.recovery.restart(server),
                service.recovery.restart(replace(server, host=B)),
            ):
                with contextlib.suppress(HypercobaltError):
                    await begin
                await _settled(service)
        after = running(world)
        assert set(before) <= set(after), (at_a, at_b, at_c)
        assert len(after) <= max(len(before), 1), (at_a, at_b, at_c)


async def _settled(service: DirectService) -> None:
    async def over() -> bool:
        return all(move.ended for move in await service.moves.moves(A))

    with contextlib.suppress(UnreachableError):  # nothing is evacuated from a host that is silent
        await until(over)


@pytest.mark.parametrize("target", HostView)
@pytest.mark.parametrize("other", HostView)
@pytest.mark.parametrize("source", HostView)
def test_only_a_host_that_answers_starts_what_no_host_may_run(
    source: HostView, other: HostView, target: HostView
) -> None:
    why = why_not({A: source, B: target, C: other}, B)
    not_there = {HostView.ABSENT, HostView.OFF, HostView.FENCED}
    free = {source, other} <= not_there and target in not_there - {HostView.FENCED}
    assert (why == "") is free


async def test_crash_of_the_operator_at_any_call_loses_and_doubles_nothing() -> None:
    for number in range(100):
        world, fuse = Crashing(), Fuse(number)
        await world.add("a")
        made = world.host(A).here[VM]
        world.host(A).put(
            replace(
                made,
                devices=Devices((Disk("vda", path="/shared/vms/a.img"),), (identity("port-a"),)),
            )
        )
        world.ports.bound[identity("port-a")] = (A,)
        await world.lose(A)
        async with world.process(fuse) as first:
            emptying = asyncio.create_task(_empty(first, B))
            blown = asyncio.create_task(fuse.blown.wait())
            await asyncio.wait({emptying, blown}, return_when=asyncio.FIRST_COMPLETED)
            for task in (emptying, blown):
                task.cancel()
            await asyncio.gather(emptying, blown, return_exceptions=True)
        began = running(world)
        async with world.process(Fuse(10**6)) as second:
            await _empty(second, C)
            world.boot(A)
            await _enable(second, A)

        assert running(world) == began or not began, number
        (there,) = [(host, state) for name, host, state in await world.where() if name == "a"]
        assert there[1] == "running", number
        assert world.ports.bound == {identity("port-a"): (there[0],)}, number
        if not fuse.blown.is_set():
            return
    pytest.fail("an evacuation has more than 100 calls")


async def _empty(service: DirectService, target: str) -> None:
    async def is_empty() -> bool:
        servers = await service.moves.servers(A)
        for server in servers:
            if not server.task_state:
                await service.recovery.evacuate(server, target)
        return not servers

    await until(is_empty)
    await _settled(service)
