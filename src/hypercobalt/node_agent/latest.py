"""One object as the API server last showed it, and a way to wait for news of it."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.runtime import Informer

T = TypeVar("T", bound=Object)


class Latest(Generic[T]):
    """Follows the one object that an informer's selection has.

    Attributes:
        value: the object, None while there is none or the server has not been heard.
    """

    def __init__(self, informer: Informer[T]) -> None:
        self.value: T | None = None
        self._changed = asyncio.Event()
        informer.add_handler(self)

    async def changed(self, since: T | None) -> T | None:
        """Wait until the object is another than `since`; gives it."""
        while self.value is since:
            await self._changed.wait()
        return self.value

    def on_add(self, obj: T) -> None:
        self._set(obj)

    def on_update(self, old: T, new: T) -> None:
        del old
        self._set(new)

    def on_delete(self, obj: T) -> None:
        del obj
        self._set(None)

    def _set(self, value: T | None) -> None:
        self.value = value
        self._changed.set()
        self._changed = asyncio.Event()
