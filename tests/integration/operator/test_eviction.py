"""Evictions on a real API server, with a compute service in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.integration.operator.eviction_world import (
    HUGE,
    add_eviction_of,
    add_hypervisor,
    evicting,
    fence,
    state,
    until_ended,
    until_it,
    words,
    world,
)
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.coordination import Event
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import (
    ORIGIN,
    SERVER,
    Migration,
    MigrationSpec,
    MigrationStatus,
)
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import ServerAction, Size
from hypercobalt.operator.eviction import observe
from hypercobalt.operator.eviction.model.policy import Doubt, Policy
from hypercobalt.operator.eviction.model.tracks import Job, Left
from hypercobalt.operator.eviction.observing.migrations import Migrations
from hypercobalt.operator.eviction.planning import cancel, polling, settled
from hypercobalt.runtime import Change, Kube, Metrics, SystemClock

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

QUICK = Policy(
    stall=timedelta(seconds=0.5),
    retry_after=timedelta(milliseconds=50),
    settle=timedelta(milliseconds=100),
    unsure=timedelta(seconds=1),
)


def moving(eviction: Eviction) -> int:
    return sum(entry.phase == "Migrating" for entry in eviction.status.instances)


async def test_instances_leave_in_parallel(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = world(name)
    for server in compute.fill(12):
        compute.moves.script(server.id, Script(seconds=0.4))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute) as running:
        await add_eviction_of(kube, name, parallelism=4)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert "eviction completed successfully" in words(done)
    assert state(done, "PreflightChecksSucceeded") == "True/Succeeded"
    assert not compute.moves.on(name)
    assert compute.moves.most_at_once == 4
    assert set(compute.moves.started.values()) == {1}
    assert done.status.progress is not None
    assert (done.status.progress.total, done.status.progress.done) == (12, 12)
    assert running.writes < 20


async def test_nothing_moves_before_the_host_is_disabled(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.fill(2)
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waiting = await until_it(
            kube, name, lambda e: state(e, "PreflightChecksSucceeded") == "False/Failed"
        )
        assert "hypervisor not disabled" in words(waiting, "PreflightChecksSucceeded")
        assert state(waiting) == "True/Running"
        assert not compute.moves.started


async def test_evictions_of_many_instances_and_hosts_run_side_by_side(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 1: one at a time, one worker for all Evictions, ten seconds between steps."""
    compute = world(name)
    compute.also(f"{name}-b", f"{name}-c")
    for host in compute.names:
        compute.moves.hosts[host] = HUGE
        compute.moves.disabled.add(host)
        for server in compute.fill(5, on=host):
            compute.moves.script(server.id, Script(seconds=1))
        await add_hypervisor(kube, host)
        await add_eviction_of(kube, host, parallelism=5)
    async with evicting(kubeconfig, compute):
        for host in compute.names:
            assert state(await until_ended(kube, host)) == "False/Succeeded"
    assert compute.moves.most_at_once == 15


async def test_no_more_moves_are_under_way_than_the_cluster_may_have(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.also(f"{name}-b", f"{name}-c")
    for host in compute.names:
        compute.moves.hosts[host] = HUGE
        compute.moves.disabled.add(host)
        for server in compute.fill(4, on=host):
            compute.moves.script(server.id, Script(seconds=0.3))
        await add_hypervisor(kube, host)
        await add_eviction_of(kube, host, parallelism=4)
    async with evicting(kubeconfig, compute, replace(QUICK, per_cluster=5)):
        for host in compute.names:
            assert state(await until_ended(kube, host)) == "False/Succeeded"
    assert compute.moves.most_at_once == 5


async def test_an_instance_that_is_refused_does_not_hold_up_the_others(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 2: a refused call kept the queue at the same instance for ever."""
    compute = world(name)
    good, refused, late = compute.fill(3)
    for server in (good, late):
        compute.moves.script(server.id, Script(seconds=0.2))
    compute.moves.script(refused.id, Script(refusals=-1, why="No valid host was found"))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name, parallelism=1)
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    assert state(done, "MigratingInstance") == "False/Failed"
    assert "No valid host was found; given up after 3 attempts" in words(done)
    assert [server.id for server in compute.moves.on(name)] == [refused.id]
    assert done.status.outstandingInstances == (refused.id,)
    assert done.status.progress is not None
    assert (done.status.progress.done, done.status.progress.failed) == (2, 1)


async def test_a_node_name_with_a_domain_finds_its_host_by_the_first_label(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 6: every instance looked as if it had left already."""
    compute = world(f"{name}.example.com", host=name)
    for server in compute.fill(2):
        compute.moves.script(server.id, Script(seconds=0.2))
    await add_hypervisor(kube, compute.name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, compute.name)
        done = await until_ended(kube, compute.name)
    assert state(done) == "False/Succeeded"
    assert not compute.moves.on(name)
    assert len(compute.moves.started) == 2


async def test_an_instance_in_error_ends_the_eviction_as_failed_and_names_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 7: no preflight and no end while one instance is in ERROR."""
    compute = world(name)
    good, broken = compute.fill(2)
    compute.moves.script(good.id, Script(seconds=0.2))
    compute.moves.change(broken.id, status="ERROR", fault="disk lost")
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    assert broken.id in words(done)
    assert "disk lost" in words(done)
    checks = {check.name: check.result for check in done.status.checks}
    assert checks == {
        "HostUp": "Passed",
        "HostDisabled": "Passed",
        "ServerGroupsListed": "Passed",
        "Instances": "Warning",
        "TargetCapacity": "Passed",
        "ServerGroups": "Passed",
    }


async def test_a_site_may_have_nothing_moved_while_preflight_is_in_doubt(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 7: the other policy."""
    compute = world(name)
    good, pinned = compute.fill(2)
    compute.moves.script(good.id, Script(seconds=0.2))
    compute.moves.change(pinned.id, hindrance="a pinned GPU")
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, doubt=Doubt.STOP)):
        await add_eviction_of(kube, name)
        waiting = await until_it(kube, name, lambda e: bool(e.status.checks))
    assert state(waiting, "PreflightChecksSucceeded") == "False/Failed"
    assert "a pinned GPU" in words(waiting, "PreflightChecksSucceeded")
    assert not compute.moves.started


async def test_instances_that_come_or_come_back_meanwhile_leave_too(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 8: the list was read once, and the end not checked."""
    compute = world(name)
    (first,) = compute.fill(1)
    compute.moves.script(first.id, Script(seconds=1.0))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 1)
        (late,) = compute.fill(1)
        compute.moves.script(late.id, Script(seconds=0.2))
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert not compute.moves.on(name)
    assert done.status.progress is not None
    assert done.status.progress.total == 2


async def test_the_end_waits_for_what_only_the_hosts_count_has(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 8: completion was judged by our own list."""
    compute = world(name)
    compute.counted = {"a-server-being-built"}
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: state(e, "PreflightChecksSucceeded").startswith("T"))
        before = compute.fresh_reads
        await eventually(lambda: compute.fresh_reads > before)
        running = await kube.get(Eviction, name)
        assert running is not None
        assert state(running) == "True/Running"
        compute.counted = set()
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_a_host_that_is_unknown_for_a_moment_is_neither_empty_nor_lost(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "_HOST_AGE", 0.0)
    monkeypatch.setattr(settled, "AWAY", timedelta(milliseconds=50))
    compute = world(name)
    (server,) = compute.fill(1, status="SHUTOFF")
    compute.moves.script(server.id, Script(seconds=0.5))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 1)
        compute.unknown = True
        waiting = await until_it(kube, name, lambda e: "got 404" in words(e))
        assert state(waiting) == "True/Running"
        compute.unknown = False
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert compute.moves.calls["confirm"] == 1


async def test_a_count_is_not_taken_from_a_host_that_is_not_listed(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "AWAY", timedelta(milliseconds=50))
    compute = world(name)
    compute.fill(1)
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 1)
        compute.unknown = True  # the pass goes on with its cached host
        await eventually(lambda: compute.fresh_reads > 0)
        running = await until_it(kube, name, lambda e: "got 404" in words(e))
        assert state(running) == "True/Running"
        compute.unknown = False
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_empty_host_that_vanishes_after_the_checks_ends_the_eviction_at_once(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, calls = world(name), list[str]()

    def vanish(what: str, about: str) -> None:
        if what == "host":
            calls.append(about)
            compute.unknown = len(calls) > 1

    compute.moves.on_call = vanish
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    assert "got 404" in words(done)


async def test_a_host_that_is_lost_on_the_way_is_given_up(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "_HOST_AGE", 0.0)
    monkeypatch.setattr(settled, "AWAY", timedelta(milliseconds=50))
    compute = world(name)
    compute.fill(1)
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, patience=timedelta(seconds=0.5))):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 1)
        compute.unknown = True
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    assert "got 404" in words(done)


async def test_stopped_paused_and_suspended_instances_go_each_in_their_way(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 9: paused and suspended ones got a cold migration."""
    compute = world(name)
    (stopped,), (paused,) = compute.fill(1, status="SHUTOFF"), compute.fill(1, status="PAUSED")
    (suspended,) = compute.fill(1, status="SUSPENDED")
    for server in (stopped, paused):
        compute.moves.script(server.id, Script(seconds=0.2))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    calls = compute.moves.calls
    assert (calls["live_migrate"], calls["cold_migrate"], calls["confirm"]) == (1, 1, 1)
    assert state(done) == "False/Failed"
    assert [server.id for server in compute.moves.on(name)] == [suspended.id]
    found = await compute.moves.server(stopped.id)
    assert found is not None
    assert found.status == "SHUTOFF"


async def test_outstanding_memory_shrinks_with_each_instance_that_leaves(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 10: it was always zero."""
    compute = world(name)
    large, small = compute.fill(1, size=Size(1, 4096, 0)), compute.fill(1, size=Size(1, 1024, 0))
    for server in (*large, *small):
        compute.moves.script(server.id, Script(seconds=1.2))
    seen: set[int | None] = set()

    def look(eviction: Eviction) -> bool:
        if eviction.status.instances:
            seen.add(eviction.status.outstandingRamMb)
        return state(eviction).startswith("False")

    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, parallelism=1)
        done = await until_it(kube, name, look)
    assert seen == {5120, 1024, 0}
    assert done.status.hypervisorServiceId == "hypervisor-id"


async def test_a_move_that_fails_is_tried_again_elsewhere(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name, others=3)
    (server,) = compute.fill(1)
    compute.moves.script(server.id, Script(seconds=0.2, failures=2, why="no route"))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert done.status.instances[0].attempts == 3
    tried = {move.target for move in await compute.moves.moves(name)}
    assert tried == {"other-0", "other-1", "other-2"}


@pytest.mark.parametrize(
    ("script", "ends", "called"),
    [
        pytest.param(Script(stuck=1), "Succeeded", {"force_complete": 1}, id="forced"),
        pytest.param(
            Script(stuck=1, helpless=True, seconds=0.2),
            "Succeeded",
            {"force_complete": 1, "abort": 1},
            id="cannot be forced, goes elsewhere",
        ),
        pytest.param(
            Script(stuck=1, helpless=True, stubborn=True),
            "Failed",
            {"force_complete": 1, "abort": 1},
            id="cannot be stopped either, given up",
        ),
    ],
)
async def test_a_move_without_progress_is_helped_then_stopped_then_given_up(
    kube: Kube, kubeconfig: Path, name: str, *, script: Script, ends: str, called: dict[str, int]
) -> None:
    compute = world(name)
    stuck, good = compute.fill(2)
    compute.moves.script(stuck.id, dataclasses.replace(script))
    compute.moves.script(good.id, Script(seconds=0.3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == f"False/{ends}"
    assert {call: compute.moves.calls[call] for call in called} == called
    assert good.id not in {server.id for server in compute.moves.on(name)}


@pytest.mark.parametrize("record", ["error", "completed"])
async def test_instance_that_arrives_in_error_is_not_reported_as_moved(
    kube: Kube, kubeconfig: Path, name: str, record: str
) -> None:
    """Nova's last step fails on the target: whatever the record shows, the server is in ERROR."""
    compute = world(name)
    broken, good = compute.fill(2)
    compute.moves.script(broken.id, Script(seconds=0.2, arrives_in_error=record, why="no port"))
    compute.moves.script(good.id, Script(seconds=0.6))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    found = {entry.id: entry for entry in done.status.instances}
    assert (found[broken.id].phase, found[good.id].phase) == ("Failed", "Succeeded")
    assert "in ERROR on" in (found[broken.id].message or "")
    assert (found[broken.id].message or "").endswith("no port")
    assert compute.moves.calls["live_migrate"] == 2
    assert broken.id in done.status.outstandingInstances


async def test_instance_that_arrives_without_its_guest_is_not_reported_as_moved(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The record of its move is completed, as that of the others."""
    compute = world(name)
    lost, stopped, good = compute.fill(3)
    for server in (lost, stopped):
        compute.moves.script(server.id, Script(seconds=0.2, arrives_off=True))
    stop = ServerAction("stop", datetime.now(UTC) + timedelta(minutes=1), user="its owner")
    compute.moves.acted[stopped.id] = [stop]
    compute.moves.script(good.id, Script(seconds=0.2))
    await add_hypervisor(kube, name)
    policy = replace(QUICK, patience=timedelta(seconds=2))
    async with evicting(kubeconfig, compute, policy):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Failed"
    found = {entry.id: entry for entry in done.status.instances}
    assert [found[one.id].phase for one in (lost, stopped, good)] == [
        "Failed",
        "Succeeded",
        "Succeeded",
    ]
    assert "its guest does not run there although it ran" in (found[lost.id].message or "")
    assert (found[stopped.id].message or "").endswith("stopped there by its owner")
    assert done.status.outstandingInstances == (lost.id,)


async def test_instance_that_is_down_on_its_new_host_holds_up_the_end_until_it_runs(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (lost,) = compute.fill(1)
    compute.moves.script(lost.id, Script(seconds=0.2, arrives_off=True))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        held = await until_it(kube, name, lambda e: "waiting to see 1 instance run" in words(e))
        assert lost.id in held.status.outstandingInstances
        compute.moves.change(lost.id, status="ACTIVE", running=True)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"


async def test_no_target_is_filled_above_its_capacity(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name, others=0)
    compute.moves.chooses_target = False
    compute.moves.hosts |= {f"tight-{n}": Size(100, 3 * 1024, 0) for n in range(4)}
    for server in compute.fill(12):
        compute.moves.script(server.id, Script(seconds=0.3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, per_target=2)):
        await add_eviction_of(kube, name, parallelism=12)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert max(compute.moves.fullest.values()) <= 3 * 1024
    assert set(compute.moves.started.values()) == {1}
    assert compute.moves.most_at_once <= 8


async def test_two_hosts_that_are_emptied_together_do_not_fill_a_target_above_its_capacity(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name, others=0)
    compute.also(f"{name}-b")
    compute.moves.chooses_target, compute.moves.latency = False, 0.02
    compute.moves.hosts |= {f"tight-{n}": Size(100, 3 * 1024, 0) for n in range(4)}
    for host in compute.names:
        compute.moves.hosts[host] = HUGE
        compute.moves.disabled.add(host)
        for server in compute.fill(6, on=host):
            compute.moves.script(server.id, Script(seconds=0.3))
        await add_hypervisor(kube, host)
        await add_eviction_of(kube, host, parallelism=6)
    async with evicting(kubeconfig, compute, QUICK):
        for host in compute.names:
            assert state(await until_ended(kube, host)) == "False/Succeeded"
    assert max(compute.moves.fullest.values()) <= 3 * 1024
    assert set(compute.moves.started.values()) == {1}


async def test_an_answer_that_was_lost_is_looked_for_before_another_call(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (server,) = compute.fill(1)
    compute.moves.script(server.id, Script(seconds=0.5, lost=1, late=0.3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert compute.moves.calls["live_migrate"] == 1


async def test_a_compute_service_that_is_away_is_reported_and_waited_for(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (server,) = compute.fill(1)
    compute.moves.script(server.id, Script(seconds=0.2))
    away = True

    def fail(call: str, about: str) -> None:
        if away:
            raise UnreachableError("GET /servers: 503", retry_after=timedelta(milliseconds=50))

    compute.moves.on_call = fail
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waiting = await until_it(kube, name, lambda e: "503" in words(e))
        assert state(waiting) == "True/Running"
        away = False
        assert state(await until_ended(kube, name)) == "False/Succeeded"


async def test_deleting_an_eviction_stops_what_it_began_and_reports_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Weakness 29: migrations went on."""
    compute = world(name)
    for server in compute.fill(4):
        compute.moves.script(server.id, Script(seconds=60))
    await add_hypervisor(kube, name)
    seen: list[Eviction] = []
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, parallelism=2)
        await until_it(kube, name, lambda e: moving(e) == 2)
        async with (
            asyncio.timeout(20),
            kube.watch(Eviction, fields=f"metadata.name={name}") as events,
        ):
            await kube.delete(Eviction, name)
            async for event in events:
                if event.object is not None:
                    seen.append(event.object)
                if event.change is Change.DELETED:
                    break
    assert "False/Cancelled" in {state(eviction) for eviction in seen}
    assert compute.moves.under_way == 0
    assert len(compute.moves.on(name)) == 4
    assert compute.moves.calls["abort"] == 2


async def test_a_cold_move_that_takes_longer_than_the_deletion_waits_for_others_is_confirmed(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "LONGEST", timedelta(milliseconds=100))
    monkeypatch.setattr(settled, "LONGEST", timedelta(milliseconds=100))
    monkeypatch.setattr(observe, "_HOST_AGE", 0.0)
    compute = world(name)
    (server,) = compute.fill(1, status="SHUTOFF")
    compute.moves.script(server.id, Script(seconds=4))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 1)
        await kube.delete(Eviction, name)
        enqueued = await until_it(kube, name, lambda e: state(e) == "False/Cancelled")
        assert server.id in words(enqueued)
        calls = list[str]()
        compute.moves.on_call = lambda call, _: calls.append(call)
        compute.unknown = True  # an unlisted host is no reason to stop managing the move
        await eventually(lambda: calls.count("host") > 1)
        compute.unknown = False
        await eventually(lambda: gone(kube, name))
    found = await compute.moves.server(server.id)
    assert found is not None
    assert (found.host, found.status) == ("other-0", "SHUTOFF")
    assert compute.moves.calls["confirm"] == 1


async def gone(kube: Kube, name: str) -> bool:
    return await kube.get(Eviction, name) is None


async def test_moves_that_a_deleted_eviction_lets_go_of_are_named(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "LONGEST", timedelta(milliseconds=100))
    monkeypatch.setattr(settled, "LONGEST", timedelta(milliseconds=100))
    compute = world(name)
    live, cold = *compute.fill(1), *compute.fill(1, status="SHUTOFF")
    for server in (live, cold):
        compute.moves.script(server.id, Script(stuck=1, stubborn=True))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, longest=timedelta(seconds=2))):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 2)
        await kube.delete(Eviction, name)
        await eventually(lambda: gone(kube, name))
    (event,) = [
        event
        for event in (await kube.list(Event, "default")).items
        if event.reason == "CancelledLate" and event.regarding and event.regarding.name == name
    ]
    assert live.id in event.note
    assert cold.id in event.note
    assert "resize confirm" in event.note


@pytest.mark.parametrize("lost", [False, True], ids=["that runs", "whose guest is lost"])
async def test_a_server_that_an_abort_leaves_in_error_is_taken_out_of_it(
    kube: Kube, kubeconfig: Path, name: str, lost: bool
) -> None:
    """Nova 34 does so a moment after it has shown it as ACTIVE."""
    compute = world(name)
    for server in compute.fill(2):
        script = Script(seconds=60, breaks=True, lost_guest=lost, record_lag=1.0)
        compute.moves.script(server.id, script)
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: moving(e) == 2)
        async with (
            asyncio.timeout(20),
            kube.watch(Eviction, fields=f"metadata.name={name}") as events,
        ):
            await kube.delete(Eviction, name)
            async for event in events:
                if event.change is Change.DELETED:
                    break
    assert compute.moves.calls["abort"] == 2
    assert {s.status for s in compute.moves.on(name)} == {"ERROR" if lost else "ACTIVE"}


async def test_a_server_that_a_failed_move_leaves_in_error_is_moved_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (server,) = compute.fill(1)
    compute.moves.script(server.id, Script(seconds=0.2, failures=1, breaks=True))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert compute.moves.on(name) == ()
    assert compute.moves.calls["recover"] == 1


async def test_a_paused_server_stays_paused_when_its_move_fails_and_is_tried_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (server,) = compute.fill(1, status="PAUSED")
    compute.moves.script(server.id, Script(seconds=0.2, failures=1, breaks=True))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    moved = await compute.moves.server(server.id)
    assert moved is not None
    assert (moved.status, moved.host == name) == ("PAUSED", False)
    assert compute.moves.calls["recover"] == 1


async def test_running_instances_leave_a_host_at_its_shutdown_without_maintenance_smallest_first(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.moves.disabled.clear()
    (stopped,) = compute.fill(1, status="SHUTOFF")
    (large,), (small,) = (compute.fill(1, size=Size(1, mib, 0)) for mib in (8192, 512))
    for server in (stopped, large, small):
        compute.moves.script(server.id, Script(seconds=0.1))
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, trigger="HostShutdown", parallelism=1)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert list(compute.moves.started) == [small.id, large.id]
    assert [server.id for server in compute.moves.on(name)] == [stopped.id]


@pytest.mark.parametrize(
    ("spec", "of_host"),
    [
        pytest.param({"trigger": "NodeFailure"}, "", id="its node has failed"),
        pytest.param({}, "ha", id="in maintenance ha"),
        pytest.param({"mode": "evacuate"}, "", id="requested by hand"),
    ],
)
async def test_instances_of_a_dead_host_are_evacuated_once_it_is_proven_dead(
    kube: Kube, kubeconfig: Path, name: str, *, spec: dict[str, str], of_host: str
) -> None:
    compute = world(name)
    ran, off = compute.fill(1)[0], compute.fill(1, status="SHUTOFF")[0]
    for server in (ran, off):
        compute.moves.script(server.id, Script(seconds=0.1))
    compute.down.add(name)
    await add_hypervisor(kube, name, spec=HypervisorSpec(maintenance=of_host))
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name, **spec)
        waiting = await until_it(kube, name, lambda e: bool(e.status.checks))
        assert {c.name: c.result for c in waiting.status.checks}["HostFenced"] == "Pending"
        assert not compute.moves.started
        compute.moves.dead.add(name)
        await fence(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert compute.moves.calls["evacuate"] == 2
    assert not compute.moves.calls["live_migrate"] + compute.moves.calls["cold_migrate"]
    messages = {entry.id: entry.message or "" for entry in done.status.instances}
    assert "evacuated to other-" in messages[ran.id]
    assert "SHUTOFF there: it did not run" in messages[off.id]


async def test_maintenance_of_a_host_that_dies_goes_on_by_evacuation(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """What is on its way then arrives, or not: it is never started a second time."""
    compute = world(name)
    for server in compute.fill(4):
        compute.moves.script(server.id, Script(seconds=0.4))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, Policy(per_source=1)):
        await add_eviction_of(kube, name, trigger="Maintenance")
        await eventually(lambda: bool(compute.moves.started))
        (first,) = compute.moves.started
        compute.moves.dead.add(name)
        await fence(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert set(compute.moves.started.values()) == {1}
    assert compute.moves.calls["evacuate"] == 3
    how = {entry.id: entry.message or "" for entry in done.status.instances}
    assert "evacuated" not in how.pop(first)
    assert all("evacuated to" in text for text in how.values())


QUICK_RESTARTS = Policy(
    retry_after=timedelta(milliseconds=50),
    settle=timedelta(milliseconds=100),
    restart_waits=(timedelta(milliseconds=100),),
)


async def test_crashed_instance_is_restarted_where_it_is(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.moves.disabled.clear()
    crashed, well = compute.fill(1, status="SHUTOFF")[0], compute.fill(1)[0]
    compute.moves.script(crashed.id, Script(seconds=0.1, failed_restarts=1))
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute, QUICK_RESTARTS):
        await add_eviction_of(kube, name, trigger="InstanceCrash", instances=(crashed.id,))
        done = await until_ended(kube, name)
    (entry,) = done.status.instances
    assert (entry.phase, entry.mode, entry.attempts) == ("Succeeded", "restart", 2)
    assert words(done) == f"eviction completed successfully: 1 instance restarted on {name}"
    assert compute.moves.calls["restart"] == 2
    assert {server.id: server.running for server in compute.moves.on(name)} == {
        crashed.id: True,
        well.id: True,
    }


async def test_crashed_instance_is_restarted_again_if_only_the_service_shows_it_running(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    (crashed,) = compute.fill(1)
    compute.moves.script(crashed.id, Script(seconds=0.1, unmade_restarts=1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK_RESTARTS):
        await add_eviction_of(kube, name, trigger="InstanceCrash", instances=(crashed.id,))
        done = await until_ended(kube, name)
    (entry,) = done.status.instances
    assert (entry.phase, entry.mode, entry.attempts) == ("Succeeded", "restart", 2)
    assert compute.moves.calls["restart"] == 2


@pytest.mark.parametrize(("mode", "restarts"), [(None, 3), ("cold", 1)])
async def test_crashed_instance_that_does_not_run_here_is_moved_and_started_there(
    kube: Kube, kubeconfig: Path, name: str, mode: str | None, restarts: int
) -> None:
    compute = world(name)
    (crashed,) = compute.fill(1, status="SHUTOFF")
    compute.moves.script(crashed.id, Script(seconds=0.1, failed_restarts=restarts - 1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK_RESTARTS):
        named = (crashed.id,)
        await add_eviction_of(kube, name, trigger="Watchdog", mode=mode, instances=named)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    (entry,) = done.status.instances
    (there,) = (*compute.moves.on("other-0"), *compute.moves.on("other-1"))
    assert (there.status, there.running, entry.target) == ("ACTIVE", True, there.host)
    calls = compute.moves.calls
    assert (calls["cold_migrate"], calls["confirm"], calls["restart"]) == (1, 1, restarts)


async def test_instance_that_its_owner_has_stopped_is_not_restarted(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    stopped, synced = compute.fill(2, status="SHUTOFF")
    now = SystemClock().now()
    compute.moves.acted[stopped.id] = [ServerAction("stop", now, "owner")]
    compute.moves.acted[synced.id] = [ServerAction("stop", now)]
    compute.moves.script(synced.id, Script(seconds=0.1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, QUICK_RESTARTS):
        both = (stopped.id, synced.id)
        await add_eviction_of(kube, name, trigger="InstanceCrash", instances=both)
        done = await until_ended(kube, name)
    found = {entry.id: entry for entry in done.status.instances}
    assert found[stopped.id].phase == "Skipped"
    assert "requested by its owner: stop" in (found[stopped.id].message or "")
    assert found[synced.id].phase == "Succeeded"


async def test_an_instance_is_in_one_running_eviction(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """A crash while the host is emptied: the Eviction that was made first moves the instance."""
    compute = world(name)
    first, last = sorted(compute.fill(2), key=lambda server: server.id)
    for server in (first, last):
        compute.moves.script(server.id, Script(seconds=1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, Policy(per_source=1)):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: bool(e.status.instances))
        later = f"{name}-later"
        named = (last.id,)
        await add_eviction_of(kube, name, name=later, trigger="InstanceCrash", instances=named)
        waiting = await until_it(kube, later, lambda e: bool(e.status.instances))
        await until_ended(kube, name)
        done = await until_ended(kube, later)
    assert f"Eviction {name} has this instance" in (waiting.status.instances[0].message or "")
    assert state(done) == "False/Succeeded"
    assert not compute.moves.calls["restart"]
    assert set(compute.moves.started.values()) == {1}


async def test_a_host_that_is_down_is_waited_for(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = world(name)
    compute.fill(1)
    compute.down.add(name)
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waiting = await until_it(kube, name, lambda e: bool(e.status.checks))
    assert state(waiting, "PreflightChecksSucceeded") == "False/Failed"
    assert "does not report" in words(waiting, "PreflightChecksSucceeded")
    assert not compute.moves.started


async def test_a_host_that_is_down_and_has_nothing_left_is_empty(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its servers were evacuated, while the Eviction waited for the host."""
    monkeypatch.setattr(polling, "IDLE", timedelta(milliseconds=100))
    compute = world(name)
    (server,) = compute.fill(1)
    compute.counted = {server.id}
    compute.down.add(name)
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        await until_it(kube, name, lambda e: "not report" in words(e, "PreflightChecksSucceeded"))
        compute.moves.change(server.id, host="other-0")
        before = compute.fresh_reads
        await eventually(lambda: compute.fresh_reads > before)
        compute.counted.clear()
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert {check.name: check.result for check in done.status.checks}["HostFenced"] == "Warning"


@pytest.mark.parametrize(
    ("registered", "instances", "ends"),
    [(True, 0, "False/Failed"), (False, 0, "False/Succeeded"), (False, 3, "False/Failed")],
    ids=["registered once", "never registered", "never registered, but with instances"],
)
async def test_eviction_of_a_host_that_the_compute_service_does_not_list_ends(
    kube: Kube, kubeconfig: Path, name: str, *, registered: bool, instances: int, ends: str
) -> None:
    compute = world(name)
    compute.unknown = True
    made = await add_hypervisor(kube, name)
    status = HypervisorStatus(
        numInstances=instances,
        hypervisorId="h" if registered else None,
        serviceId="s" if registered else None,
        conditions=made.conditions,
    )
    await kube.patch_status(made, status)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        done = await until_ended(kube, name)
    assert state(done) == ends


async def test_events_record_the_start_each_failure_and_the_end(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    good, refused = compute.fill(2)
    compute.moves.script(good.id, Script(seconds=0.2))
    compute.moves.script(refused.id, Script(refusals=-1))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute, replace(QUICK, attempts=2)):
        await add_eviction_of(kube, name)
        await until_ended(kube, name)
    events = (await kube.list(Event, "default")).items
    about = [e.reason for e in events if e.regarding and e.regarding.name == name]
    assert Counter(about) == {
        "EvictionStarted": 1,
        "MoveFailed": 1,
        "InstanceNotMoved": 1,
        "EvictionFailed": 1,
    }


async def test_writes_of_the_operator_do_not_grow_with_the_instances(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    for server in compute.fill(60):
        compute.moves.script(server.id, Script(seconds=0.3))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute) as running:
        await add_eviction_of(kube, name, parallelism=20)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert running.writes < 20


async def test_progress_that_a_node_agent_reports_counts_and_its_end_wakes_the_eviction(
    kube: Kube, name: str
) -> None:
    seen, enqueued, stop = Migrations(kube, Metrics()), list[str](), asyncio.Event()
    seen.source.watch.attach(enqueued.append)
    running = asyncio.create_task(seen.run(stop))
    seen.follow("an-eviction", name)
    server = str(uuid.uuid4())
    labels = {SERVER: server, ORIGIN: name}
    meta = ObjectMeta(name=server, namespace="monsoon3", labels=labels)
    made = await kube.create(Migration(metadata=meta, spec=MigrationSpec()))
    began = SystemClock().now().replace(microsecond=0)
    status = MigrationStatus(started=began, type="unbounded", memRemaining="1.0 MiB")
    made = await kube.patch_status(made, status)
    await eventually(lambda: seen.jobs_of(name) == {server: Job(began, Left(1 << 20))})
    assert not enqueued
    await kube.patch_status(made, msgspec.structs.replace(status, type="completed"))
    await eventually(lambda: enqueued == ["an-eviction"])
    assert seen.jobs_of(name) == {server: Job(began, Left(1 << 20), "completed")}
    again = ObjectMeta(name=f"{server}-2", namespace="monsoon3", labels=labels)
    second = await kube.create(Migration(metadata=again, spec=MigrationSpec()))
    later = began + timedelta(seconds=5)
    await kube.patch_status(second, MigrationStatus(started=later, type="unbounded"))
    await eventually(lambda: seen.jobs_of(name) == {server: Job(later)})
    seen.follow("of-another-host", f"{name}-2")
    liar = ObjectMeta(
        name=f"{server}-3", namespace="monsoon3", labels={SERVER: server, ORIGIN: f"{name}-2"}
    )
    lie = await kube.create(Migration(metadata=liar, spec=MigrationSpec()))
    over = MigrationStatus(started=later + timedelta(days=1), type="completed")
    await kube.patch_status(lie, over)
    await eventually(lambda: server in seen.jobs_of(f"{name}-2"))
    assert seen.jobs_of(name) == {server: Job(later)}, "as its own host reports it"
    await kube.delete(Migration, lie.metadata.name, "monsoon3")
    await kube.delete(Migration, made.metadata.name, "monsoon3")
    await kube.delete(Migration, second.metadata.name, "monsoon3")
    await eventually(lambda: not seen.jobs_of(name))
    seen.release("an-eviction")
    stop.set()
    await asyncio.wait_for(running, 5)
