"""Restarts and evacuations of servers in the simulated Nova, and actions of other users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from tests.contracts.compute import until
from tests.integration.compute.conftest import Adapter
from tests.openstack.client import Session
from tests.simulated_openstack.http import Request
from tests.simulated_openstack.model import Acted
from tests.simulated_openstack.model import Server as SimulatedServer

from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import Host, RestartResult, Server
from hypercobalt.compute.nova.service import Nova

ACTING = "compute POST /servers/{id}/action*"


@contextmanager
def acted(adapter: Adapter) -> Iterator[list[tuple[object, tuple[int, int]]]]:
    """Bodies of the actions that are requested in the block, each with its microversion."""
    made = list[tuple[object, tuple[int, int]]]()
    adapter.simulation.script.after(
        ACTING, lambda request: made.append((request.json(), request.version))
    )
    yield made


def another(adapter: Adapter) -> Nova:
    """The adapter of a further process."""
    adapter.registry = CollectorRegistry()
    return adapter.nova()


async def _host(nova: Nova) -> Host:
    found = await nova.hosts.get("node1", fresh=True)
    assert found is not None
    return found


async def _server(nova: Nova, made: SimulatedServer) -> Server:
    found = await nova.moves.server(made.id)
    assert found is not None
    return found


async def _settled(nova: Nova, made: SimulatedServer) -> Server:
    return await until(lambda: _server(nova, made), lambda now: not now.task_state)


async def _die(adapter: Adapter, nova: Nova) -> None:
    adapter.simulation.world.crash("node1")
    await nova.hosts.force_down(await _host(nova))


def _ago() -> datetime:
    return datetime.now(UTC) - timedelta(minutes=2)


async def test_forcing_down_is_one_call_and_nothing_else_changes(adapter: Adapter) -> None:
    nova, bodies = adapter.nova(), list[object]()
    found = await _host(nova)
    adapter.simulation.script.after("compute *", lambda request: bodies.append(_body(request)))
    await nova.hosts.force_down(found)
    assert bodies == [{"forced_down": True}]


def _body(request: Request) -> object:
    return request.json() if request.content else request.path


async def test_host_that_was_forced_down_a_moment_ago_is_down_in_an_older_listing(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    await nova.hosts.fleet()
    await nova.hosts.force_down(await _host(nova))
    seen = await nova.hosts.get("node1")
    assert seen is not None
    assert (seen.up, seen.forced_down) == (False, True)


@pytest.mark.parametrize(
    ("vm_state", "version", "after"),
    [("active", (2, 94), "ACTIVE"), ("stopped", (2, 95), "SHUTOFF"), ("error", (2, 94), "ACTIVE")],
)
async def test_running_server_runs_elsewhere_and_stopped_server_stays_off(
    adapter: Adapter, vm_state: str, version: tuple[int, int], after: str
) -> None:
    nova = adapter.nova(evacuate_local_disks=True)
    made = adapter.simulation.world.add_server("node1", vm_state=vm_state)
    await _die(adapter, nova)
    with acted(adapter) as actions:
        await nova.recovery.evacuate(await _server(nova, made), "node2")
    assert actions == [({"evacuate": {"host": "node2"}}, version)]
    assert (await _settled(nova, made)).status == after


async def test_paused_server_is_evacuated_and_stays_off(adapter: Adapter) -> None:
    """Nova evacuates none that is paused; its memory is gone, and its owner has halted it."""
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="paused")
    await _die(adapter, nova)
    with acted(adapter) as actions:
        await nova.recovery.evacuate(await _server(nova, made))
    assert actions == [
        ({"os-resetState": {"state": "active"}}, (2, 90)),
        ({"evacuate": {}}, (2, 95)),
    ]
    there = await _settled(nova, made)
    assert (there.host != "node1", there.status) == (True, "SHUTOFF")


async def test_stopped_server_whose_evacuation_has_failed_stays_off_by_the_next_one(
    adapter: Adapter,
) -> None:
    """Its failure leaves it in ERROR, and Nova starts what is in ERROR whatever is requested."""
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="stopped")
    await _die(adapter, nova)
    world.crash("node2")
    world.hosts["node2"].forced_down = True
    await nova.recovery.evacuate(await _server(nova, made), "node2")
    failed = await _settled(nova, made)
    assert (failed.host, failed.status, failed.running) == ("node1", "ERROR", False)
    with acted(adapter) as actions:
        await nova.recovery.evacuate(failed, "node10")
    assert actions == [
        ({"os-resetState": {"state": "active"}}, (2, 90)),
        ({"evacuate": {"host": "node10"}}, (2, 95)),
    ]
    there = await _settled(nova, made)
    assert (there.host, there.status) == ("node10", "SHUTOFF")


async def test_paused_server_that_nova_refuses_to_evacuate_is_not_left_active(
    adapter: Adapter,
) -> None:
    """The next attempt would start it."""
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="paused")
    await _die(adapter, nova)
    server = await _server(nova, made)
    world.hosts["node1"].forced_down = False
    world.restore("node1")
    with acted(adapter) as actions, pytest.raises(RefusedError, match="still in use"):
        await nova.recovery.evacuate(server)
    assert [action for action, _ in actions] == [
        {"os-resetState": {"state": "active"}},
        {"evacuate": {}},
        {"os-resetState": {"state": "error"}},
    ]
    left = await _settled(nova, made)
    assert (left.host, left.status) == ("node1", "ERROR")


async def test_server_that_nova_has_stopped_since_its_guest_died_runs_elsewhere(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="stopped")
    await _die(adapter, nova)
    with acted(adapter) as actions:
        await nova.recovery.evacuate(replace(await _server(nova, made), died=True))
    assert actions == [
        ({"os-resetState": {"state": "active"}}, (2, 90)),
        ({"evacuate": {}}, (2, 94)),
    ]
    there = await _settled(nova, made)
    assert (there.host != "node1", there.status) == (True, "ACTIVE")


async def test_paused_server_whose_evacuation_has_failed_stays_off_by_the_next_one(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="paused")
    await _die(adapter, nova)
    world.crash("node2")
    world.hosts["node2"].forced_down = True
    await nova.recovery.evacuate(await _server(nova, made), "node2")
    failed = await _settled(nova, made)
    assert (failed.host, failed.status) == ("node1", "ERROR")
    await nova.recovery.evacuate(failed, "node10")
    there = await _settled(nova, made)
    assert (there.host, there.status) == ("node10", "SHUTOFF")


async def test_evacuation_that_finds_no_host_leaves_an_error_that_the_next_one_ends(
    adapter: Adapter,
) -> None:
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    made = world.add_server("node1", vm_state="active")
    await _die(adapter, nova)
    for name in ("node2", "node10"):
        world.crash(name)
        world.hosts[name].forced_down = True
    await nova.recovery.evacuate(await _server(nova, made))
    failed = await _settled(nova, made)
    (move,) = await nova.moves.moves("node1")
    assert (failed.status, failed.waits_for_host, move.succeeded) == ("ERROR", "", False)
    assert "valid host" in move.message
    world.restore("node2")
    world.hosts["node2"].forced_down = False
    await nova.recovery.evacuate(failed)
    there = await _settled(nova, made)
    assert (there.host, there.status) == ("node2", "ACTIVE")


async def test_evacuation_that_goes_on_is_not_begun_again(adapter: Adapter) -> None:
    nova = adapter.nova(evacuate_local_disks=True)
    made = adapter.simulation.world.add_server("node1")
    await _die(adapter, nova)
    await nova.recovery.evacuate(await _server(nova, made))
    with pytest.raises(ComputeConflictError, match="rebuilding"):
        await nova.recovery.evacuate(await _server(nova, made))
    await _settled(nova, made)
    assert len(await nova.moves.moves("node1")) == 1


@pytest.mark.parametrize("old", [False, True])
async def test_rebuild_whose_host_has_died_is_begun_again(adapter: Adapter, old: bool) -> None:
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    world.evacuation_needs_no_task = old
    made = world.add_server("node1")
    made.task_state = "rebuild_spawning"
    await _die(adapter, nova)
    shown = await _server(nova, made)
    with pytest.raises(ComputeConflictError, match="rebuild_spawning"):
        await nova.recovery.evacuate(shown)
    await nova.recovery.evacuate(shown, interrupted=True)
    there = await _settled(nova, made)
    assert (there.host != "node1", there.status) == (True, "ACTIVE")


@pytest.mark.parametrize("old", [False, True])
async def test_task_state_at_the_death_of_the_host_does_not_block_the_evacuation(
    adapter: Adapter, old: bool
) -> None:
    nova, world = adapter.nova(evacuate_local_disks=True), adapter.simulation.world
    world.evacuation_needs_no_task = old
    made = world.add_server("node1")
    made.task_state = "rebooting_hard"
    await _die(adapter, nova)
    with acted(adapter) as actions:
        await nova.recovery.evacuate(await _server(nova, made))
    reset = [({"os-resetState": {"state": "active"}}, (2, 90))]
    evacuation: list[object] = [({"evacuate": {}}, (2, 94))]
    assert actions == ([*evacuation, *reset, *evacuation] if old else evacuation)
    assert (await _settled(nova, made)).host != "node1"


async def test_server_whose_disk_would_be_lost_waits_for_its_host(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    made, on_volume = world.add_server("node1"), world.add_server("node1")
    on_volume.image = ""
    await _die(adapter, nova)
    with acted(adapter) as actions, pytest.raises(RefusedError, match="disks") as refused:
        await nova.recovery.evacuate(await _server(nova, made))
    assert (refused.value.reason, actions) == ("WaitsForHost", [])
    await nova.recovery.evacuate(await _server(nova, on_volume))
    assert (await _settled(nova, on_volume)).host != "node1"


@pytest.mark.parametrize(
    ("vm_state", "action"),
    [
        ("stopped", {"os-start": None}),
        ("active", {"reboot": {"type": "HARD"}}),
        ("error", {"reboot": {"type": "HARD"}}),
    ],
)
async def test_restart_starts_stopped_servers_and_hard_reboots_the_others(
    adapter: Adapter, vm_state: str, action: object
) -> None:
    nova = adapter.nova()
    made = adapter.simulation.world.add_server("node1", vm_state=vm_state)
    with acted(adapter) as actions:
        await nova.recovery.restart(await _server(nova, made))
    assert [body for body, _ in actions] == [action]
    assert (await _settled(nova, made)).status == "ACTIVE"


@pytest.mark.parametrize("vm_state", ["stopped", "active"])
async def test_restart_has_succeeded_once_its_host_has_recorded_that(
    adapter: Adapter, vm_state: str
) -> None:
    adapter.simulation.world.pace.short = 0.3
    nova, earlier = adapter.nova(), another(adapter)
    made = adapter.simulation.world.add_server("node1", vm_state=vm_state)
    await earlier.recovery.restart(await _server(earlier, made))
    assert await earlier.recovery.restarted(made.id, _ago()) == RestartResult()
    await _settled(nova, made)
    with reading(adapter) as calls:
        assert await earlier.recovery.restarted(made.id, _ago()) == RestartResult(succeeded=True)
    assert calls == [1], "by the id of its request"
    with reading(adapter) as calls:
        assert await nova.recovery.restarted(made.id, _ago()) == RestartResult(succeeded=True)
    assert calls == [2], "a process that has not requested it lists the requests"


@contextmanager
def reading(adapter: Adapter) -> Iterator[list[int]]:
    """Number of the calls in the block, once it is over."""
    made, before = list[int](), adapter.simulation.script.count("compute GET *")
    yield made
    made.append(adapter.simulation.script.count("compute GET *") - before)


async def test_reboot_that_fails_on_the_host_has_failed_though_the_server_is_active(
    adapter: Adapter,
) -> None:
    """As seen of Nova 34 while Cinder did not answer."""
    nova, later = adapter.nova(), another(adapter)
    made = adapter.simulation.world.add_server("node1")
    made.reboot_fails = "Cinder does not answer"
    await nova.recovery.restart(await _server(nova, made))
    seen = await _settled(nova, made)
    assert (seen.status, seen.running) == ("ACTIVE", True)
    failed = RestartResult(failed="Cinder does not answer")
    assert await nova.recovery.restarted(made.id, _ago()) == failed
    assert await later.recovery.restarted(made.id, _ago()) == failed
    made.acted[-1].failure, made.acted[-1].ended = " ", datetime.now(UTC)
    assert (await nova.recovery.restarted(made.id, _ago())).failed == "Nova gives no reason"


async def test_restart_without_a_record_has_failed(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    made = world.add_server("node1")
    world.power_sync(made)
    none = RestartResult(failed="Nova has no record of the request")
    assert await nova.recovery.restarted(made.id, _ago()) == none
    await nova.recovery.restart(await _server(nova, made))
    await _settled(nova, made)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert await another(adapter).recovery.restarted(made.id, soon) == none
    assert await nova.recovery.restarted("no-such-server", _ago()) == none


async def test_answer_without_the_id_of_the_request_is_looked_up_in_the_list(
    adapter: Adapter,
) -> None:
    nova = adapter.nova()
    made = adapter.simulation.world.add_server("node1", vm_state="stopped")
    await nova.recovery.restart(await _server(nova, made))
    made.acted[-1].id = f"req-{made.id}"
    await _settled(nova, made)
    assert await nova.recovery.restarted(made.id, _ago()) == RestartResult(succeeded=True)


async def test_requests_of_owners_that_have_failed_are_marked(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    made = world.add_server("node1")
    made.acted.append(Acted("reboot", "owner", "project", failure="no Cinder"))
    (found,) = await nova.owners.actions(made.id, _ago())
    assert (found.name, found.failed) == ("reboot", True)


async def test_stop_by_a_user_and_stop_after_a_crash_are_distinguished(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    stopped, crashed = world.add_server("node1"), world.add_server("node1")
    stopped.project = crashed.project = next(
        project.id for project in world.projects.values() if project.name == "test"
    )
    begun = _ago()
    async with Session(adapter.simulation.cloud.tester) as tester:
        path = f"/servers/{stopped.id}/action"
        (await tester("compute", "POST", path, {"os-stop": None}, version="2.90")).ok()
    world.power_sync(crashed)

    (theirs,) = await nova.owners.actions(stopped.id, begun)
    (novas,) = await nova.owners.actions(crashed.id, begun)

    assert (theirs.name, theirs.by_service, theirs.project) == ("stop", False, stopped.project)
    assert (novas.name, novas.by_service) == ("stop", True)
    assert await nova.owners.actions(stopped.id, datetime.now(UTC) + timedelta(minutes=1)) == ()


async def test_actions_are_given_newest_first_without_the_operators_own(adapter: Adapter) -> None:
    nova, world = adapter.nova(), adapter.simulation.world
    made = world.add_server("node1")
    world.power_sync(made)
    await nova.recovery.restart(await _server(nova, made))
    await _settled(nova, made)
    world.power_sync(made)
    seen = await nova.owners.actions(made.id, _ago())
    assert [one.name for one in seen] == ["stop", "stop"]
    assert seen[0].started > seen[1].started


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"nova-scheduler": {"ctl-1": "down"}}, "no nova-scheduler is up (ctl-1)"),
        ({"nova-conductor": {"b": "down", "a": "down"}}, "no nova-conductor is up (a, b)"),
        ({"nova-scheduler": {"ctl-1": "down", "ctl-2": "up"}}, ""),
        ({}, ""),
    ],
    ids=["scheduler", "conductors", "one of two", "none is shown"],
)
async def test_nova_without_scheduler_or_conductor_starts_no_server(
    adapter: Adapter, parts: dict[str, dict[str, str]], text: str
) -> None:
    adapter.simulation.world.parts = parts
    found = await adapter.nova().hosts.hindrance()
    assert found == (f"{text}: Nova cannot start servers" if text else "")
