"""Two operators under one lease, on one API server and one compute service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.conftest import DEADLINE, DEFAULTS, Operator, until
from tests.integration.operator.eviction_world import add_eviction_of, fence, state, until_ended
from tests.integration.operator.lifecycle import QUICK, now, set_spec, site
from tests.integration.operator.service import in_service
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.fake.registry import FakeHosts
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Host, Server, Size
from hypercobalt.errors import TransientError
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.runtime import (
    Election,
    Kube,
    LeadershipLostError,
    Manager,
    Metrics,
    Timing,
    load_connection,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON = Timing(timedelta(seconds=2), timedelta(seconds=1.5), timedelta(seconds=0.2))
TWO = Policy(per_source=2, power_lag=timedelta(seconds=1))
LONG = 2.8  # seconds of a move: one that is under way when the lease changes hands goes on after it
HUGE = Size(1000, 1_000_000, 0)


class Network:
    """A guard that can cut off the writes of a process."""

    def __init__(self) -> None:
        self.cut = False

    def __call__(self) -> None:
        if self.cut:
            raise TransientError("cut off")


@dataclass
class Candidate(Operator):
    """An operator that waits for the lease, or has it."""

    network: Network
    task: asyncio.Task[None]

    @property
    def leads(self) -> bool:
        (family,) = self.metrics.leader.collect()
        return any(sample.value for sample in family.samples)

    async def kill(self) -> None:
        """Kill the operator as a crash does: nothing is finished, the lease is not released."""
        self.network.cut = True
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=DEADLINE)


def another(compute: FakeCompute) -> FakeCompute:
    """The same compute service for a second process, with calls counted apart."""
    made, world = FakeCompute(now, moves=compute.moves), compute.world
    made.world.hosts, made.world.aggregates = world.hosts, world.aggregates
    made.world.traits, made.world.tests = world.traits, world.tests
    return made


def never() -> None:
    raise AssertionError("cancelled work went on")


@asynccontextmanager
async def candidate(
    kubeconfig: Path, compute: FakeCompute, lease: str, identity: str
) -> AsyncIterator[Candidate]:
    metrics, network = Metrics(), Network()
    async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
        election = Election(lease, "kube-system", identity, SOON)
        manager = Manager(client.guarded(network), metrics=metrics, election=election, abort=never)
        options = replace(DEFAULTS, lifecycle=QUICK, eviction=TWO)
        add_controllers(manager, options, metrics, lambda *_: compute)
        task = asyncio.create_task(manager.run())
        try:
            yield Candidate(metrics, manager, network, task)
        finally:
            manager.stop()
            await asyncio.wait({task}, timeout=DEADLINE)


def crowded(name: str, servers: int) -> FakeCompute:
    compute = site(name)
    compute.moves.hosts = {name: HUGE, "other": HUGE}
    for number in range(servers):
        id_ = f"i{number}"
        compute.moves.add(Server(id_, id_, name, "ACTIVE", running=True, size=Size(1, 1024, 0)))
        compute.moves.script(id_, Script(seconds=LONG))
    return compute


@pytest.mark.parametrize("begun", [1, 3])
async def test_second_takes_over_in_the_middle_of_an_eviction_and_moves_nothing_twice(
    kube: Kube, kubeconfig: Path, name: str, begun: int
) -> None:
    compute, lease = crowded(name, 4), f"lease-{name}"
    moves, its = compute.moves, another(compute)
    async with candidate(kubeconfig, compute, lease, "one") as one:
        await eventually(lambda: one.leads)
        async with candidate(kubeconfig, its, lease, "two") as two:
            await in_service(kube, name)
            await set_spec(kube, name, maintenance="auto")
            await eventually(lambda: moves.started.total() >= begun)
            assert (two.leads, two.writes, its.world.calls) == (False, 0, [])
            await one.kill()
            await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
            assert two.leads
    assert set(moves.started.values()) == {1}
    assert moves.most_at_once == 2
    assert not moves.on(name)


@asynccontextmanager
async def two_of_them(
    kubeconfig: Path, compute: FakeCompute, lease: str
) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """Run an operator that leads and one that waits."""
    async with candidate(kubeconfig, compute, lease, "one") as one:
        await eventually(lambda: one.leads)
        async with candidate(kubeconfig, another(compute), lease, "two") as two:
            yield one, two


@pytest.mark.parametrize("begun", [1, 3])
async def test_second_takes_over_in_the_middle_of_an_evacuation_and_starts_nothing_twice(
    kube: Kube, kubeconfig: Path, name: str, begun: int
) -> None:
    compute = crowded(name, 4)
    moves = compute.moves
    async with two_of_them(kubeconfig, compute, f"lease-{name}") as (one, two):
        await in_service(kube, name)
        await compute.hosts.force_down(compute.world.hosts[name])
        await fence(kube, name)
        await add_eviction_of(kube, name, name=f"ha-{name}", mode="evacuate", parallelism=2)
        await eventually(lambda: moves.started.total() >= begun)
        await one.kill()
        done = await until_ended(kube, f"ha-{name}")
        assert two.leads
    assert state(done) == "False/Succeeded"
    assert set(moves.started.values()) == {1}
    assert [server.running for server in moves.on("other")] == [True] * 4


async def test_second_takes_over_in_the_middle_of_a_restart_and_does_not_repeat_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = crowded(name, 1)
    moves = compute.moves
    async with two_of_them(kubeconfig, compute, f"lease-{name}") as (one, two):
        await in_service(kube, name)
        moves.change("i0", status="SHUTOFF", running=False)
        await add_eviction_of(
            kube, name, name=f"ha-{name}", trigger="InstanceCrash", instances=("i0",)
        )
        await eventually(lambda: moves.calls["restart"] > 0)
        await one.kill()
        done = await until_ended(kube, f"ha-{name}")
        assert two.leads
    assert state(done) == "False/Succeeded"
    assert moves.calls["restart"] == 1
    (server,) = moves.on(name)
    assert server.running


class Hanging(FakeHosts):
    """A compute service whose call to disable a host hangs."""

    def __init__(self, compute: FakeCompute) -> None:
        super().__init__(compute.world, compute.moves)
        self.entered, self.answer = asyncio.Event(), asyncio.Event()

    async def disable(self, host: Host, reason: str) -> None:
        self.entered.set()
        await self.answer.wait()
        await super().disable(host, reason)


async def test_leader_that_is_cut_off_in_a_pass_does_nothing_more_and_the_next_one_does(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, lease = crowded(name, 2), f"lease-{name}"
    compute.hosts = hanging = Hanging(compute)
    its = another(compute)
    async with candidate(kubeconfig, compute, lease, "one") as one:
        await eventually(lambda: one.leads)
        await in_service(kube, name)
        async with candidate(kubeconfig, its, lease, "two") as two:
            await set_spec(kube, name, maintenance="auto")
            await asyncio.wait_for(hanging.entered.wait(), DEADLINE)
            one.network.cut = True
            await asyncio.wait({one.task}, timeout=DEADLINE)
            hanging.answer.set()
            calls = len(compute.world.calls)
            await until(kube, Hypervisor, name, lambda hv: bool(hv.status.evicted))
            assert two.leads
    assert isinstance(one.task.exception(), LeadershipLostError)
    assert len(compute.world.calls) == calls
    assert sum(call.startswith("hosts.disable") for call in its.world.calls) == 1
    assert set(compute.moves.started.values()) == {1}
