"""Keeps a deleted object until what a controller began for it has ended."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec.structs import replace

from hypercobalt.api.meta import Object
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.write_cache import WriteCache

T = TypeVar("T", bound=Object)


class Finalizer(Generic[T]):
    """One finalizer on the objects of a kind.

    Args:
        name: of the finalizer, `domain/name`.
        kube: writes as the controller whose finalizer it is.
        newest: the newest known state of the objects.
    """

    def __init__(self, name: str, kube: Kube, newest: WriteCache[T]) -> None:
        self._name, self._kube, self._newest = name, kube, newest

    def is_on(self, obj: T) -> bool:
        """Whether the object has the finalizer."""
        return self._name in obj.metadata.finalizers

    async def add(self, obj: T) -> T | None:
        """Add the finalizer; None if the object is gone or being deleted: nothing may begin."""
        if self.is_on(obj):
            return obj
        async with self._newest.turn(obj.metadata.name, obj.metadata.namespace):
            written = await self._modify(obj, on=True)
            return self._newest.wrote(written) if written and self.is_on(written) else None

    async def remove(self, obj: T) -> None:
        """Remove the finalizer, if it is there; a deleted object without others is gone then."""
        if not self.is_on(obj):
            return
        async with self._newest.turn(obj.metadata.name, obj.metadata.namespace):
            written = await self._modify(obj, on=False)
            if written is None or (_is_deleted(written) and not written.metadata.finalizers):
                self._newest.missing(obj)
            else:
                self._newest.wrote(written)

    async def _modify(self, obj: T, *, on: bool) -> T | None:
        def decide(found: T) -> T:
            meta = found.metadata
            another = meta.uid != obj.metadata.uid
            if another or self.is_on(found) is on or (on and _is_deleted(found)):
                return found
            others = tuple(one for one in meta.finalizers if one != self._name)
            finalizers = (*others, self._name) if on else others
            return replace(found, metadata=replace(meta, finalizers=finalizers))

        meta = obj.metadata
        found = await self._kube.modify(type(obj), meta.name, decide, meta.namespace or None)
        return found if found and found.metadata.uid == meta.uid else None


def _is_deleted(obj: Object) -> bool:
    return obj.metadata.deletionTimestamp is not None
