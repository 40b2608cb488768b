"""Who may what on a server: the rights that the lab installs, and a host's credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, cast

from tests.conformance.captured.arrangements import ISSUER
from tests.conformance.captured.site import CAPTURED
from tests.conformance.permitted import object_path
from tests.conformance.prepare import call
from tests.conformance.real import TOKEN, Server, write_kubeconfig
from tests.conformance.wire import Body, Json

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab import rights
from hypercobalt.runtime.guard import METRICS

_PROMETHEUS: Final = "prometheus"
NODE_AGENT, OVS_AGENT, KUBELET = "node agent", "OVS agent", "kubelet"
UNBOUND, OPERATOR = "node agent of no Node", "operator"
SCRAPERS: Final = ("the token of Prometheus's pod", "Prometheus's token for metrics")
"""Whoever reads pages of metrics has one of these, the first if it can."""
WHOLE_HOST: Final = "whole host"
"""All that a host has: of each write one."""
OF_A_HOST: Final = (NODE_AGENT, OVS_AGENT, KUBELET)
CREDENTIALS: Final = (*OF_A_HOST, WHOLE_HOST, UNBOUND, OPERATOR)

User = Mapping[str, str]
"""Headers that a server knows a user by."""


def install(server: Server, change: Callable[[list[Body]], None] | None = None) -> dict[str, User]:
    """Give everybody their rights; returns the credentials of the captured host, by their kinds.

    Args:
        server: it may have them from before.
        change: changes what the charts give.
    """
    there = {it["metadata"]["name"] for it in call(server, "GET", "/api/v1/namespaces")["items"]}
    for name in {rights.OVS_NAMESPACE, "kube-node-lease", "default", "kube-system"} - there:
        call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    charts = _charts()
    if change is not None:
        change(charts)
    for body in [*charts, *_kubelet(), *_prometheus()]:
        put(server, object_path(body), body)
    operator = token(server, rights.NAMESPACE, rights.OPERATOR)
    kubeconfig = server.kubeconfig.with_name("captured-operator")
    write_kubeconfig(kubeconfig, server.url, server.ca_file, operator)
    kubelet = {
        "Authorization": f"Bearer {TOKEN}",
        "Impersonate-User": rights.node_user(CAPTURED),
        "Impersonate-Group": "system:nodes",
    }
    return {
        NODE_AGENT: _bearer(token(server, rights.NAMESPACE, rights.NODE_AGENT, CAPTURED)),
        OVS_AGENT: _bearer(token(server, rights.OVS_NAMESPACE, rights.OVS_AGENT, CAPTURED)),
        KUBELET: kubelet,
        UNBOUND: _bearer(token(server, rights.NAMESPACE, rights.NODE_AGENT)),
        **{
            name: _bearer(token(server, rights.NAMESPACE, _PROMETHEUS, audience=audience))
            for name, audience in zip(SCRAPERS, ("", METRICS), strict=True)
        },
        OPERATOR: _bearer(operator),
    }


def remove(server: Server) -> None:
    """Take the rights back: all tests share the servers."""
    for body in [*_charts(), *_kubelet(), *_prometheus()]:
        if body["kind"].startswith(("Validating", "Cluster")):
            call(server, "DELETE", f"{object_path(body)}/{body['metadata']['name']}")


def put(server: Server, path: str, body: Body) -> Body:
    """Make an object, or give one that is there this content."""
    named = f"{path}/{body['metadata']['name']}"
    try:
        made: Body = call(server, "POST", path, body)
    except RuntimeError as error:
        if ": 409: " not in str(error):
            raise
        there = call(server, "GET", named)
        if body["kind"] in {"Pod", "ServiceAccount"}:
            return cast("Body", there)
        meta = {**body["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
        made = call(server, "PUT", named, {**body, "metadata": meta})
    return made


def _charts() -> list[Body]:
    found = [cast("Body", one) for one in rights.manifests("direct")]
    return [_requesting(one) for one in found]


def _requesting(body: Body) -> Body:
    """Give agents what their chart does with `certificates.source: request`, unlike the lab."""
    kind, name = body["kind"], body["metadata"]["name"]
    if (kind, name) == ("Role", rights.NODE_AGENT):
        verbs: Json = ["get", "watch", "create", "delete"]
        rule = {"apiGroups": ["cert-manager.io"], "resources": ["certificaterequests"]}
        return {**body, "rules": [*body["rules"], {**rule, "verbs": verbs}]}
    text = json.dumps(body)
    issuer = json.dumps('issuerRef.name == "{}"').strip('"')
    return cast("Body", json.loads(text.replace(issuer.format(""), issuer.format(ISSUER))))


def _prometheus() -> list[Body]:
    """A Prometheus that may read more than metrics, as one that finds its targets by itself."""
    group = "rbac.authorization.k8s.io"
    account = {"name": _PROMETHEUS, "namespace": rights.NAMESPACE}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": _PROMETHEUS}
    rules: Json = [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    ]
    bound = {"roleRef": role, "subjects": [{"kind": "ServiceAccount", **account}]}
    of = {"apiVersion": f"{group}/v1", "metadata": {"name": _PROMETHEUS}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {**of, "kind": "ClusterRole", "rules": rules},
        {**of, "kind": "ClusterRoleBinding", **bound},
    ]


def _kubelet() -> list[Body]:
    """What the lab lets a host's heartbeat do, and what any kubelet may write of its own Node."""
    made: list[Body] = []
    for one in rights.of_heartbeat(Node(metadata=ObjectMeta(name=CAPTURED, uid="0"))):
        body: Body = to_builtins(one)
        info = type(one).resource
        body |= {"apiVersion": f"{info.group}/{info.version}", "kind": info.kind}
        del body["metadata"]["ownerReferences"]
        if body["kind"] == "ClusterRole":
            verbs: Json = ["get", "patch", "update", "list", "watch"]
            named = {"apiGroups": [""], "resourceNames": [CAPTURED], "verbs": verbs}
            body["rules"].append({**named, "resources": ["nodes", "nodes/status"]})
        made.append(body)
    return made


def _bearer(token: str) -> User:
    return {"Authorization": f"Bearer {token}"}


def token(
    server: Server, namespace: str, account: str, node: str = "", *, audience: str = ""
) -> str:
    spec: Body = {"expirationSeconds": 24 * 3600}
    if audience:
        spec["audiences"] = [audience]
    if node:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{account}-{node}"},
            "spec": {
                "nodeName": node,
                "serviceAccountName": account,
                "containers": [{"name": "agent", "image": "agent:1"}],
            },
        }
        meta = put(server, pods, pod)["metadata"]
        about = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec["boundObjectRef"] = about
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(call(server, "POST", path, {"spec": spec})["status"]["token"])
