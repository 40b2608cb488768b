"""A real kube-apiserver with a chart's permissions, which logs the requests under them.

It looks at owner references as well: the admission plugin for them makes requests in the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.conformance.charts import NAMESPACE
from tests.conformance.prepare import call, install_definitions, own_definitions
from tests.conformance.real import Server, real_server, write_kubeconfig
from tests.conformance.wire import Body
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS

Grant = tuple[str, str, str, str]
"""Verb, group, resource, namespace; "" is the whole cluster."""

ACCOUNT = "account"
"""Name of a ServiceAccount's kubeconfig, beside the administrator's."""

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@dataclass
class Cluster:
    """What a test of permissions needs.

    Args:
        kubeconfig: of the chart's ServiceAccount, as are `token` and `user`.
        audit: the server's log.
        skipped: lines of it that were there at the last `forget`.
    """

    server: Server
    kubeconfig: Path
    token: str
    user: str
    audit: Path
    skipped: int = 0

    def token_for(self, audience: str) -> str:
        """A token of the chart's ServiceAccount for another server than the API server."""
        return token_of(self.server, self.user.rpartition(":")[2], audiences=(audience,))

    def on(self, node: str) -> Path:
        """A kubeconfig of the ServiceAccount in a pod on a Node."""
        kubeconfig = self.kubeconfig.with_name(f"account-{node}")
        if not kubeconfig.exists():
            call(self.server, "POST", "/api/v1/nodes", {"metadata": {"name": node}})
            account = self.user.rpartition(":")[2]
            pod: Body = {
                "metadata": {"name": f"on-{node}"},
                "spec": {
                    "nodeName": node,
                    "serviceAccountName": account,
                    "containers": [{"name": "agent", "image": "none"}],
                },
            }
            made = call(self.server, "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
            _write(kubeconfig, self.server, token_of(self.server, account, made))
        return kubeconfig

    def forget(self) -> None:
        """Look at what comes from here on only."""
        self.skipped = len(self.audit.read_text().splitlines())

    def requests(self) -> Iterator[Body]:
        """The requests of the ServiceAccount."""
        for line in self.audit.read_text().splitlines()[self.skipped :]:
            entry = json.loads(line)
            if entry["user"]["username"] == self.user:
                yield entry

    def forbidden(self) -> list[str]:
        """The requests that were refused."""
        return [
            f"{entry['verb']} {entry['requestURI']}"
            for entry in self.requests()
            if entry["responseStatus"]["code"] == 403
        ]

    def used(self, objects: Iterable[Body]) -> set[Grant]:
        """The permissions used: in the cluster where that is allowed, else in the namespace."""
        found, may = set[Grant](), granted(objects)
        for entry in self.requests():
            about = entry.get("objectRef")
            if about is None:
                continue
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            what = entry["verb"], about.get("apiGroup", ""), resource
            everywhere = (*what, "")
            found.add(everywhere if everywhere in may else (*what, about.get("namespace", "")))
        return found


@contextmanager
def permitted(
    folder: Path,
    objects: Iterable[Body],
    namespaces: set[str],
    more: Mapping[str, object] | None = None,
) -> Iterator[Cluster]:
    """Start it, and make the chart's objects there; nothing runs them.

    Args:
        folder: empty.
        objects: of the chart, with one ServiceAccount.
        namespaces: that must be there besides those of any cluster.
        more: flags of the kube-apiserver, without their dashes.
    """
    policy, audit = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(POLICY)
    flags = {
        "audit-policy-file": policy,
        "audit-log-path": audit,
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
        **(more or {}),
    }
    with real_server(folder, more=flags) as server:
        install_definitions(server, [*own_definitions(), CERT_MANAGER, CERTIFICATE_REQUESTS])
        kubeconfig, token = grant(server, objects, namespaces)
        account = only(objects, "ServiceAccount")["metadata"]["name"]
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        yield Cluster(server, kubeconfig, token, user, audit)


def grant(server: Server, objects: Iterable[Body], namespaces: set[str]) -> tuple[Path, str]:
    """Make a chart's objects, and return a kubeconfig and the token of its ServiceAccount."""
    listed = call(server, "GET", "/api/v1/namespaces")["items"]
    there = {item["metadata"]["name"] for item in listed}
    for name in {NAMESPACE, "default", "kube-system", *namespaces} - there:
        call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    for body in objects:
        call(server, "POST", object_path(body), body)
    token = token_of(server, only(objects, "ServiceAccount")["metadata"]["name"])
    kubeconfig = server.kubeconfig.with_name(ACCOUNT)
    _write(kubeconfig, server, token)
    return kubeconfig, token


def _write(kubeconfig: Path, server: Server, token: str) -> None:
    write_kubeconfig(kubeconfig, server.url, server.ca_file, token)
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    kubeconfig.write_text(yaml.safe_dump(config))


def token_of(
    server: Server, account: str, pod: Body | None = None, audiences: Sequence[str] = ()
) -> str:
    """A token of a ServiceAccount of the release's namespace, as that pod has it.

    Without audiences it is for the API server.
    """
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    spec: Body = {"expirationSeconds": 3600, "audiences": list(audiences)}
    if pod is not None:
        meta = pod["metadata"]
        about = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec["boundObjectRef"] = about
    return str(call(server, "POST", path, {"spec": spec})["status"]["token"])


def only(objects: Iterable[Body], kind: str) -> Body:
    """The one object of a kind."""
    (found,) = (body for body in objects if body["kind"] == kind)
    return found


def of_account(objects: Iterable[Body], account: str) -> list[Body]:
    """The objects without the accounts of others, and without what is bound to these alone."""
    objects = list(objects)

    def is_of(body: Body) -> bool:
        return any(subject["name"] == account for subject in body["subjects"])

    bindings = [body for body in objects if "subjects" in body]
    others = {body["roleRef"]["name"] for body in bindings if not is_of(body)} - {
        body["roleRef"]["name"] for body in bindings if is_of(body)
    }
    return [
        body
        for body in objects
        if not (
            (body["kind"] == "ServiceAccount" and body["metadata"]["name"] != account)
            or ("subjects" in body and not is_of(body))
            or (body["kind"] in {"Role", "ClusterRole"} and body["metadata"]["name"] in others)
        )
    ]


def granted(objects: Iterable[Body]) -> set[Grant]:
    """What the roles that a chart binds allow."""
    objects = list(objects)
    bound = {
        body["roleRef"]["name"]
        for body in objects
        if body["kind"].endswith("Binding") and "roleRef" in body
    }
    return {
        (verb, group, resource, body["metadata"].get("namespace", ""))
        for body in objects
        if body["kind"] in {"Role", "ClusterRole"} and body["metadata"]["name"] in bound
        for rule in body["rules"]
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }


def object_path(body: Body) -> str:
    version, kind = body["apiVersion"], body["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = body["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    plural = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    return f"{root}{where}/{plural.lower()}"
