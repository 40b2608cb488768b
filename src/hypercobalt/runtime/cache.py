"""The objects that an informer holds, by key and by index.

Objects are frozen, so they are handed out as they are. `metadata.managedFields`, which few
controllers read, is dropped on the way in, and texts that many objects have are kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from msgspec.structs import force_setattr

from hypercobalt.api.meta import Object
from hypercobalt.runtime.client.watch import key_of
from hypercobalt.runtime.interning import Sharer

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]


class Cache(Generic[T]):
    """Objects of one kind.

    Args:
        indexes: name to function; the function gives the values under which an object is found.
        share: keep equal texts once; half the cost of an update, wasted where texts are unique.
        managers: keep `metadata.managedFields`.
    """

    def __init__(
        self,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        share: bool = True,
        managers: bool = False,
    ) -> None:
        self._objects: dict[str, T] = {}
        self._sharer = Sharer() if share else None
        self._managers = managers
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[str, None]]] = {n: {} for n in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Every object, as they are now: the cache may change while the caller goes through."""
        return iter(list(self._objects.values()))

    def get(self, name: str, namespace: str | None = None) -> T | None:
        """The object of that name, None if there is none."""
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def by_key(self, key: str) -> T | None:
        """The object of that key, None if there is none."""
        return self._objects.get(key)

    def keys(self) -> set[str]:
        """Every key."""
        return set(self._objects)

    def find(self, index: str, value: str) -> list[T]:
        """The objects for which the index function gives `value`, in the order of their arrival.

        Raises:
            KeyError: there is no index of that name.
        """
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def put(self, obj: T) -> T | None:
        """Take an object in, and return the object that it replaces."""
        key = key_of(obj)
        old = self._objects.get(key)
        self.replace(key, old, obj)
        return old

    def replace(self, key: str, old: T | None, obj: T) -> None:
        """Take an object in for `old`, which is that of the key; None if there is none."""
        self._slim(obj)
        self._objects[key] = obj
        if not self._functions:
            return
        self._unindex(key, old)
        for name, function in self._functions.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = None

    def drop(self, key: str) -> T | None:
        """Drop an object and return it."""
        old = self._objects.pop(key, None)
        self._unindex(key, old)
        return old

    def _unindex(self, key: str, old: T | None) -> None:
        if old is None:
            return
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                keys = index.get(value, {})
                keys.pop(key, None)
                if not keys:
                    index.pop(value, None)

    def _slim(self, obj: T) -> None:
        """Take the managed fields off, and share texts: in place, as no reader has it yet.

        Against the rule that objects are frozen: a copy would cost more than decoding did.
        """
        if obj.metadata.managedFields and not self._managers:
            force_setattr(obj.metadata, "managedFields", ())
        if self._sharer is not None:
            self._sharer.share(obj)
