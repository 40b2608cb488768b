"""`cobalt operator` as a process."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import httpx2
import pytest
from tests.integration.apiserver.conftest import no_check
from tests.integration.operator.conftest import DEADLINE, add_node, until_settled
from tests.integration.operator.lifecycle import set_spec
from tests.integration.operator.process import (
    ADMIN,
    ELSEWHERE,
    FREE,
    LEASE,
    Process,
    caller,
    cobalt,
)
from tests.integration.operator.service import in_service
from tests.integration.operator.simulated import served, world_of
from tests.integration.runtime.scripted import eventually
from tests.simulated_openstack.pace import Pace
from tests.simulated_openstack.serve import Simulation

from hypercobalt.api.coordination import Lease
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Kube
from hypercobalt.runtime.guard import METRICS

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def scraped(running: Process, kube: Kube, name: str, scheme: str) -> list[httpx2.Response]:
    """Responses of /metrics to callers.

    These are one without a token, an unknown one, an administrator with a token for the API server,
    a stranger and a scraper.

    Raises:
        AssertionError: the health pages are not as they should be.
    """
    health = (await running.line("endpoints_opened"))["port"]
    metrics = (await running.line("endpoints_opened"))["port"]
    await add_node(kube, name)
    await until_settled(kube, name)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{health}") as plain:
        assert (await plain.get("/readyz")).status_code == 200
        assert (await plain.get("/metrics")).status_code == 404
    url = f"{scheme}://127.0.0.2:{metrics}"
    async with httpx2.AsyncClient(base_url=url, verify=no_check()) as scraper:
        stranger, reader = await caller(kube, METRICS), await caller(kube, METRICS, "/metrics")
        tokens = ("wrong", ADMIN, stranger, reader)
        headers = [{"authorization": f"Bearer {token}"} for token in tokens]
        return [await scraper.get("/metrics", headers=shown) for shown in ({}, *headers)]


def chart_flags(kubeconfig: Path, *, secure: bool) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        "--leader-elect",
        f"--metrics-bind-address={ELSEWHERE}",
        f"--metrics-secure={str(secure).lower()}",
        f"--health-probe-bind-address={FREE}",
        "--agent-namespaces=agents, more-agents,agents",
        "--certificate-namespace=monsoon3",
        "--certificate-issuer-name=some-issuer",
        "--label-selector=",
        "--zap-log-level=info",
        "--zap-encoder=json",
        "--zap-devel=false",
        "--zap-time-encoding=rfc3339",
    )


async def test_operator_runs_with_the_flags_of_the_existing_chart(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with cobalt(*chart_flags(kubeconfig, secure=False)) as running:
        *_, answer = await scraped(running, kube, name, "http")
        lease = await kube.get(Lease, LEASE, kube.namespace)
        running.process.terminate()
        code = await asyncio.wait_for(running.process.wait(), DEADLINE)
    for controller in ("hypervisor", "ready", "HypervisorTaint", "certificate", "maintenance"):
        assert f'controller_runtime_reconcile_total{{controller="{controller}"' in answer.text
    assert lease is not None
    assert lease.spec.holderIdentity
    released = await kube.get(Lease, LEASE, kube.namespace)
    assert released is not None
    assert (code, released.spec.holderIdentity) == (0, "")


async def test_metrics_are_for_those_that_the_api_server_allows(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with cobalt(*chart_flags(kubeconfig, secure=True)) as running:
        answers = await scraped(running, kube, name, "https")
    expected = [401, 401, 401, 403, 200]
    assert [answer.status_code for answer in answers] == expected
    assert ["controller_runtime" in answer.text for answer in answers] == [
        status == 200 for status in expected
    ]


@pytest.mark.timeout(120)  # a lease is waited for
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_of_two_processes_the_second_ends_the_eviction_of_the_first(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    world, other = world_of(name, pace=Pace(live=4)), f"{name}-other"
    world.add_host(other)
    flags = (*chart_flags(kubeconfig, secure=False), "--max-parallel-per-source=2")
    async with served(monkeypatch, world) as simulation, cobalt(*flags, compute="nova") as one:
        await one.stands_by()
        await eventually(partial(held, kube))
        async with cobalt(*flags, compute="nova") as two:
            await two.stands_by()
            await in_service(kube, name)
            for _ in range(4):
                world.add_server(name)
            await set_spec(kube, name, maintenance="auto")
            await eventually(lambda: len(world.migrations) == 2)
            one.process.send_signal(how)
            await eventually(partial(evicted, kube, name), seconds=50)
            if how is signal.SIGSTOP:  # the process goes on in the middle of its work
                before = changes(simulation)
                one.process.send_signal(signal.SIGCONT)
                await asyncio.wait_for(one.process.wait(), DEADLINE)
                assert changes(simulation) == before
    assert len(world.migrations) == 4
    assert {server.host for server in world.servers.values()} == {other}


def changes(simulation: Simulation) -> dict[str, int]:
    """How often each kind of change was requested."""
    calls = simulation.script.calls.items()
    return {kind: n for kind, n in calls if " GET " not in kind and "identity" not in kind}


async def held(kube: Kube) -> bool:
    """Whether a process has the lease."""
    lease = await kube.get(Lease, LEASE, kube.namespace)
    return lease is not None and bool(lease.spec.holderIdentity)


async def evicted(kube: Kube, name: str) -> bool:
    found = await kube.get(Hypervisor, name)
    return found is not None and bool(found.status.evicted)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "--agent-namespaces is empty"),
        (("--agent-namespaces", " , "), "--agent-namespaces is empty"),
        (("--agent-namespaces", "a", "--certificate-namespace", ""), "--certificate-namespace"),
        (("--agent-namespaces", "a", "--certificate-issuer-name", ""), "--certificate-issuer-name"),
        (("--agent-namespaces", "a", "--label-selector", "a=b=c"), "--label-selector"),
        (("--agent-namespaces", "a", "--metrics-bind-address", "here"), "--metrics-bind-address"),
        (("--agent-namespaces", "a", "--zap-log-level", "loud"), "--zap-log-level"),
    ],
)
async def test_unusable_arguments_are_named(
    kubeconfig: Path, flags: tuple[str, ...], text: str
) -> None:
    everywhere = ("--health-probe-bind-address", FREE)
    async with cobalt("--kubeconfig", str(kubeconfig), *everywhere, *flags) as running:
        _, errors = await asyncio.wait_for(running.process.communicate(), DEADLINE)
    assert running.process.returncode == 2
    assert text in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_version_is_printed_before_anything_is_checked() -> None:
    async with cobalt("--version") as running:
        out, _ = await asyncio.wait_for(running.process.communicate(), DEADLINE)
    assert running.process.returncode == 0
    assert out.decode().startswith("hypercobalt-operator ")
