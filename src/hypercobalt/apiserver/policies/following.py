"""The policies that are in force: compiled when they are written, by the store's published writes.

Source: k8s.io/apiserver pkg/admission/plugin/policy/generic (policy_source.go).
"""

from __future__ import annotations

import msgspec

from hypercobalt.apiserver.decisions.admission import generation_of
from hypercobalt.apiserver.decisions.verbs import Prepared
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.offload import Offload
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
    """Every policy with its bindings: an admitter of writes."""

    def __init__(self, store: Store, registry: Registry, offload: Offload) -> None:
        self._store, self._registry, self._offload = store, registry, offload
        self._policies: dict[str, tuple[str, Policy]] = {}  # with uid and generation
        self._bindings: dict[str, Binding] = {}
        self._bound: tuple[Bound, ...] = ()
        for resource in (POLICIES, BINDINGS):
            for key, stored in store.scan(resource):
                self._take(key, msgspec.json.decode(stored.data))
        self._join()
        store.listen(self._on_event)

    def concerns(self, call: Call) -> bool:
        return bool(self._bound) and call.resource.group != GROUP

    async def mutate(self, call: Call, write: Prepared) -> JSONObject | None:
        return None

    async def admit(self, call: Call, write: Prepared) -> None:
        """Let a write pass the policies that are in force now.

        Raises:
            StatusError: a policy refuses it.
        """
        stored = self._store.get(call.key)
        size = len(call.request.body) + (len(stored.data) if stored else 0)
        space = self._store.get(Key("namespaces", "", call.namespace)) if call.namespace else None
        endpoints = self._endpoints(call)
        attributes = Attributes(call, write.new, write.old, endpoints, space.data if space else b"")
        call.request.warnings += await self._offload.run(size, review, self._bound, attributes)

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
