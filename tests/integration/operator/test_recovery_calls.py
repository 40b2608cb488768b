"""What Nova is sent to restart a crashed instance, and to evacuate those of a dead host."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.contracts.compute import until as until_seen
from tests.integration.operator.conftest import operator, until
from tests.integration.operator.documented import UNMANAGED, Cloud
from tests.integration.operator.eviction_world import add_eviction_of, ended, state
from tests.integration.operator.lifecycle import QUICK
from tests.records import record
from tests.simulated_openstack.http import Request
from tests.simulated_openstack.model import Server

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Fencing
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import Incident, IncidentType, Severity
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.eviction.assessing.locks import Lock
from hypercobalt.operator.eviction.model.policy import Policy

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

DISABLED = "HypervisorDisabled=True/Succeeded"
DEAD = Fencing(
    phase="Fenced",
    bootID="1",
    method="BMC",
    proof="power is off",
    forcedDownAt=datetime(2026, 1, 1, tzinfo=UTC),
)
SOON = Policy(
    settle=timedelta(seconds=0.2),
    restart_waits=(timedelta(seconds=0.2),),
    power_lag=timedelta(seconds=0.2),
)


def server(cloud: Cloud, state: str, task: str | None = None) -> Server:
    """Add a server without a local disk, and a host that it may go to."""
    if len(cloud.world.hosts) == 1:
        cloud.world.add_host(f"other-{cloud.name}")
    made = cloud.world.add_server(cloud.name, vm_state=state)
    made.image, made.project = "", "its-owners"
    made.set(task_state=task)
    return made


async def over(cloud: Cloud) -> Eviction:
    return await until(cloud.kube, Eviction, cloud.name, ended)


def sent(cloud: Cloud, to: Server) -> list[dict[str, object]]:
    return list(cloud.bodies("POST", f"/servers/{to.id}/action"))


async def test_instances_of_a_dead_host_are_evacuated_and_are_as_they_were(cloud: Cloud) -> None:
    ran, off, broken = (server(cloud, state) for state in ("active", "stopped", "error"))
    moving = server(cloud, "active", "powering-off")
    await dead_host(cloud)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        done = await over(cloud)
        for one in (ran, off, broken, moving):
            await until_unlocked(one)
    assert state(done) == "False/Succeeded", done.status
    for one in (ran, off, broken, moving):
        assert [next(iter(body)) for body in sent(cloud, one)] == ["lock", "evacuate", "unlock"]
        assert one.host == f"other-{cloud.name}"
    assert (ran.vm_state, off.vm_state) == ("active", "stopped")


async def until_unlocked(one: Server) -> None:
    async def locked_by() -> str:
        return one.locked_by

    await until_seen(locked_by, lambda by: not by)


async def dead_host(cloud: Cloud) -> Hypervisor:
    cloud.host.forced_down = True
    await cloud.registered(DISABLED, spec=UNMANAGED, bootID="1")
    return await record(cloud.kube, cloud.name, DEAD)


async def test_server_that_was_locked_before_stays_so_with_its_reason(cloud: Cloud) -> None:
    kept = {by: server(cloud, "active") for by in ("owner", "admin")}
    for by, one in kept.items():
        one.locked_by, one.locked_reason = by, "mine"
    await dead_host(cloud)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        assert state(await over(cloud)) == "False/Succeeded"
    for by, one in kept.items():
        assert sent(cloud, one) == [{"evacuate": {}}]
        assert (one.locked_by, one.locked_reason) == (by, "mine")


async def test_server_is_unlocked_when_its_evacuation_is_given_up(cloud: Cloud) -> None:
    one = server(cloud, "active")
    cloud.world.hosts[f"other-{cloud.name}"].enabled = False
    await dead_host(cloud)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    given_up = replace(SOON, retry_after=timedelta(seconds=0.1), evacuation_attempts=2)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=given_up):
        assert state(await over(cloud)) == "False/Failed"
        await until_unlocked(one)
    assert one.host == cloud.name
    tried = [next(iter(body)) for body in sent(cloud, one)]
    assert tried == ["lock", "evacuate", "evacuate", "unlock"], "locked until the last attempt"


async def test_server_is_unlocked_when_its_eviction_is_deleted(cloud: Cloud) -> None:
    one = server(cloud, "active")
    cloud.world.pace.evacuation = 60
    await dead_host(cloud)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        await until(cloud.kube, Eviction, cloud.name, lambda e: is_evacuating(e, one))
        assert one.locked_by == "admin"
        await cloud.kube.delete(Eviction, cloud.name)
        await until_unlocked(one)
    assert one.task_state == "rebuilding", "what was begun goes on"


def is_evacuating(eviction: Eviction, of: Server) -> bool:
    return any(one.id == of.id and one.phase == "Evacuating" for one in eviction.status.instances)


async def test_operator_that_begins_to_lead_finds_locks_that_have_outlived_their_evictions(
    cloud: Cloud,
) -> None:
    left, of_another_operator, owners = (server(cloud, "active") for _ in range(3))
    host = await cloud.registered(spec=UNMANAGED)
    for one, reason in (
        (left, Lock("gone", host.metadata.uid).reason),
        (of_another_operator, Lock("gone", "of-another-cluster").reason),
        (owners, "mine"),
    ):
        one.locked_by, one.locked_reason = "admin", reason
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        await until_unlocked(left)
    assert [one.locked_by for one in (of_another_operator, owners)] == ["admin", "admin"]


async def test_evacuation_goes_on_where_nova_refuses_to_lock(cloud: Cloud) -> None:
    one = server(cloud, "active")
    cloud.fail("compute POST /servers/{id}/action lock", code=403)
    await dead_host(cloud)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        assert state(await over(cloud)) == "False/Succeeded"
    assert (one.host, one.locked_by) == (f"other-{cloud.name}", "")


async def test_forced_down_alone_evacuates_nothing(cloud: Cloud) -> None:
    one = server(cloud, "active")
    cloud.host.forced_down = True
    await cloud.registered(DISABLED, spec=UNMANAGED, bootID="1")
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        held = await until(cloud.kube, Eviction, cloud.name, lambda e: bool(e.status.checks))
    assert {check.name: check.result for check in held.status.checks}["HostFenced"] == "Pending"
    assert not sent(cloud, one)


async def test_crashed_instances_are_started_or_rebooted_hard(cloud: Cloud) -> None:
    synced, crashed, well = (server(cloud, state) for state in ("stopped", "active", "active"))
    await cloud.registered(spec=UNMANAGED)
    both = (synced.id, crashed.id)
    await add_eviction_of(cloud.kube, cloud.name, trigger="InstanceCrash", instances=both)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        done = await over(cloud)
    assert state(done) == "False/Succeeded", done.status
    assert sent(cloud, synced) == [{"os-start": None}]
    assert sent(cloud, crashed) == [{"reboot": {"type": "HARD"}}]
    assert not sent(cloud, well)
    assert {one.host for one in (synced, crashed)} == {cloud.name}


async def test_reboot_that_fails_on_the_host_is_a_failed_attempt_though_nova_shows_it_active(
    cloud: Cloud,
) -> None:
    """Nova accepts it, its host fails before it does anything: power state 1 is from before."""
    crashed = server(cloud, "active")
    crashed.reboot_fails = "Cinder does not answer"
    await cloud.registered(spec=UNMANAGED)
    await add_eviction_of(
        cloud.kube, cloud.name, mode="restart", trigger="InstanceCrash", instances=(crashed.id,)
    )
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        done = await over(cloud)
    assert (crashed.vm_state, crashed.power_state, crashed.task_state) == ("active", 1, None)
    assert state(done) == "False/Failed", done.status
    (entry,) = done.status.instances
    assert "Cinder does not answer" in (entry.message or "")
    assert sent(cloud, crashed) == [{"reboot": {"type": "HARD"}}] * 2


async def test_instance_whose_reboots_fail_on_its_host_is_moved_as_one_that_is_off(
    cloud: Cloud,
) -> None:
    crashed = server(cloud, "active")
    crashed.reboot_fails = "Cinder does not answer"
    await cloud.registered(spec=UNMANAGED)
    await add_eviction_of(cloud.kube, cloud.name, trigger="InstanceCrash", instances=(crashed.id,))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        done = await over(cloud)
    assert state(done) == "False/Succeeded", done.status
    assert [next(iter(body)) for body in sent(cloud, crashed)] == [
        *("reboot", "reboot"),
        *("migrate", "confirmResize"),
    ]
    assert crashed.host == f"other-{cloud.name}"


async def test_instance_that_crashes_while_a_person_empties_its_host_is_started_and_then_moved(
    cloud: Cloud,
) -> None:
    """Nova's stop of what has crashed looks as that of a guest which has shut itself down."""
    there = {one.id: one for one in (server(cloud, "active") for _ in range(3))}
    cloud.world.pace.live = 1
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await add_eviction_of(cloud.kube, cloud.name, parallelism=1)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        begun = await until(cloud.kube, Eviction, cloud.name, is_under_way)
        crashed, shut_down = (
            there[entry.id] for entry in begun.status.instances if entry.phase == "Pending"
        )
        await reports_crash(cloud, crashed)
        for one in (crashed, shut_down):
            cloud.world.power_sync(one)
        done = await over(cloud)
    assert state(done) == "False/Succeeded", done.status
    assert [next(iter(body)) for body in sent(cloud, crashed)] == ["os-start", "os-migrateLive"]
    assert [next(iter(body)) for body in sent(cloud, shut_down)] == ["migrate", "confirmResize"]
    assert {one.host for one in there.values()} == {f"other-{cloud.name}"}
    assert (crashed.vm_state, shut_down.vm_state) == ("active", "stopped")


async def test_instance_that_crashes_while_others_move_is_started_before_the_next_listing_is_due(
    cloud: Cloud,
) -> None:
    there = {one.id: one for one in (server(cloud, "active") for _ in range(3))}
    cloud.world.pace.live = 60  # no place for another move becomes free meanwhile
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await add_eviction_of(cloud.kube, cloud.name, parallelism=1)
    lists_no_servers = passes_without_listing(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        begun = await until(cloud.kube, Eviction, cloud.name, is_under_way)
        pending = next(entry.id for entry in begun.status.instances if entry.phase == "Pending")
        async with asyncio.timeout(30):
            await lists_no_servers.wait()
        cloud.world.power_sync(there[pending])
        reported = time.monotonic()
        await reports_crash(cloud, there[pending])
        await until(cloud.kube, Eviction, cloud.name, lambda e: is_restarted(e, pending))
    assert sent(cloud, there[pending]) == [{"os-start": None}]
    waited = cloud.script.times["compute POST /servers/{id}/action os-start"] - reported
    assert waited < 5, "so long before their listing is 10 s old"


def passes_without_listing(cloud: Cloud) -> asyncio.Event:
    """Set once a pass takes the servers as they were listed before."""
    found, since = asyncio.Event(), list[str]()

    def moves(_: Request) -> None:
        if not since:
            found.set()
        since.clear()

    cloud.script.before("compute GET /servers/detail", lambda _: since.append("servers"))
    cloud.script.before("compute GET /os-migrations", moves)
    return found


def is_restarted(eviction: Eviction, id_: str) -> bool:
    return any(one.id == id_ and one.mode == "restart" for one in eviction.status.instances)


def is_under_way(eviction: Eviction) -> bool:
    phases = sorted(entry.phase or "" for entry in eviction.status.instances)
    return phases == ["Migrating", "Pending", "Pending"]


async def reports_crash(cloud: Cloud, of: Server) -> None:
    """What the host's node agent writes of an instance; its last sight of it is a while ago."""
    seen = datetime.now(UTC) - timedelta(minutes=1)
    incident = Incident(
        "crash-1", IncidentType.CRASH, Severity.CRITICAL, instance=of.id, lastSeen=seen
    )
    mine = Hypervisor(
        metadata=ObjectMeta(name=cloud.name),
        status=HypervisorStatus(numInstances=3, incidents=(incident,)),
    )
    await cloud.kube.as_manager("kvm-node-agent").apply(mine, force=True, subresource="status")
