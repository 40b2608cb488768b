"""The policies that are in force: compiled when they are written, by the store's published writes.

Source: k8s.io/apiserver pkg/admission/plugin/policy/generic (policy_source.go).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from hypercobalt.apiserver.decisions.admission import generation_of
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.policies.attributes import Attributes, Endpoint
from hypercobalt.apiserver.policies.policy import Binding, Bound, Policy, review
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import object_at, text_at

GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"


class Policies:
    """Every policy with its bindings, for each write to pass."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry
        self._policies: dict[str, tuple[str, Policy]] = {}  # with what tells their states apart
        self._bindings: dict[str, Binding] = {}
        self._bound: tuple[Bound, ...] = ()
        for resource in (POLICIES, BINDINGS):
            for key, stored in store.scan(resource):
                self._take(key, msgspec.json.decode(stored.data))
        self._join()
        store.listen(self._on_event)

    def applied_to(self, call: Call) -> Call:
        """The same call, whose writes have to pass the policies that are in force now."""
        if not self._bound or call.resource.group == GROUP:
            return call
        bound, namespace, before = self._bound, b"", call.admit
        if call.namespace:
            stored = self._store.get(Key("namespaces", "", call.namespace))
            namespace = stored.data if stored else b""
        endpoints = self._endpoints(call)

        def admit(new: JSONObject | None, old: JSONObject | None) -> None:
            before(new, old)
            write = Attributes(call, new, old, endpoints, namespace)
            call.request.warnings += review(bound, write)

        return replace(call, admit=admit)

    def _endpoints(self, call: Call) -> tuple[Endpoint, ...]:
        """Where the call goes to, and the other versions in which the same objects are served."""
        resource = call.resource
        others = self._registry.custom.get(resource.qualified, ()) if resource.custom else ()
        same = (resource, *(other for other in others if other.version != resource.version))
        return tuple(Endpoint.of(each, call.subresource) for each in same)

    def _on_event(self, event: Event) -> None:
        if event.key.resource not in (POLICIES, BINDINGS):
            return
        if event.type == "DELETED":
            self._policies.pop(event.key.name, None) if event.key.resource == POLICIES else (
                self._bindings.pop(event.key.name, None)
            )
        else:
            self._take(event.key, msgspec.json.decode(event.data))
        self._join()

    def _take(self, key: Key, obj: JSONObject) -> None:
        if key.resource == BINDINGS:
            self._bindings[key.name] = Binding.of(obj)
            return
        meta = object_at(obj, "metadata")
        state = f"{text_at(meta, 'uid')}/{generation_of(meta)}"
        if self._policies.get(key.name, ("",))[0] != state:
            self._policies[key.name] = state, Policy.of(obj)

    def _join(self) -> None:
        bindings = [self._bindings[name] for name in sorted(self._bindings)]
        joined = (
            Bound(policy, tuple(b for b in bindings if b.policy == name))
            for name, (_, policy) in sorted(self._policies.items())
        )
        self._bound = tuple(bound for bound in joined if bound.bindings)
