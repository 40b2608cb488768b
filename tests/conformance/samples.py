"""Objects that the scenarios share: small built-in ones, and two CRDs with many features."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.wire import Body, Json

GROUP = "conformance.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config_map(name: str, data: Body | None = None, **metadata: Json) -> Body:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body | {"data": {"a": "1"} if data is None else data}


def pod(name: str, node: str = "", **metadata: Json) -> Body:
    spec: Body = {"containers": [{"name": "main", "image": "busybox:1"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "labels": {"app": "x"}, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def kubelet(name: str) -> Sequence[tuple[str, str]]:
    """Headers of impersonation; of the administrators as well, so that no role is in the way."""
    user = ("User", f"system:node:{name}")
    return (user, ("Group", "system:nodes"), ("Group", "system:masters"))


def workload(kind: str, name: str) -> Body:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def gadget(name: str, spec: Body | None = None, **metadata: Json) -> Body:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gadget",
        "metadata": {"name": name, **metadata},
        "spec": {"size": 3} if spec is None else spec,
    }


def definition(
    plural: str,
    kind: str,
    spec: Body,
    *,
    group: str = GROUP,
    status: Body | None = None,
    scope: str = "Namespaced",
    columns: list[Body] | None = None,
    names: Body | None = None,
    version: Body | None = None,
) -> Body:
    """Return a CRD with one version, v1, whose spec (and status) have the given schemas."""
    properties: Body = {"spec": spec}
    served: Body = {"name": "v1", "served": True, "storage": True, **(version or {})}
    if status is not None:
        properties["status"] = status
        served["subresources"] = {"status": {}}
    if columns is not None:
        served["additionalPrinterColumns"] = columns
    served["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": [served],
        },
    }


def column(name: str, type_: str, path: str, **more: Json) -> Body:
    return {"name": name, "type": type_, "jsonPath": path, **more}


def text(length: int = 20, **more: Json) -> Body:
    """A string schema with a bound: the real server refuses CEL rules of unbounded cost."""
    return {"type": "string", "maxLength": length, **more}


CONDITIONS: Body = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string", "pattern": "^[A-Za-z]*$"},
        },
    },
}
PART: Body = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": text(),
        "zone": text(default="here"),
        "weight": {"type": "integer", "default": 1, "minimum": 0},
    },
}
GADGET_SPEC: Body = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "description": "How big it is."},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "even": {"type": "integer", "multipleOf": 2, "format": "int32"},
        "huge": {"type": "integer", "format": "int64"},
        "on": {"type": "boolean"},
        "name": text(8, pattern="^[a-z]+$"),
        "short": {"type": "string", "minLength": 2},
        "mode": text(enum=["auto", "manual", "none"], default="auto"),
        "note": text(nullable=True),
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "address": {"type": "string", "format": "ipv4"},
        "key": {"type": "string", "format": "uuid"},
        "blob": {"type": "string", "format": "byte"},
        "wait": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": True},
        "limit": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+(Mi|Gi)?$",
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "half": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        "inner": {
            "type": "object",
            "default": {},
            "properties": {
                "depth": {"type": "integer", "default": 7},
                "tags": {"type": "array", "items": text(), "default": []},
            },
        },
        "labels": {
            "type": "object",
            "additionalProperties": text(),
            "maxProperties": 3,
        },
        "set": {"type": "array", "items": text(), "x-kubernetes-list-type": "set", "maxItems": 5},
        "plain": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "whole": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
        "parts": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id", "zone"],
            "items": PART,
        },
        "sealed": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "choice": {
            "type": "object",
            "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}},
            "oneOf": [{"required": ["left"]}, {"required": ["right"]}],
        },
        "owner": text(10),
        "count": {"type": "integer", "minimum": 0},
    },
    "x-kubernetes-validations": [
        {"rule": "self.mode != 'manual' || has(self.name)", "message": "manual needs a name"},
        {
            "rule": "!has(self.count) || self.count <= self.size",
            "messageExpression": "'count must not exceed the size of ' + self.mode",
            "fieldPath": ".count",
            "reason": "FieldValueForbidden",
        },
        {
            "rule": "!has(oldSelf.owner) || (has(self.owner) && self.owner == oldSelf.owner)",
            "message": "owner is immutable",
            "reason": "FieldValueInvalid",
            "fieldPath": ".owner",
        },
        {
            "rule": "!oldSelf.hasValue() || self.size >= oldSelf.value().size",
            "optionalOldSelf": True,
            "message": "size must not shrink",
        },
    ],
}
GADGET_STATUS: Body = {
    "type": "object",
    "properties": {
        "phase": text(enum=["New", "Ready", "Gone"]),
        "seen": {"type": "integer"},
        "conditions": CONDITIONS,
    },
}
GADGETS = definition(
    "gadgets",
    "Gadget",
    GADGET_SPEC,
    status=GADGET_STATUS,
    names={"shortNames": ["gg"], "singular": "gadget", "categories": ["all", "conformance"]},
    version={"selectableFields": [{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}]},
    columns=[
        column("Size", "integer", ".spec.size", description="How big it is"),
        column("Ratio", "number", ".spec.ratio", format="float"),
        column("On", "boolean", ".spec.on"),
        column("Mode", "string", ".spec.mode"),
        column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        column("When", "date", ".spec.when"),
        column("Set", "string", ".spec.set", priority=1),
        column("First", "string", ".spec.set[0]", priority=1),
        column("Labels", "string", ".spec.labels", priority=1),
        column("All Ids", "string", ".spec.parts[*].id", priority=1),
        column("Wrong", "integer", ".spec.mode", priority=2),
        column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone", priority=2),
        column("Age", "date", ".metadata.creationTimestamp"),
    ],
)
# cluster-scoped, two versions, no status subresource, scale-less, default columns, wide open
TRINKETS: Body = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"trinkets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"plural": "trinkets", "kind": "Trinket", "listKind": "Trinkets"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                **({"deprecated": True} if name == "v1beta1" else {}),
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
            for name in ("v1", "v1beta1")
        ],
    },
}


def trinket(name: str, **content: Json) -> Body:
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Trinket"}
    return {**kind, "metadata": {"name": name}, **content}
