"""The operator dies at any call of an eviction, and the next one finishes the work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.eviction_world import (
    World,
    add_eviction_of,
    add_hypervisor,
    fence,
    state,
    world,
)

from hypercobalt.api.eviction import FINALIZER, Eviction, InstancePhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.fake.script import Script
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.eviction.act import Actions
from hypercobalt.operator.eviction.metrics import EvictionMetrics
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.observe import Observer
from hypercobalt.operator.eviction.observing.migrations import Migrations
from hypercobalt.operator.eviction.reconciler import EvictionReconciler
from hypercobalt.operator.eviction.turns import HostTurns
from hypercobalt.operator.eviction.unlocking import UnlockingReconciler
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import (
    Informer,
    Kube,
    ListResult,
    Metrics,
    Recorder,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import WriteCache

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

POLICY = Policy(
    per_source=2,
    retry_after=timedelta(milliseconds=20),
    unsure=timedelta(milliseconds=200),
    settle=timedelta(milliseconds=100),
    power_lag=timedelta(milliseconds=200),
    restart_waits=(timedelta(milliseconds=20),),
)
PASSES = 200
BETWEEN = 0.03  # seconds from pass to pass


class Death(Exception):  # noqa: N818 - not an error
    """The process is gone: nothing that it would do next happens."""


@dataclass
class Dying:
    """Lets so many calls and writes through; None: all of them."""

    left: int | None = None
    seen: int = 0
    dead: bool = False

    def __call__(self, *_about: str) -> None:
        self.seen += 1
        self.dead = self.dead or (self.left is not None and self.seen > self.left)
        if self.dead:
            raise Death

    @property
    def cut_off(self) -> int:
        """How many calls came when it was dead already, or killed it."""
        return max(self.seen - self.left, 0) if self.left is not None else 0


def sole(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) >= 1:
        error = error.exceptions[0]
    return error


class Process:
    """An operator whose passes the test makes one by one."""

    def __init__(self, kube: Kube, client: Kube, compute: World, dying: Dying) -> None:
        metrics = Metrics()
        self._kube = kube
        self._evictions = Informer(kube, Selection(Eviction), metrics=metrics)
        self._hypervisors = Informer(kube, Selection(Hypervisor), metrics=metrics)
        clock, migrations = SystemClock(), Migrations(kube, metrics)
        launchers = LauncherPods(mortal := client.guarded(dying), metrics)
        hypervisors = self._hypervisors.cache
        self._reconciler = EvictionReconciler(
            mortal,
            WriteCache(self._evictions),
            Observer(
                mortal,
                hypervisors,
                compute,
                migrations,
                launchers,
                policy=POLICY,
                clock=clock,
            ),
            Actions(compute, Proofs(kube)),
            POLICY,
            events=Recorder(kube, "example.com/test", "test", clock=clock, metrics=metrics),
            migrations=migrations,
            launchers=launchers,
            hypervisor=hypervisors.get,
            turns=HostTurns(lambda _: None),
            metrics=EvictionMetrics(metrics.registry),
        )

    async def step(self, name: str, *, seen: Hypervisor | None = None) -> Eviction | None:
        """Run one pass on what the server has, or the watch reported; return the Eviction then."""
        eviction, host = (
            await self._kube.get(Eviction, name),
            seen or await self._kube.get(Hypervisor, name),
        )
        self._evictions.load(ListResult([eviction] if eviction else [], "1", {}))
        self._hypervisors.load(ListResult([host] if host else [], "1", {}))
        await self._reconciler.reconcile(name)
        return await self._kube.get(Eviction, name)


def over(eviction: Eviction | None) -> bool:
    if eviction is None:
        return True
    return state(eviction).startswith("False") and FINALIZER not in eviction.metadata.finalizers


async def run(
    kube: Kube, client: Kube, compute: World, dying: Dying, good: Callable[[Eviction | None], bool]
) -> tuple[Eviction | None, int]:
    """Make passes until it is good; a process that dies is followed by the next, which does not."""
    process, deaths = Process(kube, client, compute, dying), 0
    compute.moves.on_call = dying
    for _ in range(PASSES):
        try:
            eviction = await process.step(compute.name)
        except (Death, BaseExceptionGroup) as error:
            if not isinstance(sole(error), Death):
                raise
            deaths += 1
            compute.moves.on_call = compute.moves.on_done = None
            process = Process(kube, client, compute, Dying())
            continue
        if good(eviction):
            return eviction, deaths
        await asyncio.sleep(BETWEEN)
    raise AssertionError(f"not done in {PASSES} passes: {eviction}")


async def succeeds(kube: Kube, client: Kube, compute: World, dying: Dying) -> tuple[Eviction, int]:
    done, deaths = await run(kube, client, compute, dying, over)
    assert done is not None
    assert state(done) == "False/Succeeded", done.status
    return done, deaths


async def wherever_it_dies(check: Callable[[str, Dying], Awaitable[int]]) -> None:
    """Check without a death, then with one at each call that was counted.

    Args:
        check: checks a world with that label, and returns the deaths. A run that ends in fewer
            calls than the first may see none: how often moves are looked at depends on the machine.
    """
    whole = Dying()
    assert await check("whole", whole) == 0
    for calls in range(whole.seen):
        died = await check(str(calls), Dying(calls))
        assert died == 1 or calls >= whole.seen // 2, calls


def furnish(name: str) -> World:
    """A host with two running instances and a stopped one; moving one fails once, badly."""
    compute = world(name)
    running, troubled = compute.fill(2)
    (stopped,) = compute.fill(1, status="SHUTOFF")
    for server in (running, troubled, stopped):
        compute.moves.script(server.id, Script(seconds=0.05))
    compute.moves.scripts[troubled.id].failures = 1
    compute.moves.scripts[troubled.id].breaks = True
    compute.moves.scripts[running.id].late = 0.04
    compute.fails = troubled.id  # type: ignore[attr-defined]
    return compute


async def check(kube: Kube, client: Kube, compute: World, dying: Dying) -> int:
    await add_hypervisor(kube, compute.name)
    await add_eviction_of(kube, compute.name)
    done, deaths = await succeeds(kube, client, compute, dying)
    assert not compute.moves.on(compute.name)
    twice = {id_ for id_, count in compute.moves.started.items() if count > 1}
    assert twice <= {compute.fails}  # type: ignore[attr-defined]
    assert sum(compute.moves.started.values()) == 4
    calls = compute.moves.calls["live_migrate"] + compute.moves.calls["cold_migrate"]
    assert calls <= 4 + dying.cut_off, "a move was requested again"
    assert compute.moves.calls["confirm"] >= 1
    assert {e.phase for e in done.status.instances} == {InstancePhase.SUCCEEDED}
    return deaths


async def test_no_move_is_begun_twice_wherever_the_operator_dies(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        await wherever_it_dies(
            lambda label, dying: check(kube, client, furnish(f"{name}-{label}"), dying)
        )


async def test_no_move_is_begun_twice_when_the_operator_dies_before_the_answer(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        for calls in range(5):  # 4 moves and a confirmation
            compute, dying = furnish(f"{name}-{calls}"), Dying(calls)
            compute.moves.on_done = dying
            assert await check(kube, client, compute, Dying()) == 1


async def test_a_deleted_eviction_is_cancelled_wherever_the_operator_dies(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        for calls in range(8):
            compute = world(f"{name}-{calls}")
            for server in compute.fill(3):
                compute.moves.script(server.id, Script(seconds=30))
            await add_hypervisor(kube, compute.name)
            await add_eviction_of(kube, compute.name)
            await run(
                kube, client, compute, Dying(), lambda e: e is not None and bool(e.status.instances)
            )
            assert compute.moves.under_way == 2
            await kube.delete(Eviction, compute.name)
            await run(kube, client, compute, Dying(calls), lambda e: e is None)
            assert compute.moves.under_way == 0
            assert len(compute.moves.on(compute.name)) == 3


def bury(name: str) -> World:
    """A host that is dead, with two instances that ran and one that was off; one fails once."""
    compute = world(name)
    ran, troubled = compute.fill(2)
    (off,) = compute.fill(1, status="SHUTOFF")
    for server in (ran, troubled, off):
        compute.moves.script(server.id, Script(seconds=0.05))
    compute.moves.scripts[troubled.id].failures = 1
    compute.moves.dead.add(name)
    return compute


async def check_evacuation(kube: Kube, client: Kube, compute: World, dying: Dying) -> int:
    await add_hypervisor(kube, compute.name)
    await fence(kube, compute.name)
    await add_eviction_of(kube, compute.name, mode="evacuate", trigger="NodeFailure")
    before = {server.id: server.running for server in compute.moves.on(compute.name)}
    done, deaths = await succeeds(kube, client, compute, dying)
    assert sum(compute.moves.started.values()) == 4
    assert compute.moves.calls["evacuate"] <= 4 + dying.cut_off, "an evacuation was requested again"
    elsewhere = [server for n in range(2) for server in compute.moves.on(f"other-{n}")]
    assert {server.id: server.running for server in elsewhere} == before
    assert {e.phase for e in done.status.instances} == {InstancePhase.SUCCEEDED}
    assert all(server.locked for server in elsewhere)
    await unlock(kube, compute)
    assert compute.owners is not None
    assert not await compute.owners.locked("")
    return deaths


async def unlock(kube: Kube, compute: World) -> None:
    """Run one pass over the locked servers, by what the server has."""
    compute.moves.on_call = compute.moves.on_done = None
    evictions, hosts = await kube.list(Eviction), await kube.list(Hypervisor)
    uids = {host.metadata.uid for host in hosts.items}
    assert compute.owners is not None
    unlocking = UnlockingReconciler(compute.owners, lambda: evictions.items, lambda: uids)
    await unlocking.reconcile("all")


async def test_nothing_is_evacuated_twice_wherever_the_operator_dies(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        await wherever_it_dies(
            lambda label, dying: check_evacuation(kube, client, bury(f"{name}-{label}"), dying)
        )


async def test_nothing_is_evacuated_twice_when_the_answer_is_lost_with_the_operator(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        for calls in range(4):
            compute = bury(f"{name}-{calls}")
            compute.moves.on_done = Dying(calls)
            assert await check_evacuation(kube, client, compute, Dying()) == 1


async def test_nothing_is_evacuated_by_a_proof_that_only_the_cache_has(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        compute = bury(name)
        await add_hypervisor(kube, name)
        fenced = await fence(kube, name)
        await fence(kube, name, proven=False)  # the host is back
        await add_eviction_of(kube, name)
        process = Process(kube, client, compute, Dying())
        seen = await process.step(name, seen=fenced)
        assert seen is not None
        assert {check.name: check.result for check in seen.status.checks}["HostFenced"] == "Passed"
        assert "no longer proven dead" in (seen.status.instances[0].message or "")
        assert not compute.moves.calls["evacuate"]


async def check_restart(kube: Kube, client: Kube, compute: World, dying: Dying) -> int:
    (server,) = compute.fill(1, status="SHUTOFF")
    compute.moves.script(server.id, Script(seconds=0.05))
    await add_hypervisor(kube, compute.name)
    await add_eviction_of(kube, compute.name, trigger="InstanceCrash", instances=(server.id,))
    _, deaths = await succeeds(kube, client, compute, dying)
    (now,) = compute.moves.on(compute.name)
    assert (now.status, now.running) == ("ACTIVE", True)
    assert compute.moves.calls["restart"] <= 1 + dying.cut_off, "it was restarted again"
    return deaths


async def test_nothing_is_restarted_twice_wherever_the_operator_dies(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        await wherever_it_dies(
            lambda label, dying: check_restart(kube, client, world(f"{name}-{label}"), dying)
        )


async def test_nothing_is_restarted_twice_when_the_answer_is_lost_with_the_operator(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        compute = world(name)
        compute.moves.on_done = Dying(0)
        assert await check_restart(kube, client, compute, Dying()) == 1


async def test_deleted_eviction_evacuates_nothing_more_and_undoes_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with Kube(load_connection(kubeconfig)) as client:
        compute = world(name)
        for server in compute.fill(3):
            compute.moves.script(server.id, Script(seconds=0.5))
        compute.moves.dead.add(name)
        await add_hypervisor(kube, name)
        await fence(kube, name)
        await add_eviction_of(kube, name, parallelism=2)
        await run(
            kube, client, compute, Dying(), lambda e: e is not None and bool(e.status.instances)
        )
        assert compute.moves.under_way == 2
        await kube.delete(Eviction, name)
        await run(kube, client, compute, Dying(), lambda e: e is None)
        assert compute.moves.calls["evacuate"] == 2
        assert compute.moves.calls["abort"] == 0
        assert compute.moves.under_way == 2
