"""Which writes a policy or a binding is about.

Source: k8s.io/apiserver pkg/admission/plugin/policy/matching and
pkg/admission/plugin/webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.policies.attributes import Attributes, Endpoint
from hypercobalt.apiserver.requests.selectors import Labels, LabelSelector, selector_of
from hypercobalt.apiserver.values import object_at, objects_at, text_at, texts_at


@dataclass(frozen=True, slots=True)
class Rule:
    """One of resourceRules or excludeResourceRules."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    scope: str = "*"
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: JSONObject) -> Rule:
        listed = ("apiGroups", "apiVersions", "resources", "operations")
        groups, versions, resources, operations = (tuple(texts_at(raw, name)) for name in listed)
        names, scope = tuple(texts_at(raw, "resourceNames")), text_at(raw, "scope") or "*"
        return cls(groups, versions, resources, operations, scope, names)

    def matches(self, write: Attributes, endpoint: Endpoint) -> bool:
        return (
            _has(self.operations, write.operation)
            and _has(self.groups, endpoint.group)
            and _has(self.versions, endpoint.version)
            and any(_covers(entry, endpoint) for entry in self.resources)
            and self.scope in ("*", "Namespaced" if write.namespace else "Cluster")
            and (not self.names or write.name in self.names)
        )


def _has(listed: Iterable[str], value: str) -> bool:
    return "*" in listed or value in listed


def _covers(entry: str, endpoint: Endpoint) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", endpoint.plural) and subresource in ("*", endpoint.subresource)


@dataclass(frozen=True, slots=True)
class Constraints:
    """A policy's matchConstraints, or a binding's matchResources."""

    rules: tuple[Rule, ...] = ()
    excluded: tuple[Rule, ...] = ()
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    objects: LabelSelector = field(default_factory=LabelSelector)
    exact: bool = False

    @classmethod
    def of(cls, raw: JSONObject) -> Constraints:
        return cls(
            tuple(Rule.of(rule) for rule in objects_at(raw, "resourceRules")),
            tuple(Rule.of(rule) for rule in objects_at(raw, "excludeResourceRules")),
            selector_of(object_at(raw, "namespaceSelector")),
            selector_of(object_at(raw, "objectSelector")),
            text_at(raw, "matchPolicy") == "Exact",
        )

    def match(self, write: Attributes) -> Endpoint | None:
        """The endpoint as which a write is matched; None when it is not.

        No rule at all, as in bindings, means every endpoint.
        """
        endpoints = write.endpoints[:1] if self.exact else write.endpoints
        if self._find(self.excluded, write, endpoints):
            return None
        endpoint = self._find(self.rules, write, endpoints) if self.rules else write.endpoints[0]
        if endpoint is None or not self._selects_objects(write):
            return None
        return endpoint if self._selects_namespace(write) else None

    @staticmethod
    def _find(
        rules: Sequence[Rule], write: Attributes, endpoints: Sequence[Endpoint]
    ) -> Endpoint | None:
        fits = (e for e in endpoints for rule in rules if rule.matches(write, e))
        return next(fits, None)

    def _selects_objects(self, write: Attributes) -> bool:
        return not self.objects.terms or any(
            self.objects.matches(_labels(obj)) for obj in (write.new, write.old) if obj is not None
        )

    def _selects_namespace(self, write: Attributes) -> bool:
        if not self.namespaces.terms:
            return True
        if write.endpoints[0].is_namespace:
            return self.namespaces.matches(_labels(write.new or write.old))
        return not write.namespace or self.namespaces.matches(_labels(write.namespace_object))


def _labels(obj: JSONObject | None) -> Labels:
    return {name: str(value) for name, value in object_at(obj, "metadata", "labels").items()}
