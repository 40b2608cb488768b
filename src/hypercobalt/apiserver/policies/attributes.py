"""Attributes of a write for admission: old and new object, requester, resource.

Source: k8s.io/apiserver pkg/admission/plugin/cel/condition.go (CreateAdmissionRequest) and
admission/v1 AdmissionRequest.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import msgspec

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.kinds.resources import Resource
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.schema.expressions import Scope
from hypercobalt.apiserver.values import list_at, object_at, text_at

OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_NAMESPACE_META = frozenset(
    {
        *("name", "generateName", "namespace", "uid", "resourceVersion", "generation"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
        *("labels", "annotations", "finalizers"),
    }
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A resource, in one version, as rules name it."""

    group: str
    version: str
    plural: str
    kind: str
    subresource: str = ""

    @classmethod
    def of(cls, resource: Resource, subresource: str) -> Endpoint:
        names = resource.names
        kind = "Binding" if subresource == "binding" else names.kind
        return cls(resource.group, resource.version, names.plural, kind, subresource)

    @property
    def is_namespace(self) -> bool:
        return (self.group, self.plural) == ("", "namespaces")

    def shown_kind(self) -> JSONObject:
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def shown_resource(self) -> JSONObject:
        return {"group": self.group, "version": self.version, "resource": self.plural}


@dataclass(frozen=True)
class Attributes:
    """One write.

    Args:
        call: the request.
        new: the finished object; None for a delete.
        old: the object before; None for a create.
        endpoints: where it is sent to, then the same objects in other versions.
        namespace: the stored Namespace of the object, if it is in one.
    """

    call: Call
    new: JSONObject | None
    old: JSONObject | None
    endpoints: tuple[Endpoint, ...]
    stored_namespace: bytes = b""

    @property
    def operation(self) -> str:
        if self.old is None:
            return "CREATE"
        return "DELETE" if self.new is None else "UPDATE"

    @property
    def namespace(self) -> str:
        return self.call.namespace

    @property
    def name(self) -> str:
        """Name of the object, also where the server has just generated it."""
        return self.call.name or text_at(self.new, "metadata", "name")

    @functools.cached_property
    def namespace_object(self) -> JSONObject | None:
        """What expressions see of the namespace."""
        if not self.stored_namespace:
            return None
        whole: JSONObject = msgspec.json.decode(self.stored_namespace)
        meta = object_at(whole, "metadata")
        seen: JSONObject = {name: it for name, it in meta.items() if name in _NAMESPACE_META}
        return {**whole, "metadata": seen}

    @functools.cached_property
    def _scopes(self) -> dict[Endpoint, Scope]:
        return {}

    def scope(self, endpoint: Endpoint) -> Scope:
        """What every expression of any policy sees of the write, sent to an endpoint."""
        if (known := self._scopes.get(endpoint)) is None:
            roots: dict[str, JSON] = {
                "object": self._shown(self.new, endpoint),
                "oldObject": self._shown(self.old, endpoint),
                "request": self._request(endpoint),
                "namespaceObject": self.namespace_object,
            }
            known = self._scopes[endpoint] = Scope(roots)
        return known

    def _shown(self, obj: JSONObject | None, endpoint: Endpoint) -> JSON:
        if obj is None:
            return None
        version = f"{endpoint.group}/{endpoint.version}" if endpoint.group else endpoint.version
        return {**obj, "apiVersion": version, "kind": endpoint.kind}

    def _request(self, endpoint: Endpoint) -> JSONObject:
        sent = self.endpoints[0]
        named = {
            "name": self.name,
            "namespace": self.namespace,
            "subResource": endpoint.subresource,
            "requestSubResource": sent.subresource,
        }
        return {
            "kind": endpoint.shown_kind(),
            "resource": endpoint.shown_resource(),
            "requestKind": sent.shown_kind(),
            "requestResource": sent.shown_resource(),
            **{name: value for name, value in named.items() if value},
            "operation": self.operation,
            "userInfo": self.call.request.user.body(),
            "dryRun": self.call.dry_run or "All" in list_at(self._options(), "dryRun"),
            "options": self._options(),
        }

    def _options(self) -> JSONObject:
        shown: JSONObject = {"kind": OPTIONS[self.operation], "apiVersion": "meta.k8s.io/v1"}
        if self.operation == "DELETE":
            return {**object_at(self.call.body.value), **shown}
        query = self.call.request.query
        given = {name: query[name] for name in ("fieldManager", "fieldValidation") if name in query}
        return {**given, **shown}
