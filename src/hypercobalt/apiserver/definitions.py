"""Serve what CustomResourceDefinitions declare: accept their names, follow their changes.

Of each definition the names and conditions are kept, so that a write of one costs the same whatever
else its group holds.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go,
pkg/controller/apiapproval and pkg/controller/establish.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import msgspec

from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds import serving
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry, Resource
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.writing import Writer


@dataclass(slots=True)
class _Group:
    """The definitions of a group: what each wants and has, and the names they have together."""

    claims: dict[Key, JSONObject] = field(default_factory=dict[Key, JSONObject])
    held: serving.HeldNames = field(default_factory=serving.HeldNames)


class Definitions:
    """Keeps the registry as the stored definitions declare."""

    def __init__(self, store: Store, registry: Registry, writer: Writer) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._groups: dict[str, _Group] = {}
        self._unsettled: set[Key] = set()
        self._settling = asyncio.Lock()
        for key, stored in store.scan(CRD_RESOURCE):
            self._follow(key, msgspec.json.decode(stored.data))
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.key.resource != CRD_RESOURCE:
            if event.type == "DELETED":
                for version in self._registry.custom.get(event.key.resource, ()):
                    version.forget(event.key.place)
            return
        definition: JSONObject = msgspec.json.decode(event.data)
        if event.type == "DELETED":
            definition.pop("status", None)
        self._follow(event.key, definition, gone=event.type == "DELETED")

    def _follow(self, key: Key, definition: JSONObject, *, gone: bool = False) -> None:
        """Serve a definition as it is now; look at those again whose names it may have freed."""
        group = self._groups.setdefault(_group(key), _Group())
        before = group.claims.pop(key, None)
        after = None if gone else serving.claim_of(definition)
        if before is not None:
            group.held.remove(before)
        if after is not None:
            group.held.add(after)
            group.claims[key] = after
            self._unsettled.add(key)
        if before is not None and serving.frees(before, after):
            self._unsettled |= {other for other, c in group.claims.items() if serving.waits(c)}
        if not group.claims:
            del self._groups[_group(key)]
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
                for key in sorted(self._unsettled):
                    self._unsettled.discard(key)
                    try:
                        await self._settle_one(resource, key)
                    except BaseException:
                        self._unsettled.add(key)
                        raise

    async def _settle_one(self, resource: Resource, key: Key) -> None:
        group = self._groups.get(_group(key), _Group())
        claim = group.claims.get(key)
        if claim is None or serving.is_settled(claim, group.held):
            return
        call = Call.internal(resource, key, "kube-apiserver", "status")
        with contextlib.suppress(StatusError):  # it went in the meantime
            await self._writer.change(
                call, lambda obj: serving.establish(obj, group.held, call.stamp)
            )


def _group(definition: Key) -> str:
    return definition.name.partition(".")[2]
