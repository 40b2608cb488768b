"""Agents of Nodes, by the tokens of their pods."""

from __future__ import annotations

from .conftest import Client

SPACE = "/api/v1/namespaces/default"
MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}


async def agents_of(admin: Client, *nodes: str) -> list[dict[str, str]]:
    """Headers of the agents on Nodes, whose account may write ConfigMaps."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": "default"}
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}
    meta = {"metadata": {"name": "maps"}}
    objects: tuple[tuple[str, dict[str, object]], ...] = (
        (f"{SPACE}/serviceaccounts", {"metadata": {"name": "agent"}}),
        (f"{roles}/roles", {**meta, "rules": [MAPS]}),
        (f"{roles}/rolebindings", {**meta, "roleRef": to, "subjects": [subject]}),
    )
    for path, made in objects:
        assert (await admin.post(path, json=made)).status_code == 201
    headers: list[dict[str, str]] = []
    for node in nodes:
        containers = [{"name": "a", "image": "a"}]
        spec = {"serviceAccountName": "agent", "nodeName": node, "containers": containers}
        body = {"metadata": {"name": f"agent-{node}"}, "spec": spec}
        pod = (await admin.post(f"{SPACE}/pods", json=body)).json()["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
        answer = await admin.post(
            f"{SPACE}/serviceaccounts/agent/token", json={"spec": {"boundObjectRef": bound}}
        )
        headers.append({"authorization": f"Bearer {answer.json()['status']['token']}"})
    return headers
