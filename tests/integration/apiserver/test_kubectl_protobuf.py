"""Stock kubectl's typed clients, which send protobuf, against the embedded server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hypercobalt.apiserver.server import ServerOptions, serve

KUBECTL = Path(sys.executable).with_name("kubectl")
DEADLINE_SECONDS = 30.0
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
}
CREATED = [
    ("namespace x", "namespaces/x"),
    ("configmap c --from-literal=a=b", "configmaps/c"),
    ("secret generic s --from-literal=a=b", "secrets/s"),
    ("deployment d --image=nginx:1 --replicas=0 --port=80", "deployments/d"),
    ("serviceaccount a", "serviceaccounts/a"),
    ("service clusterip v --tcp=80:8080", "services/v"),
    ("role r --verb=get,list --resource=pods", "roles/r"),
    ("rolebinding b --role=r --user=u", "rolebindings/b"),
    ("clusterrole cr --verb=get --resource=nodes", "clusterroles/cr"),
    ("clusterrolebinding cb --clusterrole=cr --group=g", "clusterrolebindings/cb"),
    ("poddisruptionbudget p --selector=a=b --min-available=50%", "poddisruptionbudgets/p"),
]

Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Runs kubectl against a fresh server, and gives what it printed."""
    async with serve(ServerOptions(tmp_path / "data", port=0)) as server:
        config = str(server.kubeconfig)

        async def run(*arguments: str, stdin: object = None) -> str:
            process = await asyncio.create_subprocess_exec(
                KUBECTL,
                *arguments,
                env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "KUBECONFIG": config},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            sent = json.dumps(stdin).encode()
            async with asyncio.timeout(DEADLINE_SECONDS):
                printed, _ = await process.communicate(sent)
            assert process.returncode == 0, printed.decode()
            return printed.decode()

        yield run


def subset(part: object, whole: object) -> bool:
    """Whether `whole` has everything that `part` has; empty values are nothing."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(subset(v, whole.get(n)) for n, v in part.items() if v not in ({}, None))
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(subset, part, whole))
    return part == whole


async def test_created_objects_are_those_that_kubectl_meant(kubectl: Kubectl) -> None:
    for command, path in CREATED:
        arguments = ("create", *command.split())
        meant = json.loads(await kubectl(*arguments, "--dry-run=client", "-o", "json"))
        meant.pop("status", None)  # the server's own

        await kubectl(*arguments)

        stored = json.loads(await kubectl("get", path.replace("/", " ").split()[0], "-o", "json"))
        named = [o for o in stored["items"] if o["metadata"]["name"] == path.partition("/")[2]]
        assert subset(meant, named[0]), (command, meant, named[0])


async def test_objects_are_deleted_with_options(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c")
    await kubectl("create", "deployment", "d", "--image=i")

    await kubectl("delete", "configmap", "c")
    await kubectl("delete", "deployment", "d", "--cascade=orphan", "--wait=false")

    assert "configmap/c\n" not in await kubectl("get", "configmaps", "-o", "name")
    left = json.loads(await kubectl("get", "deployments", "-o", "json"))["items"]
    # The option arrived: gone by now, or waiting for its dependents to be let go.
    assert all(o["metadata"]["finalizers"] == ["orphan"] for o in left)


async def test_access_reviews_are_answered(kubectl: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "get", "pods")).strip() == "yes"
    assert "kubernetes-admin" in await kubectl("auth", "whoami")
    assert "*.*" in await kubectl("auth", "can-i", "--list")


async def test_nodes_are_tainted_cordoned_and_drained(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=NODE)
    await kubectl("create", "-f", "-", stdin=POD)

    await kubectl("taint", "node", "n1", "k=v:NoSchedule")
    await kubectl("cordon", "n1")
    planned = await kubectl("drain", "n1", "--force", "--dry-run=server")

    node = json.loads(await kubectl("get", "node", "n1", "-o", "json"))
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["spec"]["unschedulable"] is True
    assert "drained (server dry run)" in planned


async def test_a_node_is_drained_by_evictions(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=NODE)
    await kubectl("create", "-f", "-", stdin=POD)

    # There is no kubelet here, so the pod must have no grace period.
    await kubectl("drain", "n1", "--force", "--grace-period=0", "--timeout=20s")

    assert await kubectl("get", "pods", "-o", "name") == ""
