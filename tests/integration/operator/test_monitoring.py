"""What monitoring sees of hosts, Evictions and a compute service that is away."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from tests.integration.operator.conftest import Operator, add_node, operator, reason, until
from tests.integration.operator.lifecycle import QUICK, set_spec, site
from tests.integration.operator.service import TESTED, in_service
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.address import Address
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.model import Server
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANYWHERE = Address(port=0)


async def page(running: Operator, path: str) -> httpx2.Response:
    address = running.manager.address
    assert address is not None
    async with httpx2.AsyncClient() as client:
        return await client.get(f"http://127.0.0.1:{address.port}{path}")


async def test_onboarding_that_goes_well_counts_no_errors(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.world.change_host(name, enabled=False, disabled_reason="new")
    async with operator(kubeconfig, compute, lifecycle=QUICK, address=ANYWHERE) as running:
        await in_service(kube, name, labels=TESTED)
        text = (await page(running, "/metrics")).text
    assert sum("smoke_tests.create" in call for call in compute.world.calls) == 1
    assert 'controller_runtime_reconcile_total{controller="onboarding"' in text
    errors = [
        line
        for line in text.splitlines()
        if line.startswith("controller_runtime") and ("errors_total{" in line or '"error"' in line)
    ]
    assert [line for line in errors if not line.endswith(" 0.0")] == []


async def test_failed_eviction_is_a_number_above_zero_and_so_is_its_instance(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.moves.add(Server("i1", "web", name, "ERROR", fault="i1 is stuck"))
    async with operator(kubeconfig, compute, lifecycle=QUICK, address=ANYWHERE) as running:
        await in_service(kube, name, labels=TESTED)
        before = (await page(running, "/metrics")).text
        await set_spec(kube, name, maintenance="auto")
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "False/Failed")
        after = (await page(running, "/metrics")).text
    assert 'hypercobalt_hypervisors{state="Ready"} 1.0' in before
    assert 'hypercobalt_evictions{state="Failed"} 0.0' in before
    assert 'hypercobalt_hypervisors{state="Maintenance"} 1.0' in after
    assert 'hypercobalt_evictions{state="Failed"} 1.0' in after
    assert 'hypercobalt_eviction_instances{state="Failed"} 1.0' in after


async def test_readiness_reports_that_the_compute_service_is_away(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = site(name)
    compute.trouble = "nova does not answer"
    async with operator(kubeconfig, compute, address=ANYWHERE) as running:
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "NodeHealthy") != "")
        away, alive = await page(running, "/readyz?verbose"), await page(running, "/healthz")
        compute.trouble = ""

        async def is_back() -> bool:
            return (await page(running, "/readyz")).status_code == 200

        await eventually(is_back)
    assert (away.status_code, alive.status_code) == (500, 200)
    assert "nova does not answer" in away.text
