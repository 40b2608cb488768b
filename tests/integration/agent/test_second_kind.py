"""The frame carries an agent of another kind, from the settings over exec to the released Lease."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.following import follow
from tests.integration.agent.process import Process, lines_until, started, stopped
from tests.integration.agent.switch_agent import layout
from tests.integration.node_agent.host.certificates import issuing
from tests.integration.node_agent.host.conftest import NAMESPACE, certificates, kube, server

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.coordination import Lease
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server
from hypercobalt.runtime import Kube

__all__ = ["certificates", "kube", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

NODE, LEASE = "kvm-a", "ovs-agent-kvm-a"
SECONDS = 30.0
LAUNCH = """
import sys
from pathlib import Path
from hypercobalt.agent.launch import become
from hypercobalt.runtime import Address
from tests.integration.agent.switch_agent import Settings
become("tests.integration.agent.switch_agent", Settings(
    sys.argv[1], Path(sys.argv[3]), namespace=sys.argv[2], kubeconfig=Path(sys.argv[4]),
    bridges=tuple(sys.argv[5:]), health=Address("127.0.0.1", 0)))
"""


@contextlib.asynccontextmanager
async def agent(server: Server, pki: Path, *bridges: str) -> AsyncIterator[Process]:
    arguments = (NODE, NAMESPACE, str(pki), str(server.kubeconfig), *bridges)
    async with started(sys.executable, "-c", LAUNCH, *arguments) as process:
        yield process


def state(node: OVSNode, type_: str) -> str:
    found = get_condition(node.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


def names(node: OVSNode) -> list[str]:
    return [bridge.name for bridge in node.status.bridges]


async def test_another_kind_of_agent_reports_restarts_and_lets_go(
    server: Server, kube: Kube, tmp_path: Path
) -> None:
    def reported(found: OVSNode) -> bool:
        return state(found, "CertificateInstalled") == "True/Ready" and bool(names(found))

    async with issuing(kube) as issuer, agent(server, tmp_path, "br-int", "br-ex") as one:
        (*_, serving) = await lines_until(one, "endpoints_opened")
        found = await follow(kube, OVSNode, NODE, reported, seconds=SECONDS)
        lease = await kube.get(Lease, LEASE, NAMESPACE)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{serving['port']}") as client:
            ready = await client.get("/readyz")
        async with agent(server, tmp_path, "br-int") as other:
            (*_, waiting) = await lines_until(other, "lease_held_by_another_agent")
        assert await stopped(one) == 0
    released = await kube.get(Lease, LEASE, NAMESPACE)

    assert names(found) == ["br-int", "br-ex"]
    assert state(found, "AllBridgesHealthy") == "True/AllActive"
    assert ready.status_code == 200, ready.text
    assert lease is not None
    assert lease.spec.holderIdentity == waiting["holder"]
    assert [owner.kind for owner in lease.metadata.ownerReferences] in ([], ["OVSNode"])
    assert released is not None
    assert released.spec.holderIdentity == ""
    (request,) = issuer.seen
    assert request.metadata.name.startswith(f"ovs-{NODE}-")
    assert request.metadata.labels == {"app.kubernetes.io/managed-by": "ovs-agent"}
    assert layout(tmp_path).in_place()

    async with agent(server, tmp_path) as again:
        await lines_until(again, "lease_acquired")
        after = await follow(
            kube,
            OVSNode,
            NODE,
            lambda now: state(now, "AllBridgesHealthy") == "Unknown/NoAnswer",
            seconds=SECONDS,
        )
        assert await stopped(again) == 0
    assert names(after) == names(found)
