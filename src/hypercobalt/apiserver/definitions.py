"""Serve what CustomResourceDefinitions declare: accept their names, follow their changes.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go and
pkg/controller/establish.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry
from hypercobalt.apiserver.kinds.serving import establish
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.writing import Writer


class Definitions:
    """Keeps the registry as the stored definitions declare."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._unsettled = {""}  # groups whose definitions changed; at the start all
        self._settling = asyncio.Lock()
        for _, stored in store.scan(CRD_RESOURCE):
            registry.define(msgspec.json.decode(stored.data))
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.key.resource != CRD_RESOURCE:
            if event.type == "DELETED":
                for version in self._registry.custom.get(event.key.resource, ()):
                    version.forget(event.key.place)
            return
        self._unsettled.add(_group(event.key))
        definition: JSONObject = msgspec.json.decode(event.data)
        if event.type == "DELETED":
            definition.pop("status", None)
        self._registry.define(definition)

    async def settle(self) -> None:
        """Accept the names of definitions as far as they are free by now, and serve them.

        After every write of definitions, and at the start: a crash may have come between.

        Raises:
            StoreError: it could not be written; the next call goes on.
        """
        resource = self._registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        async with self._settling:  # or two definitions could take one name at the same time
            while self._unsettled and resource is not None:
                group = self._unsettled.pop()
                try:
                    for key in self._members(group):
                        call = Call.internal(resource, key, "kube-apiserver", "status")
                        await self._settle_one(call)
                except BaseException:
                    self._unsettled.add(group)
                    raise

    async def _settle_one(self, call: Call) -> None:
        others: list[JSONObject] = [
            msgspec.json.decode(stored.data)
            for key, stored in self._store.scan(CRD_RESOURCE)
            if key != call.key and _group(key) == _group(call.key)
        ]
        with contextlib.suppress(StatusError):  # it went in the meantime
            await self._writer.change(call, lambda obj: establish(obj, others, call.stamp))

    def _members(self, group: str) -> list[Key]:
        return [key for key, _ in self._store.scan(CRD_RESOURCE) if key.name.endswith(group)]


def _group(definition: Key) -> str:
    return definition.name.partition(".")[2]
