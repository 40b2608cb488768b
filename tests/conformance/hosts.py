"""A small fleet on a server: each host's objects, and requests with the token of its agent.

The tokens are those that a kubelet requests: of the agents' account, bound to a pod on the Node.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx2
from tests.conformance.charts import NAMESPACE
from tests.conformance.permitted import object_path
from tests.conformance.prepare import call
from tests.conformance.real import TOKEN, Server
from tests.conformance.wire import Body, Json

SPACE = "monsoon3"
HOSTS = ("kvm-a", "kvm-b")
UUIDS = {"kvm-a": "a" * 8, "kvm-b": "b" * 8}
REST = "-0000-4000-8000-000000000000"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of which each host has an object.

    Args:
        group: with `plural`, as roles name it.
        names: its object's name for a host.
        spec: of that object.
        status: written after it.
        fields: of that object, in place of a spec.
        space: its namespace.
    """

    group: str
    version: str
    plural: str
    kind: str
    names: str
    namespaced: bool = True
    spec: Mapping[str, Json] = field(default_factory=dict[str, Json])
    status: Mapping[str, Json] = field(default_factory=dict[str, Json])
    fields: Mapping[str, Json] = field(default_factory=dict[str, Json])
    space: str = SPACE

    def path(self, host: str = "", subresource: str = "") -> str:
        """Return the path of a host's object; of the collection without a host."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"{root}/namespaces/{self.space}" if self.namespaced else root
        named = f"{place}/{self.plural}/{self.name(host)}" if host else f"{place}/{self.plural}"
        return f"{named}/{subresource}" if subresource else named

    def name(self, host: str) -> str:
        return self.names.format(host=host, uuid=UUIDS.get(host, "c" * 8) + REST)

    def body(self, host: str) -> Body:
        """A host's object, as its agent or the operator would make it."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        labels = {"kvm.cloud.sap/origin": host} if self.plural == "migrations" else {}
        made: Body = {
            "apiVersion": version,
            "kind": self.kind,
            "metadata": {"name": self.name(host), **({"labels": labels} if labels else {})},
        }
        if self.fields:
            made |= _of(self.fields, host)
        elif self.plural != "secrets":
            made["spec"] = _of(self.spec, host)
        return made


def _of(template: Json, host: str) -> Json:
    if isinstance(template, Mapping):
        return {name: _of(value, host) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [_of(value, host) for value in template]
    return template.replace("{host}", host) if isinstance(template, str) else template


KINDS = (
    Kind(
        *("kvm.cloud.sap", "v1", "hypervisors", "Hypervisor", "{host}"),
        namespaced=False,
        spec={"evacuateOnReboot": True},
        status={"numInstances": 3},
    ),
    Kind(
        *("kvm.cloud.sap", "v1", "evictions", "Eviction", "{host}"),
        namespaced=False,
        spec={"hypervisor": "{host}", "reason": "reboot", "trigger": "HostShutdown"},
    ),
    Kind(
        *("kvm.cloud.sap", "v1alpha1", "migrations", "Migration", "{uuid}-20260101-000000"),
        spec={},
        status={"origin": "{host}", "started": "2026-01-01T00:00:00Z", "type": "completed"},
    ),
    Kind(
        *("coordination.k8s.io", "v1", "leases", "Lease", "node-agent-{host}"),
        spec={"holderIdentity": "{host}-1", "leaseDurationSeconds": 40},
    ),
    Kind(
        *("cert-manager.io", "v1", "certificates", "Certificate", "libvirt-{host}"),
        spec={
            "secretName": "tls-libvirt-{host}",
            "issuerRef": {"name": "nova-ca", "kind": "Issuer"},
            "commonName": "{host}",
            "dnsNames": ["{host}"],
        },
    ),
    Kind(
        "cert-manager.io",
        "v1",
        "certificaterequests",
        "CertificateRequest",
        "libvirt-{host}-0123456789",
        spec={"request": "cGVt", "issuerRef": {"name": "nova-ca", "kind": "Issuer"}},
    ),
    Kind(
        *("events.k8s.io", "v1", "events", "Event", "{host}.0123456789abcdef"),
        fields={
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "kvm.cloud.sap/node-agent",
            "reportingInstance": "{host}",
            "action": "Watching",
            "reason": "Crash",
            "type": "Warning",
            "regarding": {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": "{host}"},
        },
        space="default",  # of Events about what has no namespace
    ),
    Kind("", "v1", "secrets", "Secret", "tls-libvirt-{host}"),
    Kind("", "v1", "secrets", "Secret", "domains.{host}"),
    Kind(
        *("kvm.cloud.sap", "v1alpha1", "sealeddefinitions", "SealedDefinitions", "{host}"),
        spec={"key": "0123456789abcdef", "hypervisorUID": "{host}", "sealed": "c2VhbGVk"},
    ),
    Kind(
        "ovs.c5c3.io",
        "v1alpha1",
        "ovsnodes",
        "OVSNode",
        "{host}",
        spec={"nodeRef": {"name": "{host}"}},
    ),
)
BY_NAME = {(kind.group, kind.plural): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Fleet:
    """A server with the objects of hosts, the account of their agents and its tokens by Node."""

    server: Server
    account: str
    client: httpx2.Client
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def send(
        self, node: str, method: str, path: str, body: Json = None, media: str = "application/json"
    ) -> tuple[int, Json]:
        """Send a request with the token of the agent on a Node; "" for one of no Node."""
        headers = {"Authorization": f"Bearer {self._token(node)}", "Content-Type": media}
        return self._answer(method, path, body, headers)

    def ask(
        self, node: str, method: str, path: str, body: Json, media: Mapping[str, str]
    ) -> tuple[int, str]:
        """Send a request as `send` does, and return the code and the text as on the wire."""
        headers = {"Authorization": f"Bearer {self._token(node)}", **media}
        content = None if body is None else json.dumps(body).encode()
        answer = self.client.request(method, path, content=content, headers=headers)
        return answer.status_code, answer.text

    def _token(self, node: str) -> str:
        """The token of the agent's pod on a Node, the same each time; "": of no pod."""
        if node not in self.tokens:
            spec: dict[str, Json] = {"expirationSeconds": 24 * 3600}
            if node:
                pod = self._pod(node)["metadata"]
                spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod"} | {
                    key: pod[key] for key in ("name", "uid")
                }
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{self.account}/token"
            self.tokens[node] = call(self.server, "POST", path, {"spec": spec})["status"]["token"]
        return self.tokens[node]

    def _pod(self, node: str) -> Body:
        pods, name = f"/api/v1/namespaces/{NAMESPACE}/pods", f"{self.account}-{node}"
        spec = {
            "serviceAccountName": self.account,
            "nodeName": node,
            "containers": [{"name": "agent", "image": "agent:1"}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        _ensure(self.server, pods, body)
        found: Body = call(self.server, "GET", f"{pods}/{name}")
        return found

    def items(self, kind: Kind) -> list[Body]:
        """Every object of a kind, as an administrator sees them."""
        found = self._answer("GET", kind.path(), None, {"Authorization": f"Bearer {TOKEN}"})[1]
        listed: list[Body] = found["items"]
        return listed

    def _answer(
        self, method: str, path: str, body: Json, headers: Mapping[str, str]
    ) -> tuple[int, Json]:
        content = None if body is None else json.dumps(body).encode()
        answer = self.client.request(method, path, content=content, headers=headers)
        return answer.status_code, answer.json()

    def state(self, hosts: Iterable[str]) -> dict[str, Json]:
        """The objects of hosts as they are, by path."""
        return {
            kind.path(host): call(self.server, "GET", kind.path(host))
            for kind in KINDS
            for host in hosts
        }

    def renew(self, host: str) -> None:
        """Make a host's objects again, whatever an earlier attack has left of them."""
        self._remove(host)
        self.add(host)

    def close(self) -> None:
        """Leave none of its hosts behind: all tests share the servers."""
        for host in HOSTS:
            self._remove(host)
        self.client.close()

    def _remove(self, host: str) -> None:
        admin = {"Authorization": f"Bearer {TOKEN}"}
        merge = {**admin, "Content-Type": PATCHES["merge"]}
        for kind in KINDS:
            free: Json = {"metadata": {"finalizers": None}}
            if self._answer("PATCH", kind.path(host), free, merge)[0] == 200:
                self._answer("DELETE", kind.path(host), None, admin)

    def add(self, host: str, kinds: Iterable[Kind] = KINDS) -> None:
        """Make a host's objects, as an administrator; those that are there stay."""
        for kind in kinds:
            if _ensure(self.server, kind.path(), kind.body(host)) and kind.status:
                stored = call(self.server, "GET", kind.path(host))
                stored["status"] = {**stored.get("status", {}), **_of(kind.status, host)}
                call(self.server, "PUT", kind.path(host, "status"), stored)


def _ensure(server: Server, path: str, body: Body) -> bool:
    """Make an object, and return whether it was not there."""
    try:
        call(server, "POST", path, body)
    except RuntimeError as error:
        if ": 409: " not in str(error):
            raise
        return False
    return True


def fleet(server: Server, objects: Iterable[Body]) -> Fleet:
    """Give a chart's agents their rights on a server, and two hosts."""
    spaces = {
        item["metadata"]["name"] for item in call(server, "GET", "/api/v1/namespaces")["items"]
    }
    for name in {NAMESPACE, SPACE} - spaces:
        call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = ""
    for body in copy.deepcopy(list(objects)):
        _ensure(server, object_path(body), body)
        account = body["metadata"]["name"] if body["kind"] == "ServiceAccount" else account
    client = httpx2.Client(
        base_url=server.url, verify=server.ssl_context(), timeout=30, trust_env=False
    )
    made = Fleet(server, account, client)
    for host in HOSTS:
        made.renew(host)
    return made
