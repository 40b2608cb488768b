"""Calls to OpenStack: which, by whom, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.contracts.compute import until
from tests.integration.compute.conftest import Adapter
from tests.simulated_openstack.http import Request
from tests.simulated_openstack.model import Aggregate, Group, Migration
from tests.simulated_openstack.script import Fault, Script
from tests.simulated_openstack.world import World

from hypercobalt.compute.errors import ComputeError, RefusedError, UnreachableError
from hypercobalt.compute.model import Host, Server, ServerGroup
from hypercobalt.compute.nova.hosts import FEW, HOSTS_A_SECOND
from hypercobalt.compute.nova.service import Nova
from hypercobalt.compute.nova.settings import NO_NETWORK, SmokeSettings
from hypercobalt.operator.lifecycle.traits import MOST

LISTING = "compute GET /os-hypervisors/detail"


@contextmanager
def counted(script: Script) -> Iterator[dict[str, int]]:
    """How often each kind of call is made in the block."""
    before, made = dict(script.calls), dict[str, int]()
    yield made
    made |= {k: n - before.get(k, 0) for k, n in script.calls.items() if n != before.get(k, 0)}


async def host(nova: Nova, name: str = "node1") -> Host:
    found = await nova.hosts.get(name, fresh=True)
    assert found is not None
    return found


async def test_a_single_read_is_of_its_own_host(adapter: Adapter) -> None:
    nova, requested = adapter.nova(), list[str]()
    adapter.simulation.script.after(
        LISTING, lambda r: requested.append(r.query.get("hypervisor_hostname_pattern", "(all)"))
    )
    await nova.hosts.get("node1.zone.example")
    assert requested == ["node1"]


async def test_a_thousand_reads_at_once_share_one_listing(adapter: Adapter) -> None:
    nova = adapter.nova()
    for number in range(1000):
        adapter.simulation.world.add_host(f"host{number}")
    await host(nova)
    with counted(adapter.simulation.script) as made:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(nova.hosts.get(f"host{n}")) for n in range(1000)]
    found = [one.name if (one := task.result()) else "" for task in tasks]
    assert found == [f"host{number}" for number in range(1000)]
    assert made[LISTING] <= FEW + 2  # the fleet has a host more than fits on a page


async def crowd(nova: Nova) -> None:
    """Run so many passes that a listing of the fleet is shared by those of the next two seconds."""
    async with asyncio.TaskGroup() as group:
        for _ in range(FEW + 1):
            group.create_task(nova.hosts.get("node1"))


async def test_host_that_registers_after_a_shared_listing_is_found_at_once(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    await crowd(nova)
    adapter.simulation.world.add_host("newcomer")
    found = await nova.hosts.get("newcomer")
    assert found is not None
    assert found.name == "newcomer"


async def test_a_thousand_newcomers_after_a_shared_listing_are_few_listings(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    await crowd(nova)
    for number in range(997):  # with the three that are there, as many as fit on a page
        adapter.simulation.world.add_host(f"host{number}")
    with counted(adapter.simulation.script) as made:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(nova.hosts.get(f"host{n}")) for n in range(997)]
    assert all(task.result() is not None for task in tasks)
    assert made[LISTING] <= 2


async def test_host_that_no_listing_has_is_read_once_for_all_waiters(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    await crowd(nova)
    with counted(adapter.simulation.script) as made:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(nova.hosts.get(f"absent{n}")) for n in range(1000)]
    assert [task.result() for task in tasks] == [None] * 1000
    assert made[LISTING] <= 2


async def test_listing_of_a_large_fleet_is_shared_for_longer(adapter: Adapter) -> None:
    nova = adapter.nova()
    for number in range(6 * HOSTS_A_SECOND):
        adapter.simulation.world.add_host(f"host{number}")
    await crowd(nova)
    with counted(adapter.simulation.script) as made:
        adapter.clock.ahead = 2.1
        await crowd(nova)
    assert not made
    with counted(adapter.simulation.script) as made:
        adapter.clock.ahead = 60
        await crowd(nova)
    assert made[LISTING]


async def test_capacity_of_a_host_that_registers_after_a_shared_listing_is_found(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    world.add_server("node1")
    (server,) = await nova.moves.servers("node1")
    await crowd(nova)
    world.add_host("newcomer")
    assert "newcomer" in {room.host for room in await nova.moves.candidates(server)}


async def test_a_fresh_read_bypasses_the_shared_listing(adapter: Adapter) -> None:
    nova = adapter.nova()
    async with asyncio.TaskGroup() as group:
        for _ in range(FEW + 1):
            group.create_task(nova.hosts.get("node1"))
    adapter.simulation.world.hosts["node1"].enabled = False
    stale = await nova.hosts.get("node1")
    assert stale is not None
    assert stale.enabled
    assert not (await host(nova)).enabled


async def test_changes_by_this_process_are_seen_at_once(adapter: Adapter) -> None:
    nova = adapter.nova()
    async with asyncio.TaskGroup() as group:
        for _ in range(FEW + 1):
            group.create_task(nova.hosts.get("node1"))
    await nova.hosts.disable(await host(nova), "test")
    seen = await nova.hosts.get("node1")
    assert seen is not None
    assert not seen.enabled


async def test_own_changes_of_aggregates_are_laid_over_a_listing(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    for id_, name in enumerate(("one", "other"), start=1):
        world.aggregates[id_] = Aggregate(id_, f"uuid-{id_}", name)
    one, other = await nova.aggregates.list()

    async def members(*, fresh: bool = False) -> list[set[str]]:
        return [set(found.hosts) for found in await nova.aggregates.list(fresh=fresh)]

    with counted(adapter.simulation.script) as made:
        await nova.aggregates.add(one, "node1")
        await nova.aggregates.add(one, "node2")
        assert await members() == [{"node1", "node2"}, set()]
        await nova.aggregates.remove(one, "node1")
        await nova.aggregates.add(other, "node1")
        assert await members() == [{"node2"}, {"node1"}]
    assert "compute GET /os-aggregates" not in made
    world.aggregates[2].hosts.pop("node1")  # another client
    assert await members(fresh=True) == [{"node2"}, set()]
    assert await members() == [{"node2"}, set()]


async def test_bodies_are_those_of_the_existing_operator(adapter: Adapter) -> None:
    nova, bodies = adapter.nova(), list[object]()
    world, script = adapter.simulation.world, adapter.simulation.script

    def note(request: Request) -> None:
        bodies.append(request.json())

    script.after("compute PUT *", note)
    script.after("compute POST *", note)
    on_volume = world.add_server("node1")
    on_volume.image = ""
    local = world.add_server("node1", shared=False)
    stopped = world.add_server("node1", vm_state="stopped")
    found = await host(nova)
    await nova.hosts.disable(found, "Hypervisor CRD: spec.maintenance=manual")
    await nova.hosts.enable(found)
    servers = {server.id: server for server in await nova.moves.servers("node1")}
    await nova.moves.live_migrate(replace(servers[on_volume.id], local_disk=False))
    await nova.moves.live_migrate(servers[local.id])
    await nova.moves.cold_migrate(servers[stopped.id])
    assert bodies == [
        {"status": "disabled", "disabled_reason": "Hypervisor CRD: spec.maintenance=manual"},
        {"status": "enabled", "forced_down": False},
        {"os-migrateLive": {"host": None, "block_migration": False}},
        {"os-migrateLive": {"host": None, "block_migration": "auto"}},
        {"migrate": None},
    ]


async def test_a_pass_of_an_eviction_makes_two_calls_for_any_number_of_servers(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    for _ in range(50):
        world.add_server("node1")
    await nova.moves.servers("node1")  # versions, and the groups that passes share
    with counted(adapter.simulation.script) as made:
        assert len(await nova.moves.servers("node1")) == 50
        await nova.moves.moves("node1")
    assert made == {"compute GET /servers/detail": 1, "compute GET /os-migrations": 1}


IN, OUT = ("node2", "node1"), ("node1", "node2")


@pytest.mark.parametrize(
    ("kind", "status", "way", "task"),
    [
        pytest.param("live-migration", "preparing", IN, "migrating", id="live"),
        pytest.param("resize", "migrating", IN, "resize_migrating", id="cold"),
        pytest.param("resize", "reverting", OUT, "resize_reverting", id="it comes back"),
    ],
)
async def test_moves_that_may_bring_a_server_are_incoming(
    adapter: Adapter, kind: str, status: str, way: tuple[str, str], task: str
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    server = world.add_server("node2")
    server.task_state = task
    world.migrations[1] = Migration(1, str(uuid4()), server, kind, status, *way)
    (move,) = await nova.moves.incoming("node1")
    assert (move.server, move.kind, move.status) == (server.id, kind, status)
    del world.servers[server.id]  # what Nova has no longer arrives nowhere
    assert await nova.moves.incoming("node1") == ()


@pytest.mark.parametrize(
    ("kind", "status", "way", "task"),
    [
        pytest.param("resize", "reverting", IN, "resize_reverting", id="it goes back"),
        pytest.param("live-migration", "running", OUT, "migrating", id="it leaves"),
        pytest.param("live-migration", "running", IN, "", id="the record was left behind"),
        pytest.param("live-migration", "error", IN, "", id="it has ended"),
    ],
)
async def test_moves_that_bring_no_server_are_not_incoming(
    adapter: Adapter, kind: str, status: str, way: tuple[str, str], task: str
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    server = world.add_server("node2")
    server.task_state = task
    world.migrations[1] = Migration(1, str(uuid4()), server, kind, status, *way)
    assert await nova.moves.incoming("node1") == ()


async def test_servers_of_one_size_share_one_placement_query(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    for _ in range(20):
        world.add_server("node1")
    servers = await nova.moves.servers("node1")
    await nova.moves.candidates(servers[0])
    with counted(adapter.simulation.script) as made:
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(nova.moves.candidates(server))
    assert sum(made.values()) <= 2


async def test_a_listing_of_many_servers_is_read_page_by_page(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    ids = {world.add_server("node1").id for _ in range(1001)}
    with counted(adapter.simulation.script) as made:
        assert {server.id for server in await nova.moves.servers("node1")} == ids
    assert made["compute GET /servers/detail"] == 2


async def onboard(nova: Nova, name: str) -> None:
    """Onboard as the operator does: ids, test aggregates, enable, traits, aggregates."""

    async def into(*names: str) -> None:
        known = await nova.aggregates.list()
        for one in known:
            if one.name in names and name not in one.hosts:
                await nova.aggregates.add(one, name)
            elif one.name not in names and name in one.hosts:
                await nova.aggregates.remove(one, name)

    found = await nova.hosts.get(name)
    assert found is not None
    await into("zone", "tests")
    await nova.hosts.enable(found)
    seen = await nova.hosts.get(name)
    assert seen is not None
    assert seen.enabled
    traits = await nova.traits.get(found.hypervisor_id)
    assert traits is not None
    wanted = replace(traits, names=(*traits.names, "CUSTOM_X"))
    await nova.traits.put(found.hypervisor_id, wanted)
    await into("zone")


async def test_onboarding_takes_seven_calls_a_host_at_most(adapter: Adapter) -> None:
    nova, world, count = adapter.nova(), adapter.simulation.world, 100
    for id_, name in enumerate(("zone", "tests"), start=1):
        world.aggregates[id_] = Aggregate(id_, f"uuid-{id_}", name)
    for number in range(count):
        world.add_host(f"host{number}", enabled=False)
    world.custom_traits.add("CUSTOM_X")
    queue = iter(range(count))

    async def work() -> None:
        for number in queue:
            await onboard(nova, f"host{number}")

    with counted(adapter.simulation.script) as made:
        async with asyncio.TaskGroup() as group:
            for _ in range(8):  # as many passes as a controller makes at once
                group.create_task(work())
    assert sum(made.values()) <= 7 * count, made
    assert len(world.aggregates[1].hosts) == count
    assert not world.aggregates[2].hosts


async def test_new_traits_of_one_host_fill_placement_no_faster_than_one_an_hour(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world

    async def put(name: str, *names: str) -> tuple[str, ...]:
        provider = (await host(nova, name)).hypervisor_id
        there = await nova.traits.get(provider, fresh=True)
        assert there is not None
        return (await nova.traits.put(provider, replace(there, names=names))).names

    first = [f"CUSTOM_{number}" for number in range(MOST)]
    assert set(await put("node1", *first)) == set(first)
    with pytest.raises(
        RefusedError, match=r"lacks CUSTOM_256 and 255 more.*openstack trait create"
    ):
        await put("node1", *(f"CUSTOM_{MOST + number}" for number in range(MOST)))
    assert len(world.custom_traits) == MOST
    world.custom_traits.add("CUSTOM_BY_A_PERSON")
    assert await put("node1", "CUSTOM_BY_A_PERSON", "CUSTOM_1") == (
        "CUSTOM_1",
        "CUSTOM_BY_A_PERSON",
    )
    assert await put("node2", "CUSTOM_OF_ANOTHER") == ("CUSTOM_OF_ANOTHER",)
    with pytest.raises(RefusedError, match="lacks CUSTOM_LATER, and"):
        await put("node1", "CUSTOM_LATER")
    adapter.clock.ahead += 3600
    assert await put("node1", "CUSTOM_LATER") == ("CUSTOM_LATER",)
    with pytest.raises(RefusedError, match="lacks CUSTOM_LAST, and"):
        await put("node1", "CUSTOM_LAST")


async def test_trait_that_another_pass_makes_meanwhile_is_set_all_the_same(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    traits = await nova.traits.get(found.hypervisor_id)
    assert traits is not None
    adapter.simulation.script.before(
        "placement GET /traits", lambda _: world.custom_traits.add("CUSTOM_X")
    )
    after = await nova.traits.put(found.hypervisor_id, replace(traits, names=("CUSTOM_X",)))
    assert after.names == ("CUSTOM_X",)


async def test_groups_are_reported_with_their_other_members(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    project, user = next(iter(world.projects)), next(iter(world.users))
    group = "40c0d4d0"
    world.groups[group] = Group(group, "apart", "anti-affinity", project, user)
    one, other = (world.add_server("node1", group=group) for _ in range(2))
    found = {server.id: server for server in await nova.moves.servers("node1")}
    assert found[one.id].group == ServerGroup("anti-affinity", (other.id,))


async def test_server_newer_than_the_cached_groups_is_reported_with_its_group(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    project, user = next(iter(world.projects)), next(iter(world.users))
    world.groups["apart"] = Group("apart", "apart", "anti-affinity", project, user)
    first = world.add_server("node1", group="apart")
    await nova.moves.servers("node1")
    second = world.add_server("node1", group="apart")
    found = {server.id: server for server in await nova.moves.servers("node1")}
    assert found[first.id].group == ServerGroup("anti-affinity", (second.id,))
    assert found[second.id].group == ServerGroup("anti-affinity", (first.id,))
    one = await nova.moves.server(world.add_server("node1", group="apart").id)
    assert one is not None
    assert one.group == ServerGroup("anti-affinity", (first.id, second.id))


async def test_groups_are_listed_once_for_servers_that_are_in_none(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    world.add_server("node1"), world.add_server("node2")
    for host_name in ("node1", "node2"):
        await nova.moves.servers(host_name)
    with counted(adapter.simulation.script) as made:
        for host_name in ("node1", "node2", "node1"):
            await nova.moves.servers(host_name)
    assert "compute GET /os-server-groups" not in made


async def test_a_long_migration_shows_how_far_it_is(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    server = world.add_server("node1")
    record = world.new_migration(server, "live-migration", "node2", "running")
    record.total, record.remaining = 1000, 400
    (young,) = await nova.moves.moves("node1")
    assert (young.total, young.remaining) == (0, 0)
    record.created = record.created.replace(year=2020)
    (old,) = await nova.moves.moves("node1")
    assert (old.total, old.remaining) == (1000, 400)


async def test_a_migration_shows_how_far_its_disks_are(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    server = world.add_server("node1", shared=False)
    record = world.new_migration(server, "live-migration", "node2", "running")
    record.created = record.created.replace(year=2020)
    record.total, record.remaining, record.disk_remaining = 0, 0, 700
    (found,) = await nova.moves.moves("node1")
    assert (found.remaining, found.disk_remaining) == (0, 700)


async def test_server_with_a_gpu_is_moved_live_where_nova_can(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    specs = {"resources:VGPU": "1"}
    world.flavors["gpu"] = replace(next(iter(world.flavors.values())), id="gpu", extra_specs=specs)
    can, cannot = (world.add_server("node1", flavor="gpu") for _ in range(2))
    cannot.move_fails = "mdevs cannot be migrated"
    for server in (can, cannot):
        found = await shown(nova, server.id)
        assert found.hindrance == ""
        await nova.moves.live_migrate(found, "node2")
    await until(lambda: shown(nova, can.id), lambda one: one.host == "node2" and not one.task_state)
    left = await until(lambda: shown(nova, cannot.id), lambda one: not one.task_state)
    assert (left.host, left.status, left.running) == ("node1", "ACTIVE", True)


async def test_a_paused_server_that_its_move_leaves_in_error_is_paused_again(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    world.failures_break = True
    server = world.add_server("node1", vm_state="paused")
    server.move_fails = "no route"
    await nova.moves.live_migrate(await shown(nova, server.id), "node2")
    await until(lambda: shown(nova, server.id), lambda one: one.status == "ERROR")
    with counted(adapter.simulation.script) as made:
        (found,) = await nova.moves.in_error({server.id, "of nobody"})
    assert (found.id, found.status, sum(made.values())) == (server.id, "ERROR", 1)
    assert await nova.moves.in_error({"of nobody"}) == ()
    broken = await shown(nova, server.id)
    assert (broken.running, broken.paused) == (False, True)

    adapter.simulation.script.add(
        Fault("compute POST /servers/{id}/action pause", code=503, times=1)
    )
    with pytest.raises(UnreachableError):
        await nova.recovery.recover(broken)
    half = await shown(nova, server.id)
    assert (half.status, half.paused) == ("ACTIVE", True)

    await nova.recovery.recover(half)
    await until(lambda: shown(nova, server.id), lambda one: one.status == "PAUSED")
    done = await shown(nova, server.id)
    assert (done.task_state, done.paused) == ("", True)
    assert adapter.simulation.script.count("compute POST /servers/{id}/action os-resetState") == 1


async def shown(nova: Nova, id_: str) -> Server:
    found = await nova.moves.server(id_)
    assert found is not None
    return found


def found_provider(world: World, host: Host) -> bool:
    known = world.by_id.get(host.hypervisor_id)
    return known is not None and known.provider


async def forget(nova: Nova, host: Host) -> None:
    """Delete the service and the provider as offboarding does."""
    await nova.hosts.remove(host)
    if await nova.providers.exists(host):
        await nova.providers.remove(host)


OTHER_WORDS = [
    pytest.param(409, b"<html>not JSON</html>", id="409, not JSON"),
    pytest.param(409, b'{"detail": "resource provider unknown"}', id="409, other words"),
    pytest.param(400, b"gone", id="400"),
]


@pytest.mark.parametrize(("code", "body"), OTHER_WORDS)
@pytest.mark.parametrize(
    "calls",
    [
        "placement GET /resource_providers/{id}",
        "placement GET /resource_providers/{id}/allocations",
        "placement DELETE /resource_providers/{id}",
    ],
)
async def test_absent_provider_counts_as_removed_whatever_the_error_says(
    adapter: Adapter, calls: str, code: int, body: bytes
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    adapter.simulation.script.add(Fault(calls, code=code, body=body))
    looks = calls == "placement GET /resource_providers/{id}"
    with pytest.raises(ComputeError):  # it is there: that is reported
        await (nova.providers.exists(found) if looks else nova.providers.remove(found))
    world.by_id[found.hypervisor_id].provider = False
    assert not await nova.providers.exists(found)
    await nova.providers.remove(found)


@pytest.mark.parametrize(("code", "body"), OTHER_WORDS[:2])
async def test_absent_service_counts_as_removed_whatever_the_error_says(
    adapter: Adapter, code: int, body: bytes
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    adapter.simulation.script.add(Fault("compute DELETE /os-services/{id}", code=code, body=body))
    with pytest.raises(ComputeError):
        await nova.hosts.remove(found)
    world.by_service[found.service_id].service = False
    await nova.hosts.remove(found)


async def test_provider_is_a_hosts_leftover_by_its_name_alone(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    known = world.by_id[found.hypervisor_id]
    own = known.hostname
    assert await nova.providers.left_over(own, found.hypervisor_id) is None, "Nova lists the host"
    await nova.hosts.remove(found)
    known.provider = True
    left = await nova.providers.left_over(own, found.hypervisor_id)
    assert left is not None
    assert (left.hypervisor_id, left.service_id) == (found.hypervisor_id, "")
    for name in ("node2", f"{own}0", "x"):
        assert await nova.providers.left_over(name, found.hypervisor_id) is None, name
    for id_ in ("", "../os-services/1", found.hypervisor_id.upper(), found.service_id):
        assert await nova.providers.left_over(own, id_) is None, id_


async def test_an_empty_host_is_forgotten(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    await forget(nova, found)
    assert await nova.hosts.get("node1", fresh=True) is None
    assert not found_provider(world, found)
    await forget(nova, found)  # again, after a crash


async def test_a_host_whose_provider_is_gone_is_deleted_without_requesting_another(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    found = await host(nova)
    world.by_id[found.hypervisor_id].provider = False
    with counted(adapter.simulation.script) as made:
        await forget(nova, found)
    assert await nova.hosts.get("node1", fresh=True) is None
    requested = {
        kind: number for kind, number in made.items() if kind.startswith("placement GET /")
    }
    assert requested == {"placement GET /resource_providers/{id}": 1}


async def test_a_host_with_servers_is_not_forgotten(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    world.add_server("node1")
    with pytest.raises(RefusedError, match="delete the compute service of host node1"):
        await nova.hosts.remove(await host(nova))
    assert await nova.hosts.get("node1", fresh=True) is not None


async def test_test_servers_are_of_the_project_for_tests(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    bodies = list[object]()
    adapter.simulation.script.after("compute POST /servers", lambda r: bodies.append(r.json()))
    made = await nova.smoke_tests.create("ohooc--node1-uid", "node1", "nova")
    project = world.projects[world.servers[made.id].project]
    assert (project.name, project.domain) == ("test", "cc3test")
    (body,) = bodies
    assert isinstance(body, dict)
    server = body["server"]
    assert (server["availability_zone"], server["flavorRef"]) == ("nova:node1", "1")
    (volume,) = server["block_device_mapping_v2"]
    assert {k: volume[k] for k in volume if k != "uuid"} == {
        "source_type": "image",
        "destination_type": "volume",
        "boot_index": 0,
        "delete_on_termination": True,
        "disk_bus": "virtio",
        "volume_size": 64,
        "volume_type": "premium",
    }


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (SmokeSettings(image="no-such"), "no image 'no-such'"),
        (SmokeSettings(network="no-such"), "no network 'no-such'"),
        (SmokeSettings(flavor="no-such", network=NO_NETWORK), "no-such"),
    ],
)
async def test_resource_that_a_test_server_lacks_is_named(
    adapter: Adapter, settings: SmokeSettings, missing: str
) -> None:
    nova = adapter.nova(smoke=settings)
    with pytest.raises(RefusedError, match=missing):
        await nova.smoke_tests.create("ohooc--node1-uid", "node1", "nova")


async def test_test_servers_of_an_application_credential_are_in_its_project(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credential is bound to one project, so that of `--test-project` cannot be had."""
    world, account = adapter.simulation.world, adapter.simulation.admin
    (admin,) = (user for user in world.users.values() if user.name == account.user)
    (project,) = (one for one in world.projects.values() if one.name == account.project)
    world.application_credentials["id-1", "secret-1"] = (admin, project)
    for name in ("USERNAME", "PASSWORD", "PROJECT_NAME", "USER_DOMAIN_ID", "PROJECT_DOMAIN_ID"):
        monkeypatch.delenv(f"OS_{name}")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_ID", "id-1")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", "secret-1")
    monkeypatch.setenv("OS_AUTH_TYPE", "v3applicationcredential")
    nova = adapter.nova(smoke=SmokeSettings(network=NO_NETWORK))
    made = await nova.smoke_tests.create("ohooc--node1-uid", "node1", "nova")
    assert world.servers[made.id].project == project.id
    assert [one.id for one in await nova.smoke_tests.find("ohooc--node1-uid")] == [made.id]
    await nova.smoke_tests.delete(made)
    await until(lambda: nova.smoke_tests.find("ohooc--node1-uid"), lambda left: not left)
