"""Serve what CustomResourceDefinitions say: accept their names, follow their changes.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go and
pkg/controller/establish.
"""

from __future__ import annotations

import contextlib
import copy
import functools

import msgspec

from hypercobalt.apiserver.kinds.definitions import establish
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry
from hypercobalt.apiserver.objects import Event, Key
from hypercobalt.apiserver.request import Call
from hypercobalt.apiserver.status import JSONObject, StatusError
from hypercobalt.apiserver.store import Store
from hypercobalt.apiserver.writing import Writer


class Definitions:
    """Keeps the registry as the stored definitions say."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._unsettled = {""}  # groups whose definitions changed; at the start all
        for _, stored in store.scan(CRD_RESOURCE):
            registry.define(msgspec.json.decode(stored.data))
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.key.resource != CRD_RESOURCE:
            return
        self._unsettled.add(_group(event.key))
        definition: JSONObject = msgspec.json.decode(event.data)
        if event.type == "DELETED":
            definition.pop("status", None)
        self._registry.define(definition)

    async def settle(self) -> None:
        """Accept the names of definitions as far as they are free by now, and serve them.

        After every write of definitions, and at the start: a crash may have come between.
        """
        resource = self._registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        while self._unsettled and resource is not None:
            group = self._unsettled.pop()
            for key in [k for k, _ in self._store.scan(CRD_RESOURCE) if k.name.endswith(group)]:
                call = Call.internal(resource, key, "kube-apiserver", "status")
                with contextlib.suppress(StatusError):  # it went in the meantime
                    await self._writer.change(call, functools.partial(self._settled, call))

    def _settled(self, call: Call, obj: JSONObject) -> JSONObject:
        others: list[JSONObject] = [
            msgspec.json.decode(stored.data)
            for key, stored in self._store.scan(CRD_RESOURCE)
            if key != call.key and _group(key) == _group(call.key)
        ]
        return establish(copy.deepcopy(obj), others, call.stamp)


def _group(definition: Key) -> str:
    return definition.name.partition(".")[2]
