"""The schemas of kinds: as JSON for discovery, compiled for requests, each when first used."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Iterator

import msgspec

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.changing import apply_defaults, prune
from hypercobalt.apiserver.schema.node import PREFIX, UNTYPED, Node, compile_schema
from hypercobalt.apiserver.values import object_at, text_at


class Conformed:
    """Stored objects as their schema is now; of each, the state read last is remembered."""

    def __init__(self) -> None:
        self._shown: dict[bytes, bytes] = {}  # by what is stored
        self._states: dict[tuple[str, str], bytes] = {}  # stored, by namespace and name
        self._passing = (b"", b"")  # what all watches of a kind show of one event

    def get(self, node: Node, data: bytes, *, remember: bool) -> bytes:
        """What is shown of a stored state; `remember` it, where it is not one that may be gone."""
        known = self._shown.get(data)
        if known is not None:
            return known
        state, shown = self._passing
        if state == data:
            return shown
        obj: JSONObject = msgspec.json.decode(data)
        prune(node, obj)
        apply_defaults(node, obj)
        encoded = msgspec.json.encode(obj)
        shown = data if encoded == data else encoded
        if remember:
            place = text_at(obj, "metadata", "namespace"), text_at(obj, "metadata", "name")
            self.forget(place)
            self._states[place], self._shown[data] = data, shown
        else:
            self._passing = data, shown
        return shown

    def forget(self, place: tuple[str, str]) -> None:
        """Drop what is remembered of the object there."""
        self._shown.pop(self._states.pop(place, b""), None)


class Schema:
    """A kind's schema as JSON (for discovery) and compiled (for requests), each when first used."""

    def __init__(self, name: str, library: SchemaLibrary, raw: JSONObject | None = None) -> None:
        self.name = name
        self._library, self._raw = library, raw

    @functools.cached_property
    def node(self) -> Node:
        if self._raw is None:
            return self._library.node(self.name)
        node = compile_schema(self._raw)
        node.type = "object"
        node.fields = dict(node.fields)
        node.fields["apiVersion"] = node.fields["kind"] = Node(type="string")
        node.fields["metadata"] = self._library.node(OBJECT_META)
        for below in [n for n in node.walk() if n.embedded]:
            text = Node(type="string")
            known = {"apiVersion": text, "kind": text, "metadata": self._library.node(OBJECT_META)}
            below.fields = {**known, **below.fields, "metadata": known["metadata"]}
            below.required = (*below.required, "apiVersion", "kind")
        return node

    @functools.cached_property
    def body(self) -> Node:
        """The schema without metadata, which has rules of its own.

        A definition may restrict the name, and nothing else: that is kept.
        """
        bare = copy.copy(self.node)
        bare.compiled = {}  # rules see this node's fields
        bare.fields = {name: f for name, f in self.node.fields.items() if name != "metadata"}
        bare.required = tuple(name for name in self.node.required if name != "metadata")
        if more := object_at(self._raw or {}, "properties", "metadata", "properties"):
            bare.fields["metadata"] = compile_schema({"type": "object", "properties": more})
        return bare

    def document(self) -> JSONObject:
        """The schema as OpenAPI, references and all."""
        return self._library.raw(self.name) if self._raw is None else self._raw


# What Go writes as null when it is unset: times that are no pointers, and lists without omitempty.
# OpenAPI does not distinguish these from fields that may be absent.
_NULLS: dict[str, tuple[str, ...]] = {
    "apps.v1.DaemonSetCondition": ("lastTransitionTime",),
    "apps.v1.DeploymentCondition": ("lastTransitionTime", "lastUpdateTime"),
    "core.v1.ContainerStateRunning": ("startedAt",),
    "core.v1.ContainerStateTerminated": ("finishedAt", "startedAt"),
    "core.v1.Event": ("eventTime", "firstTimestamp", "lastTimestamp"),
    "core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "core.v1.PodCondition": ("lastProbeTime", "lastTransitionTime"),
    "events.v1.Event": ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"),
    "rbac.v1.ClusterRole": ("rules",),
    "rbac.v1.Role": ("rules",),
}

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class SchemaLibrary:
    """The built-in schemas; each stays as bytes until it is used."""

    def __init__(self, schemas: dict[str, msgspec.Raw]) -> None:
        self._raw = schemas
        self._nodes: dict[str, Node] = {}

    def node(self, name: str) -> Node:
        known = self._nodes.get(name)
        if known is not None:
            return known
        if name not in self._raw:
            return UNTYPED
        node = self._nodes[name] = Node()
        compiled = compile_schema(self.raw(name), self.node)
        compiled.nulls = _NULLS.get(name.removeprefix("io.k8s.api."), ())
        for attribute in Node.__dataclass_fields__:
            setattr(node, attribute, getattr(compiled, attribute))
        return node

    def raw(self, name: str) -> JSONObject:
        decoded: JSONObject = msgspec.json.decode(self._raw[name])
        return decoded

    def closure(self, names: Iterable[str]) -> dict[str, JSON]:
        """These schemas and every one they refer to."""
        found: dict[str, JSON] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found or name not in self._raw:
                continue
            found[name] = self.raw(name)
            waiting.extend(_references(found[name]))
        return found


def _references(value: JSON) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(PREFIX)
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
