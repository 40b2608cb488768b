"""The newest known state of the objects of an informer: the cache, but for what was just written.

The answer to a write is known before the watch reports it. Until the cache has caught up, readers
get the answer: no decision rests on a state known to be old, so nothing is written twice. Writers
of one object take turns: a write that names the version it was decided on is not refused because
another controller of the same process was faster.

Source: Kubernetes API concepts, resource versions (of one kind they compare as numbers).
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from hypercobalt.api.meta import Object
from hypercobalt.runtime.client.watch import join_key, key_of
from hypercobalt.runtime.informer import Informer
from hypercobalt.runtime.observable import Observable

T = TypeVar("T", bound=Object)


class WriteCache(Generic[T]):
    """Newest objects of a kind in a process, shared by the controllers."""

    def __init__(self, informer: Informer[T]) -> None:
        self._cache = informer.cache
        self._written: dict[str, T] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        informer.add_handler(self)

    def get(self, name: str, namespace: str = "") -> T | None:
        """The newest known state, None if there is no such object."""
        key = join_key(namespace, name)
        return self._written.get(key) or self._cache.by_key(key)

    def all(self) -> list[T]:
        """The newest known state of every object."""
        return [*({key_of(obj): obj for obj in self._cache} | self._written).values()]

    def turn(self, name: str, namespace: str = "") -> asyncio.Lock:
        """What a writer of an object holds, from reading the newest state to `wrote`."""
        return self._turns.setdefault(join_key(namespace, name), asyncio.Lock())

    def wrote(self, obj: T) -> T:
        """Take in the server's answer to a change of a known object, and return it.

        One that is no longer known was deleted, or left the selection, during the write: the watch
        will not report it again, and so the answer would stay for ever.
        """
        known = self.get(obj.metadata.name, obj.metadata.namespace)
        if known is not None and version_of(obj) > version_of(known):
            self._written[key_of(obj)] = obj
        return obj

    def added(self, obj: T) -> T:
        """Take in an object that was created, or brought into the selection, and return it."""
        if self.get(obj.metadata.name, obj.metadata.namespace) is None:
            self._written[key_of(obj)] = obj
        return self.wrote(obj)

    def missing(self, obj: T) -> None:
        """Take in that the server has no such object."""
        self._written.pop(key_of(obj), None)

    def on_add(self, obj: T) -> None:
        self._seen(obj)

    def on_update(self, old: T, new: T) -> None:
        del old
        self._seen(new)

    def on_delete(self, obj: T) -> None:
        self._written.pop(key_of(obj), None)

    def _seen(self, obj: T) -> None:
        written = self._written.get(key_of(obj))
        if written is not None and version_of(obj) >= version_of(written):
            del self._written[key_of(obj)]


class Latest(WriteCache[T]):
    """The one object that an informer's selection has, and a way to wait for its next state."""

    def __init__(self, informer: Informer[T]) -> None:
        self._newest: Observable[T | None] = Observable(None)
        self._informer = informer
        super().__init__(informer)

    @property
    def value(self) -> T | None:
        """The newest known state; None if there is no such object, or before the first list.

        With a `problem` it is the last one that could be read, None if none ever could.
        """
        return self._newest.value

    @property
    def problem(self) -> str:
        """Why the object, which is there, cannot be read; "" if it can, or is not there."""
        return next(iter(self._informer.unreadable.value.values()), "")

    async def problem_changed(self, since: str) -> str:
        """Wait until the problem is another than `since`; return it."""
        while self.problem == since:
            unreadable = self._informer.unreadable
            await unreadable.changed(unreadable.value)
        return self.problem

    async def changed(self, since: T | None) -> T | None:
        """Wait until the object is another than `since`; return it."""
        return await self._newest.changed(since)

    def restart(self) -> None:
        """See `Informer.restart`."""
        self._informer.restart()

    async def listed(self) -> None:
        """Wait for the first list: from then on None without a problem means: no such object."""
        await self._informer.wait_synced()

    def wrote(self, obj: T) -> T:
        super().wrote(obj)
        self._refresh()
        return obj

    def added(self, obj: T) -> T:
        super().added(obj)
        self._refresh()
        return obj

    def on_delete(self, obj: T) -> None:
        super().on_delete(obj)
        self._refresh()

    def _seen(self, obj: T) -> None:
        super()._seen(obj)
        self._refresh()

    def _refresh(self) -> None:
        self._newest.set(next(iter(self.all()), None))


def version_of(obj: Object) -> int:
    """Return an object's version: a newer state has a greater one; 0 if it was not read."""
    version = obj.metadata.resourceVersion
    return int(version) if version.isascii() and version.isdigit() else 0
