"""What Nova is sent to restart a crashed instance, and to evacuate those of a dead host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.operator.conftest import operator, until
from tests.integration.operator.documented import UNMANAGED, Cloud
from tests.integration.operator.eviction_world import add_eviction_of, ended, state
from tests.integration.operator.lifecycle import QUICK
from tests.simulated_openstack.model import Server

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Fencing
from hypercobalt.operator.eviction.model.policy import Policy

pytestmark = pytest.mark.asyncio(loop_scope="session")

DISABLED = "HypervisorDisabled=True/Succeeded"
DEAD = Fencing(
    phase="Fenced",
    bootID="1",
    method="BMC",
    proof="power is off",
    forcedDownAt=datetime(2026, 1, 1, tzinfo=UTC),
)
SOON = Policy(settle=timedelta(seconds=0.2), restart_waits=(timedelta(seconds=0.2),))


def server(cloud: Cloud, state: str, task: str | None = None) -> Server:
    """One without a local disk, and a host that it may go to."""
    if len(cloud.world.hosts) == 1:
        cloud.world.add_host(f"other-{cloud.name}")
    made = cloud.world.add_server(cloud.name, vm_state=state)
    made.image = ""
    made.set(task_state=task)
    return made


async def over(cloud: Cloud) -> Eviction:
    return await until(cloud.kube, Eviction, cloud.name, ended)


def sent(cloud: Cloud, to: Server) -> list[object]:
    return list(cloud.bodies("POST", f"/servers/{to.id}/action"))


async def test_instances_of_a_dead_host_are_evacuated_and_are_as_they_were(cloud: Cloud) -> None:
    ran, off, broken = (server(cloud, state) for state in ("active", "stopped", "error"))
    moving = server(cloud, "active", "powering-off")
    cloud.host.forced_down = True
    await cloud.registered(DISABLED, spec=UNMANAGED, bootID="1", fencing=DEAD)
    await add_eviction_of(cloud.kube, cloud.name, mode="evacuate", trigger="NodeFailure")
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK, eviction=SOON):
        done = await over(cloud)
    assert state(done) == "False/Succeeded", done.status
    for one in (ran, off, broken, moving):
        assert sent(cloud, one) == [{"evacuate": {}}]
        assert one.host == f"other-{cloud.name}"
    assert (ran.vm_state, off.vm_state) == ("active", "stopped")


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
