"""`cobalt operator --compute nova` as a process, between an API server and a cloud."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from tests.integration.apiserver.conftest import certificates, fresh
from tests.integration.cert_manager import CERT_MANAGER
from tests.openstack.client import Account, Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import DISABLED, hypervisors, provider_id, set_service
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.core import (
    Namespace,
    Node,
    NodeAddress,
    NodeCondition,
    NodeStatus,
    NodeSystemInfo,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import serve
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    TRAITS_ANNOTATION,
    ZONE_LABEL,
)
from hypercobalt.runtime import Kube, load_connection

__all__ = ["certificates"]

ZONE, AGGREGATE, TEST_AGGREGATE = "zone-a", "general", "tenant_filter_tests"
TRAIT = "CUSTOM_WHOLE_LIFE"
WITHIN = 240  # seconds for one step, on a busy machine
_NAMESPACES = ("agents", "monsoon3", "kube-system")


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server with nothing in it but our kinds, and a person's client of it."""

    kubeconfig: Path
    kube: Kube

    async def hypervisor(self, name: str) -> Hypervisor:
        """A Hypervisor that is there."""
        found = await self.kube.get(Hypervisor, name)
        assert found is not None
        return found

    async def until(self, name: str, good: Callable[[Hypervisor], bool]) -> Hypervisor:
        """Wait until a Hypervisor is as wanted."""
        found: Hypervisor = await until(
            lambda: self.kube.get(Hypervisor, name),
            lambda found: found is not None and good(found),
            WITHIN,
        )
        return found

    async def change(self, name: str, **spec: object) -> None:
        """Change the spec of a Hypervisor, as a person does."""

        def changed(found: Hypervisor) -> Hypervisor:
            return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec))

        assert await self.kube.modify(Hypervisor, name, changed) is not None

    async def add_node(self, name: str, *, tested: bool) -> None:
        """A host's Node, as Gardener and the kubelet write it."""
        meta = ObjectMeta(
            name=name,
            labels={
                HYPERVISOR_LABEL: "libvirt",
                HOSTNAME_LABEL: name,
                ZONE_LABEL: ZONE,
                LIFECYCLE_LABEL: "true" if tested else "skip-tests",
            },
            annotations={AGGREGATES_ANNOTATION: AGGREGATE, TRAITS_ANNOTATION: TRAIT},
        )
        await self.kube.create(Node(metadata=meta))
        status = NodeStatus(
            addresses=(NodeAddress(type="InternalIP", address="192.0.2.1"),),
            conditions=(NodeCondition(type="Ready", status="True"),),
        )
        await self.kube.modify(
            Node,
            name,
            lambda node: msgspec.structs.replace(node, status=status),
            subresource="status",
        )

    async def boots(self, name: str, boot: str, *, ready: str = "True") -> None:
        """What the kubelet writes of its host, and of the boot that it runs in."""

        def written(node: Node) -> Node:
            conditions = (NodeCondition(type="Ready", status=ready),)
            info = NodeSystemInfo(bootID=boot)
            status = msgspec.structs.replace(node.status, conditions=conditions, nodeInfo=info)
            return msgspec.structs.replace(node, status=status)

        assert await self.kube.modify(Node, name, written, subresource="status") is not None

    async def agent_reports(self, name: str, boot: str | None = None) -> None:
        """What the host's node agent writes when libvirt answers."""
        conditions = set_condition(
            (), "LibVirtConnection", "True", "Connected", "", now=datetime.now(UTC)
        )
        mine = HypervisorStatus(
            libVirtVersion="9.0.0", numInstances=0, bootID=boot, conditions=conditions
        )
        await self.kube.as_manager("kvm-node-agent").apply(
            Hypervisor(metadata=ObjectMeta(name=name), status=mine),
            force=True,
            subresource="status",
        )


@pytest.fixture
async def cluster(tmp_path: Path, certificates: Path) -> AsyncIterator[Cluster]:
    folder = tmp_path / "api"
    options = fresh(folder, certificates)
    manifests = (*options.manifests, msgspec.json.encode(CERT_MANAGER))
    async with (
        serve(replace(options, manifests=manifests)) as server,
        Kube(load_connection(server.kubeconfig), field_manager="person") as kube,
    ):
        for name in _NAMESPACES:
            if await kube.get(Namespace, name) is None:
                await kube.create(Namespace(metadata=ObjectMeta(name=name)))
        yield Cluster(server.kubeconfig, kube)


@pytest.fixture
async def fresh_hosts(
    cloud: Cloud, admin: Session, servers: Servers
) -> AsyncIterator[tuple[str, str]]:
    """Two hosts before their onboarding: disabled, in no aggregate; afterwards as they were."""
    for name, zone in ((ZONE, ZONE), (AGGREGATE, None), (TEST_AGGREGATE, None)):
        body = {"aggregate": {"name": name, "availability_zone": zone}}
        (await admin("compute", "POST", "/os-aggregates", body, version=VERSION)).ok()
    for host in cloud.hosts[:2]:
        await set_service(admin, host, status="disabled", disabled_reason="new")
    yield cloud.hosts[0], cloud.hosts[1]
    await servers.remove_all()  # a host leaves a zone only when it is empty
    if cloud.hosts[0] not in await hypervisors(admin):
        await cloud.crash(cloud.hosts[0])
        await cloud.restore(cloud.hosts[0])
    answer = await admin("compute", "GET", "/os-aggregates", version=VERSION)
    for aggregate in answer.ok()["aggregates"]:
        path = f"/os-aggregates/{aggregate['id']}"
        for host in aggregate["hosts"]:
            body = {"remove_host": {"host": host}}
            (await admin("compute", "POST", f"{path}/action", body)).ok()
        (await admin("compute", "DELETE", path)).ok()
    await until(lambda: hypervisors(admin), lambda found: set(found) == set(cloud.hosts))
    for host in cloud.hosts[:2]:
        await set_service(admin, host, status="enabled")
        await without_trait(admin, await provider_id(admin, host))
    await admin("placement", "DELETE", f"/traits/{TRAIT}", version=PLACEMENT)


async def without_trait(admin: Session, provider: str) -> None:
    async def write() -> int:
        path = f"/resource_providers/{provider}/traits"
        seen = (await admin("placement", "GET", path, version=PLACEMENT)).ok()
        body = seen | {"traits": sorted({*seen["traits"]} - {TRAIT, DISABLED})}
        return (await admin("placement", "PUT", path, body, version=PLACEMENT)).code

    await until(write, lambda code: code == 200)


@contextlib.asynccontextmanager
async def operator(
    cluster: Cluster, cloud: Cloud, log: Path, *flags: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the operator until the block is left; what it logs is shown when the test fails."""
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("cobalt")), "operator", "--compute=nova"),
            *(f"--kubeconfig={cluster.kubeconfig}", "--agent-namespaces=agents"),
            *("--health-probe-bind-address=127.0.0.1:0", "--zap-encoder=json", *flags),
            env=_environment(cloud.admin),
            stderr=lines,
        )
    try:
        yield process
        assert process.returncode is None, "the operator has ended"
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 30)
        sys.stderr.write(log.read_text()[-20_000:])


def _environment(account: Account) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    return outside | {
        "OS_AUTH_URL": account.auth_url,
        "OS_USERNAME": account.user,
        "OS_PASSWORD": account.password,
        "OS_PROJECT_NAME": account.project,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": account.region,
    }


def condition(hypervisor: Hypervisor, type_: str) -> str:
    """`status/reason` of a condition, empty if there is none."""
    found = next((c for c in hypervisor.conditions if c.type == type_), None)
    return f"{found.status}/{found.reason}" if found else ""
