"""Other controllers switch high availability of a host, as on the existing HA service."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC
from pathlib import Path

import httpx2
import pytest
from tests.integration.apiserver.conftest import no_check
from tests.integration.operator.conftest import until
from tests.integration.operator.failing import failing
from tests.integration.operator.lifecycle import message, now
from tests.integration.operator.process import ADMIN, ELSEWHERE, FREE, LEASE, caller, cobalt
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.fencing.port import PowerState
from hypercobalt.api.address import Address
from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.ha_switch import HA_ENABLED
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import MicroTime
from hypercobalt.operator.ha.contract import AUDIENCE, MANAGER, PATH, Contract
from hypercobalt.operator.shared.hypervisors import BY_HOST, hosts_of
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.pki.certificates import make_ca, make_peer
from hypercobalt.runtime import Informer, Kube, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.endpoints import Endpoints

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

ON, OFF = b'{"enabled": true}', b'{"enabled": false}'


@contextlib.asynccontextmanager
async def lease_of_another(kube: Kube) -> AsyncIterator[None]:
    """Hold the lease for another process."""
    at = MicroTime.fromtimestamp(now().timestamp(), UTC)
    held = LeaseSpec(
        holderIdentity="another", leaseDurationSeconds=3600, acquireTime=at, renewTime=at
    )
    await kube.delete(Lease, LEASE, kube.namespace)
    await kube.create(Lease(metadata=ObjectMeta(name=LEASE, namespace=kube.namespace), spec=held))
    try:
        yield
    finally:
        await kube.delete(Lease, LEASE, kube.namespace)


@contextlib.asynccontextmanager
async def candidate(
    kubeconfig: Path, *flags: str, scheme: str = "https"
) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a process that does not lead, and yield a client of its HA service."""
    arguments = (
        f"--kubeconfig={kubeconfig}",
        "--leader-elect",
        "--agent-namespaces=agents",
        "--ovs-agent-namespace=",
        f"--health-probe-bind-address={FREE}",
        "--ha=internal",
        f"--ha-service-bind-address={ELSEWHERE}",
        "--zap-encoder=json",
    )
    async with cobalt(*arguments, *flags) as process:
        health = (await process.line("endpoints_opened"))["port"]
        port = (await process.line("endpoints_opened"))["port"]
        async with httpx2.AsyncClient() as probe:

            async def is_ready() -> bool:
                return (await probe.get(f"http://127.0.0.1:{health}/readyz")).status_code == 200

            await eventually(is_ready)
        url = f"{scheme}://127.0.0.2:{port}/api/hypervisors/"
        async with httpx2.AsyncClient(base_url=url, verify=no_check()) as client:
            yield client


def wish(hypervisor: Hypervisor | None) -> str | None:
    assert hypervisor is not None
    return hypervisor.metadata.annotations.get(HA_ENABLED)


async def add_hypervisor(kube: Kube, name: str) -> None:
    """Add a Hypervisor whose hostname label is not its name."""
    labels = {HOSTNAME_LABEL: f"{name}.example.com"}
    await kube.create(Hypervisor(metadata=ObjectMeta(name=name, labels=labels)))


async def test_ha_service_answers_with_the_statuses_of_the_contract(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    host, posts = f"{name}.example.com", await caller(kube, AUDIENCE, f"{PATH}*")
    posting, stranger, elsewhere = (
        {"authorization": f"Bearer {token}"}
        for token in (posts, await caller(kube, AUDIENCE), ADMIN)
    )
    await add_hypervisor(kube, name)
    async with lease_of_another(kube), candidate(kubeconfig) as client:

        async def post(path: str, content: bytes, headers: dict[str, str] = posting) -> int:
            return (await client.post(path, content=content, headers=headers)).status_code

        assert await post(host, OFF, {}) == 401
        assert await post(host, OFF, elsewhere) == 401  # a token for the API server
        assert await post(host, OFF, stranger) == 403
        assert await post(f"{name}-none", OFF) == 404
        assert await post(name, OFF) == 404  # its label is another
        assert await post(f"{host}/more", OFF) == 404
        bodies = (b"", b"off", b"{}", b'{"enabled": "no"}', b'{"enabled": null}', b"[" * 1024)
        assert [await post(host, body) for body in bodies] == [400] * len(bodies)
        assert await post(host, OFF.ljust(1025)) == 413
        refused = await client.get(host, headers=posting)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert wish(await kube.get(Hypervisor, name)) is None

        done = await client.post(host, content=OFF.ljust(1024), headers=posting)
        assert (done.status_code, done.json()) == (200, {})
        stored = await kube.get(Hypervisor, name)
        assert wish(stored) == "false"
        assert stored is not None
        assert MANAGER in {entry.manager for entry in stored.metadata.managedFields}
        assert await post(host, OFF) == 200
        again = await kube.get(Hypervisor, name)
        assert again is not None
        assert again.metadata.resourceVersion == stored.metadata.resourceVersion
        assert await post(host, ON) == 200
        assert wish(await kube.get(Hypervisor, name)) == "true"


async def test_caller_can_verify_the_certificate(
    kube: Kube, kubeconfig: Path, name: str, tmp_path: Path
) -> None:
    """Before it sends a token: a kubelet can have a pod answer in the operator's place."""
    ca = make_ca("ours")
    pair = make_peer(ca, "operator", ["127.0.0.2"])
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    await add_hypervisor(kube, name)
    token = await caller(kube, AUDIENCE, f"{PATH}*")
    async with (
        lease_of_another(kube),
        candidate(kubeconfig, f"--ha-service-cert-path={tmp_path}") as unverified,
        httpx2.AsyncClient(
            base_url=unverified.base_url,
            verify=ssl.create_default_context(cadata=ca.certificate.decode()),
            headers={"authorization": f"Bearer {token}"},
        ) as client,
    ):
        answer = await client.post(f"{name}.example.com", content=OFF)
    assert (answer.status_code, wish(await kube.get(Hypervisor, name))) == (200, "false")


async def test_without_guard_a_caller_without_a_token_is_served(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_hypervisor(kube, name)
    async with (
        lease_of_another(kube),
        candidate(kubeconfig, "--no-ha-service-secure", scheme="http") as client,
    ):
        answer = await client.post(f"{name}.example.com", content=OFF)
    assert (answer.status_code, wish(await kube.get(Hypervisor, name))) == (200, "false")


async def test_flag_needs_this_operator_to_be_the_ha_service(kubeconfig: Path) -> None:
    flags = ("--agent-namespaces=agents", f"--ha-service-bind-address={FREE}")
    async with cobalt(f"--kubeconfig={kubeconfig}", *flags) as running:
        _, errors = await asyncio.wait_for(running.process.communicate(), 20)
    assert running.process.returncode == 2
    assert "--ha-service-bind-address 127.0.0.1:0: needs --ha internal, not external" in str(errors)


@contextlib.asynccontextmanager
async def served(kube: Kube) -> AsyncIterator[httpx2.AsyncClient]:
    """The contract alone, for callers without a token."""
    selection = Selection(Hypervisor)
    informer = Informer(kube, selection, metrics=Metrics(), indexes={BY_HOST: hosts_of})
    pages = Endpoints(Address(port=0), routes=(Contract(kube, informer).route,))
    port = (await pages.start()).port
    url = f"http://127.0.0.1:{port}/api/hypervisors/"
    async with httpx2.AsyncClient(base_url=url) as client:
        early = await client.post("any", content=ON)
        assert early.status_code == 503  # the informer has not listed yet
        reading = asyncio.create_task(informer.run())
        try:
            await eventually(lambda: informer.has_synced)
            yield client
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            await pages.stop()


async def test_host_that_is_switched_off_is_not_recovered_until_it_is_switched_on(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with failing(kubeconfig, kube, name) as (_, host), served(kube) as client:
        assert (await client.post(name, content=OFF)).status_code == 200
        off = await host.until("HaEnabled", "False/Succeeded")
        assert HA_ENABLED in message(off, "HaEnabled")
        await host.dies()
        found = await until(
            kube, Hypervisor, name, lambda hv: HA_ENABLED in message(hv, "RecoveryBlocked")
        )
        assert "Silenced closed" in message(found, "RecoveryBlocked")
        assert (host.device.orders, found.spec.maintenance or "") == ([], "")

        assert (await client.post(name, content=ON)).status_code == 200
        await host.until("Fenced", "True/Proven")
    assert host.device.orders == [PowerState.OFF]
