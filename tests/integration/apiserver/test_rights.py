"""Rights as people use them: real kubectl against a server that enforces."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from hypercobalt.apiserver.access import bootstrap
from hypercobalt.apiserver.server import ServerOptions, serve

from .conftest import Client, no_check

KUBECTL = Path(sys.executable).with_name("kubectl")
Kubectl = Callable[..., Awaitable[tuple[int, str]]]
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ACCOUNT = "system:serviceaccount:default:robot"


@pytest.fixture
async def kubectl(options: ServerOptions, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Yield a function that runs kubectl and returns its exit code and output.

    With `token`, kubectl runs as the token's user, else as the administrator.
    """
    async with serve(options) as server:
        bare = yaml.safe_load(server.kubeconfig.read_text())
        bare["users"][0]["user"] = {}
        (tmp_path / "bare").write_text(yaml.safe_dump(bare))

        async def run(*arguments: str, token: str = "") -> tuple[int, str]:
            config = tmp_path / "bare" if token else server.kubeconfig
            process = await asyncio.create_subprocess_exec(
                KUBECTL,
                *(f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}"),
                *([f"--token={token}"] if token else []),
                *arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "HOME": str(tmp_path)},
            )
            out, _ = await process.communicate()
            return process.returncode or 0, out.decode().strip()

        yield run


async def test_roles_are_created_bound_and_reviewed(kubectl: Kubectl) -> None:
    for line in (
        "create serviceaccount robot",
        "create role reader --verb=get,list --resource=pods,configmaps",
        "create rolebinding reader --role=reader --serviceaccount=default:robot",
    ):
        assert (await kubectl(*line.split()))[0] == 0, line
    for line, answer in {
        "list pods": "yes",
        "get configmap/x": "yes",
        "delete pods": "no",
        "list secrets": "no",
        "list pods -n kube-system": "no",
        "list pods -A": "no",
        "get /version": "yes",
        "get /metrics": "no",
    }.items():
        _, printed = await kubectl("auth", "can-i", *line.split(), f"--as={ACCOUNT}")
        assert printed.splitlines()[-1] == answer, line
    _, listed = await kubectl("auth", "can-i", "--list", f"--as={ACCOUNT}")
    assert "configmaps" in listed
    assert "*.*" not in listed


async def test_token_of_an_account_is_accepted(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    code, token = await kubectl("create", "token", "robot", "--duration=10m")
    assert code == 0, token
    assert ACCOUNT in (await kubectl("auth", "whoami", token=token))[1]
    code, printed = await kubectl("get", "pods", token=token)
    assert code == 1
    assert f'User "{ACCOUNT}" cannot list resource "pods" in API group ""' in printed
    bind = "create rolebinding r --clusterrole=view --serviceaccount=default:robot"
    await kubectl(*bind.split())
    assert (await kubectl("get", "pods", token=token))[0] == 0
    assert (await kubectl("get", "secrets", token=token))[0] == 1
    await kubectl("delete", "serviceaccount", "robot")
    assert "must be logged in" in (await kubectl("get", "pods", token=token))[1]


async def test_user_may_not_give_away_more_than_they_have(kubectl: Kubectl) -> None:
    await kubectl("create", "rolebinding", "eve", "--clusterrole=admin", "--user=eve")
    code, printed = await kubectl(
        *("create", "rolebinding", "x", "--clusterrole=cluster-admin", "--user=eve", "--as=eve")
    )
    assert code == 1
    assert "is attempting to grant RBAC permissions not currently held" in printed
    code, printed = await kubectl(
        *("create", "rolebinding", "y", "--clusterrole=view", "--user=bob", "--as=eve")
    )
    assert code == 0, printed


async def test_aggregated_role_follows_the_roles_that_it_selects(api: Client) -> None:
    async def rules(name: str) -> list[dict[str, list[str]]]:
        answer = (await api.get(f"{CLUSTER_ROLES}/{name}")).json()
        return list(answer["rules"] or ())

    assert any("pods/log" in rule.get("resources", []) for rule in await rules("admin"))
    gadgets = {"apiGroups": ["g.io"], "resources": ["gadgets"], "verbs": ["get"]}
    meta = {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    body = {"metadata": meta, "rules": [gadgets]}
    assert (await api.post(CLUSTER_ROLES, json=body)).status_code == 201
    for name in ("view", "edit", "admin"):
        assert gadgets in await rules(name)
    await api.delete(f"{CLUSTER_ROLES}/more")
    for name in ("view", "edit", "admin"):
        assert gadgets not in await rules(name)


async def test_aggregated_role_follows_a_role_that_goes_with_its_owner(api: Client) -> None:
    owner = (await api.post(CLUSTER_ROLES, json={"metadata": {"name": "owner"}})).json()
    ref = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner"}
    meta = {
        "name": "more",
        "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        "ownerReferences": [{**ref, "uid": owner["metadata"]["uid"]}],
    }
    rule = {"apiGroups": ["g.io"], "resources": ["gadgets"], "verbs": ["get"]}
    await api.post(CLUSTER_ROLES, json={"metadata": meta, "rules": [rule]})
    async with api.watching(CLUSTER_ROLES, fieldSelector="metadata.name=view") as watch:
        assert rule in (await watch.next())[1]["rules"]
        await api.delete(f"{CLUSTER_ROLES}/owner")
        assert rule not in (await watch.next())[1]["rules"]


async def test_first_objects_are_restored_at_the_next_start(options: ServerOptions) -> None:
    discovery, basic, viewer = "system:discovery", "system:basic-user", "view"
    async with serve(options) as server, Client(server.url) as api:
        await api.delete(f"{CLUSTER_ROLES}/{discovery}")
        body = (await api.get(f"{CLUSTER_ROLES}/{basic}")).json()
        more = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
        await api.put(f"{CLUSTER_ROLES}/{basic}", json={**body, "rules": [more]})
        body = (await api.get(f"{CLUSTER_ROLES}/{viewer}")).json()
        body["metadata"]["annotations"][bootstrap.AUTOUPDATE] = "false"
        await api.put(f"{CLUSTER_ROLES}/{viewer}", json={**body, "aggregationRule": None})
        body = (await api.get(f"{CLUSTER_BINDINGS}/{discovery}")).json()
        body["roleRef"]["name"] = "view"
        body["metadata"].pop("resourceVersion")
        await api.delete(f"{CLUSTER_BINDINGS}/{discovery}")
        assert (await api.post(CLUSTER_BINDINGS, json=body)).status_code == 201
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.get(f"{CLUSTER_ROLES}/{discovery}")).json()["rules"]
        rules = (await api.get(f"{CLUSTER_ROLES}/{basic}")).json()["rules"]
        assert more in rules
        assert len(rules) > 1
        assert "aggregationRule" not in (await api.get(f"{CLUSTER_ROLES}/{viewer}")).json()
        body = (await api.get(f"{CLUSTER_BINDINGS}/{discovery}")).json()
        assert body["roleRef"]["name"] == discovery
        revision = (await api.get(CLUSTER_ROLES)).json()["metadata"]["resourceVersion"]
    async with serve(options) as server, Client(server.url) as api:
        found = (await api.get(CLUSTER_ROLES)).json()["metadata"]["resourceVersion"]
        assert found == revision  # a start that has nothing to restore writes nothing


async def test_refused_request_is_answered_before_its_body_arrives(api: Client) -> None:
    host, port = api.base_url.host, api.base_url.port
    reader, writer = await asyncio.open_connection(host, port, ssl=no_check())
    head = "POST /api/v1/namespaces/default/secrets HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000"
    writer.write(f"{head}\r\nAuthorization: Bearer secret-viewer\r\n\r\n".encode())
    async with asyncio.timeout(10):
        line = await reader.readline()
    writer.close()
    assert line.split()[1] == b"403"
