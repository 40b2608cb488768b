"""Good requests, and random damage to them from a seed."""

from __future__ import annotations

import random
import string
from typing import Any

import msgspec

from .conftest import Client

JSON = Any
Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
POD_SPEC: Object = {
    "nodeName": "n",
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "containers": [
        {
            "name": "c",
            "image": "i:1",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "b"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"port": 80}},
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "c"}}],
}
TEMPLATE: Object = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
WORKLOAD: Object = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "kind": {"type": "string", "enum": ["a", "b"], "pattern": "^[ab]$"},
                "port": {"x-kubernetes-int-or-string": True},
                "text": {
                    "type": "string",
                    "maxLength": 9,
                    "default": "a",
                    "allOf": [{"pattern": "a"}, {"minLength": 1}],
                    "not": {"enum": ["z"]},
                    "x-kubernetes-validations": [
                        {"rule": "self.matches('a.*')", "messageExpression": "'not ' + self"}
                    ],
                },
                "when": {
                    "type": "string",
                    "format": "date-time",
                    "x-kubernetes-validations": [
                        {"rule": "self > timestamp('2020-01-01T00:00:00Z')"}
                    ],
                },
                "set": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {"type": "string", "maxLength": 9},
                    "x-kubernetes-list-type": "set",
                    "x-kubernetes-validations": [
                        {"rule": "self.all(x, x in oldSelf || quantity(x).isInteger())"}
                    ],
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
                    },
                },
            },
            "x-kubernetes-validations": [
                {"rule": "!has(oldSelf.size) || self.size >= oldSelf.size", "message": "shrinks"}
            ],
        }
    },
}
# What is sent before damage, and where to.
OBJECTS: dict[str, Object] = {
    f"{CORE}/configmaps": {"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "b"}},
    f"{CORE}/secrets": {"kind": "Secret", "apiVersion": "v1", "stringData": {"a": "b"}},
    f"{CORE}/services": {
        "kind": "Service",
        "apiVersion": "v1",
        "spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}},
    },
    f"{CORE}/pods": {
        "kind": "Pod",
        "apiVersion": "v1",
        "spec": POD_SPEC,
        "status": {"containerStatuses": [{"name": "c", "ready": True, "restartCount": 1}]},
    },
    f"{CORE}/events": {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
    },
    "/api/v1/nodes": {
        "kind": "Node",
        "apiVersion": "v1",
        "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"addresses": [{"type": "InternalIP", "address": "::1"}]},
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "spec": {"replicas": 1, **WORKLOAD},
    },
    "/apis/apps/v1/namespaces/default/daemonsets": {
        "kind": "DaemonSet",
        "apiVersion": "apps/v1",
        "spec": WORKLOAD,
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": {
        "kind": "Role",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "rules": RULES,
    },
    "/apis/events.k8s.io/v1/namespaces/default/events": {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "regarding": {"kind": "Pod", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "reportingController": "c/d",
        "reportingInstance": "i",
    },
    "/apis/kvm.cloud.sap/v1/hypervisors": {
        "kind": "Hypervisor",
        "apiVersion": "kvm.cloud.sap/v1",
        "spec": {"lifecycleEnabled": True, "maintenance": "manual", "maintenanceReason": "x"},
        "status": {"instances": [{"id": "i", "name": "n", "active": True}]},
    },
    "/apis/fuzz.example.com/v1/namespaces/default/gadgets": {
        "kind": "Gadget",
        "apiVersion": "fuzz.example.com/v1",
        "spec": {
            "size": 3,
            "kind": "a",
            "port": "http",
            "items": [{"name": "a", "n": 1}],
            "text": "abc",
            "when": "2026-01-01T00:00:00Z",
            "set": ["1", "2"],
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        },
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "fuzzes.fuzz.example.com"},
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "fuzzes", "kind": "Fuzz", "shortNames": ["fz"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                    ],
                }
            ],
        },
    },
}
METADATA: Object = {
    "name": "fuzzed",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": [],
    "ownerReferences": [],
}
ODD: list[JSON] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**53,
    2**63 - 1,
    2**64 - 1,
    1.5,
    1e300,
    "",
    "x",
    "a/b/c",
    "\x00",
    "🦄\u2028",
    "x" * 300,
    "2026-01-01T00:00:00Z",
    "50%",
    [],
    {},
    [None],
    [[]],
    [{}],
    ["a", "a"],
    {"": ""},
    {"a": None},
    {"$patch": "delete"},
    {"$patch": "replace"},
    {"$retainKeys": ["a"]},
    {"$setElementOrder/a": ["b"]},
    {"$deleteFromPrimitiveList/finalizers": ["a"]},
]
MEDIA = [
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
]
ACCEPT = [
    "*/*",
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Nothing;v=v1;g=meta.k8s.io,*/*",
]
QUERIES = {
    "limit": ["1", "0", "-1", "x", "99999999999"],
    "continue": ["x", "e30"],
    "resourceVersion": ["0", "1", "x", "999999"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "x"],
    "labelSelector": ["a=b", "!a", "a in (b,c)", "a notin ()", "a>1", "a,,b", "((", "a in (b"],
    "fieldSelector": ["metadata.name=a", "a=b", "x", "metadata.name!=a,", "status.phase=\\"],
    "dryRun": ["All", "x"],
    "fieldManager": ["a", "", "\n"],
    "fieldValidation": ["Strict", "Ignore", "x"],
    "force": ["true", "x"],
    "propagationPolicy": ["Orphan", "Foreground", "Background", "x"],
    "gracePeriodSeconds": ["0", "-1", "x"],
    "includeObject": ["None", "Object", "x"],
    "timeoutSeconds": ["1", "-1", "x"],
}


class Damage:
    """Damages values, the same way in each run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # to be repeated, not to be secret

    def choice(self, *options: JSON) -> JSON:
        return self._random.choice(options)

    def happens(self, share: float) -> bool:
        return self._random.random() < share

    def value(self, value: JSON) -> JSON:
        """A copy of the value with one place in it changed."""
        if not isinstance(value, (dict, list)) or not value or self.happens(0.15):
            return self._odd(value)
        if isinstance(value, list):
            index = self._random.randrange(len(value))
            changed = self.choice([self.value(value[index])], [], [value[index]] * 2)
            return [*value[:index], *changed, *value[index + 1 :]]
        name = self.choice(*value)
        match self._random.randrange(6):
            case 0:
                return {n: v for n, v in value.items() if n != name}
            case 1:
                return {**value, self._word(): self._odd(None)}
            case _:
                return {**value, name: self.value(value[name])}

    def _odd(self, value: JSON) -> JSON:
        if isinstance(value, str) and value and self.happens(0.3):
            place = self._random.randrange(len(value))
            return (
                value[:place] + self.choice("", " ", "/", "%", "Ω", "-", ".") + value[place + 1 :]
            )
        return self.choice(*ODD)

    def _word(self) -> str:
        letters = self._random.choices(string.printable, k=self._random.randrange(1, 5))
        return "".join(letters)

    def bytes(self, data: bytes) -> bytes:
        place = self._random.randrange(len(data) + 1)
        junk: bytes = self.choice(
            b"", b"\x00", b"\xff", b"{", b"]", b'"', b"\\u", b"1" * 400, b"[" * 500
        )
        return data[:place] + junk + data[place + self._random.randrange(3) :]


def json_patch(damage: Damage, value: JSON) -> list[Object]:
    paths = ["/metadata/labels/a", "/spec", "/metadata", "", "/data/a", "/spec/items/0", "/x/-"]
    return [
        {
            "op": damage.choice("add", "remove", "replace", "test", "copy", "move", "x"),
            "path": damage.choice(*paths),
            "from": damage.choice(*paths),
            "value": damage.value(value),
        }
        for _ in range(3)
    ]


async def prepare(api: Client) -> None:
    definition = OBJECTS["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
    spec = {**definition["spec"], "names": {"plural": "gadgets", "kind": "Gadget"}}
    body = {**definition, "metadata": {"name": "gadgets.fuzz.example.com"}, "spec": spec}
    answer = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=body)
    assert answer.status_code == 201, answer.text


def request(damage: Damage) -> tuple[str, str, Object]:
    """Build one request: method, path, headers and body."""
    collection = damage.choice(*OBJECTS)
    body: JSON = {"metadata": {}, **OBJECTS[collection]}
    body["metadata"] = {**METADATA, **body["metadata"]}
    name = body["metadata"]["name"]
    for _ in range(damage.choice(0, 1, 1, 2, 4)):
        body = damage.value(body)
    method = damage.choice("POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "GET", "DELETE")
    many = damage.happens(0.1) and "customresourcedefinitions" not in collection
    path = collection if method == "POST" or many else f"{collection}/{name}"
    if damage.happens(0.1) and path != collection:
        path += damage.choice("/status", "/scale", "/finalize", "/x")
    media = damage.choice(*MEDIA[2:6]) if method == "PATCH" else MEDIA[0]
    if damage.happens(0.05):
        media = damage.choice(*MEDIA)
    query = {key: damage.choice(*values) for key, values in QUERIES.items() if damage.happens(0.04)}
    if method == "PATCH":
        query.setdefault("fieldManager", "fuzz")
    if media == "application/json-patch+json" and damage.happens(0.9):
        body = json_patch(damage, body)
    content = msgspec.json.encode(body)
    if damage.happens(0.08):
        content = damage.bytes(content)
    headers = {"content-type": media, "accept": damage.choice(*ACCEPT)}
    if method == "DELETE":
        content = damage.choice(b"", msgspec.json.encode(damage.value({"dryRun": ["All"]})))
        headers["content-type"] = MEDIA[0]
    return method, path, {"params": query, "content": content, "headers": headers}


async def check(api: Client) -> None:
    """Check that every stored object can be read in every form and watched."""
    for path in OBJECTS:
        for accept in ACCEPT[1:4]:
            answer = await api.get(path, headers={"accept": accept})
            assert answer.status_code == 200, f"{path} as {accept}: {answer.text[:400]}"
        answer = await api.get(path, params={"labelSelector": "a!=x", "limit": "1"})
        assert answer.status_code == 200, answer.text
    assert (await api.get("/openapi/v3/apis/fuzz.example.com/v1")).status_code == 200
