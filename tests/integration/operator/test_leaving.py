"""A host's way out, OpenStack away, and an operator that dies on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.conftest import AGENTS, DEFAULTS, add_node, operator, reason, until
from tests.integration.operator.dying import Dying
from tests.integration.operator.lifecycle import QUICK, agent_reports, message, set_spec, site
from tests.integration.operator.service import GENERAL, SKIP, TESTED, begun, in_service, is_ready
from tests.sockets import left_to_the_collector

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Server, Size
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]


async def test_host_that_terminates_leaves_openstack(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        gone = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded") == "True/Offboarded"
        )
    assert "Offboarding successful" in message(gone, "Offboarded")
    assert reason(gone, "AggregatesUpdated") == "False/Terminating"
    assert reason(gone, "HaEnabled") == "False/Evicted"
    assert gone.status.aggregates == ()
    assert name not in compute.world.hosts
    assert compute.world.names_of(name) == set()


async def test_host_that_was_never_tested_leaves_although_there_is_no_test_project(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)

    def fault(what: str, about: str) -> Exception | None:
        refused = what.startswith("smoke_tests")
        return RefusedError("could not find project: test", code=401) if refused else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))


async def test_test_servers_that_cannot_be_deleted_keep_no_host_in_service(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, broken = site(name), [False]
    compute.world.boots = ("BUILD", "")

    def fault(what: str, about: str) -> Exception | None:
        refused = broken[0] and what.startswith("smoke_tests")
        return RefusedError("could not find project: test", code=401) if refused else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await begun(kube, name, labels=TESTED)
        await until(kube, Hypervisor, name, lambda hv: hv.status.smokeTest is not None)
        broken[0] = True
        await set_spec(kube, name, maintenance="termination")
        held = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "True/Running"
        )
        assert reason(held, "Onboarding") == "True/Aborted"
        assert not compute.world.hosts[name].enabled
        assert "could not find project" in message(held, "Onboarding")
        assert "could not find project" in message(held, "Offboarded")
        broken[0] = False
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))
    assert compute.world.tests == {}


async def test_host_that_is_down_and_empty_leaves_openstack(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        compute.world.change_host(name, up=False, forced_down=True)
        await set_spec(kube, name, maintenance="termination")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))
    assert name not in compute.world.hosts


async def test_host_that_openstack_has_forgotten_is_offboarded_while_its_node_lives(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    quick = replace(QUICK, forgotten=timedelta(seconds=1))
    async with operator(kubeconfig, compute, lifecycle=quick):
        await in_service(kube, name)
        del compute.world.hosts[name]  # openstack compute service delete
        await set_spec(kube, name, maintenance="termination")
        gone = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True")
        )
    assert gone.status.evicted
    assert gone.status.aggregates == ()
    assert reason(gone, "AgentPodsEvicted") == "True/NoAgentPods"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("hosts.remove", "cannot delete service: "),
        ("providers.exists", "cannot get resource provider: "),
        ("providers.remove", "cannot clean up resource provider: "),
    ],
)
async def test_offboarding_retries_until_openstack_lets_the_host_leave(
    kube: Kube, kubeconfig: Path, name: str, call: str, words: str
) -> None:
    compute, refused = site(name), [True]

    def fault(what: str, about: str) -> Exception | None:
        return RefusedError("c1 is in the way") if what == call and refused[0] else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await set_spec(kube, name, maintenance="termination")
        held = await until(
            kube, Hypervisor, name, lambda hv: "c1 is in the way" in message(hv, "Offboarded")
        )
        assert reason(held, "Offboarded") == "False/Offboarding"
        assert message(held, "Offboarded").startswith(f"{words}c1 is in the way, since ")
        refused[0] = False
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))


async def test_host_that_gets_a_server_after_its_eviction_stays_in_openstack(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.hosts = {"target": Size(100, 100_000)}
    agent = Pod(
        metadata=ObjectMeta(name=f"agent-{name}", namespace=AGENTS[0]),
        spec=PodSpec(nodeName=name, containers=(Container(name="agent", image="agent"),)),
    )
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await in_service(kube, name)
        await kube.create(agent)
        await set_spec(kube, name, maintenance="termination")
        await until(
            kube, Hypervisor, name, lambda hv: "agent pods still run" in message(hv, "Offboarded")
        )
        compute.moves.add(Server("late", "late", name, "BUILD"))
        held = await until(
            kube, Hypervisor, name, lambda hv: "Evicting again" in message(hv, "Offboarded")
        )
        assert "when the host was empty: late" in message(held, "Evicting")
        assert held.status.evicted is False
        assert name in compute.world.hosts
        await kube.delete(Pod, agent.metadata.name, AGENTS[0], grace=timedelta(0))
        compute.moves.change("late", status="ACTIVE", running=True)
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))
    assert [server.id for server in compute.moves.on("target")] == ["late"]


async def test_openstack_away_at_start_is_a_condition_and_nothing_is_lost(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute, away = site(name), [True]
    compute.trouble = "nova does not answer"

    def fault(what: str, about: str) -> Exception | None:
        return UnreachableError("nova does not answer") if away[0] else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await add_node(kube, name, labels=SKIP, annotations=GENERAL)
        shown = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Registered") == "Unknown/Unreachable"
        )
        assert "nova does not answer, since " in message(shown, "Registered")
        await agent_reports(kube, name)
        away[0] = False
        await until(kube, Hypervisor, name, is_ready)
        away[0] = True
        kept = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Registered") == "Unknown/Unreachable"
        )
        assert reason(kept, "TraitsUpdated") == "True/Succeeded"
        assert reason(kept, "Ready") == "True/Ready"
        assert kept.status.serviceId == compute.world.hosts[name].service_id


async def test_one_bad_host_does_not_stop_the_others(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    bad, good = f"{name}-bad", f"{name}-good"
    compute = site(bad, good)

    def fault(what: str, about: str) -> Exception | None:
        return UnreachableError(f"{bad} hangs") if bad in about else None

    compute.world.fault = fault
    async with operator(kubeconfig, compute):
        await add_node(kube, bad, labels=SKIP)
        await in_service(kube, good)


class Death:
    """Ends the operator before, or after, a call of the compute service."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.task: asyncio.Task[None] | None = None

    def __call__(self, what: str, about: str) -> Exception | None:
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()
            return UnreachableError("dead")
        return None


async def run(kubeconfig: Path, compute: FakeCompute, dying: Dying, death: Death) -> None:
    """Run the operator until it dies."""
    metrics = Metrics()
    async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
        manager = Manager(client.guarded(dying), metrics=metrics)
        options = replace(DEFAULTS, lifecycle=QUICK)
        add_controllers(manager, options, metrics, lambda *_: compute)
        dying.task = death.task = asyncio.create_task(manager.run())
        # However it ends: the last error of a killed process does not count.
        await asyncio.wait_for(asyncio.gather(dying.task, return_exceptions=True), 10)


DEATHS = [f"write {n}" for n in range(1, 5)] + [f"call {n}" for n in range(1, 13)]


@pytest.mark.parametrize("before", DEATHS)
async def test_onboarding_goes_on_after_a_death(
    kube: Kube, kubeconfig: Path, name: str, before: str
) -> None:
    kind, _, number = before.partition(" ")
    compute = site(name)
    death = Death(int(number) if kind == "call" else -1)
    dying = Dying(int(number) - 1 if kind == "write" else 1_000_000)
    async with operator(kubeconfig):  # without a compute service: the host is there, no more
        await add_node(kube, name, labels=TESTED, annotations=GENERAL)
        await until(kube, Hypervisor, name, lambda _: True)
    await agent_reports(kube, name)
    compute.world.fault = death
    with left_to_the_collector():
        await run(kubeconfig, compute, dying, death)
    compute.world.fault = None
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await until(kube, Hypervisor, name, is_ready)
    assert compute.world.names_of(name) == {"general", "zone-a"}
    assert compute.world.tests == {}
    assert compute.world.hosts[name].servers == ()
    assert sum("smoke_tests.create" in call for call in compute.world.calls) <= 2


@pytest.mark.parametrize("call", range(1, 13))
async def test_termination_goes_on_after_a_death(
    kube: Kube, kubeconfig: Path, name: str, call: int
) -> None:
    compute = site(name)
    async with operator(kubeconfig, compute):
        await in_service(kube, name)
    await set_spec(kube, name, maintenance="termination")
    death = Death(call)
    compute.world.fault = death
    with left_to_the_collector():
        await run(kubeconfig, compute, Dying(1_000_000), death)
    compute.world.fault = None
    async with operator(kubeconfig, compute, lifecycle=QUICK):
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))
    assert name not in compute.world.hosts
    assert compute.world.names_of(name) == set()
