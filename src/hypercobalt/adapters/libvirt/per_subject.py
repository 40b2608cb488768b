"""Calls that may hang, each with its subject: a hung one holds up its own subject only.

A call to a domain's QEMU waits for as long as that QEMU is silent, and libvirt cannot interrupt
it. A call keeps its slot until it ends, even after its caller has given up: so a silent
subject has at most one call in flight, however many callers there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from hypercobalt.adapters.libvirt.links import within
from hypercobalt.adapters.libvirt.port import DomainHungError, LibvirtError

Answer = TypeVar("Answer")

MOST: Final = 3
"""Calls under way on one connection, which has one place more (`rpc.client.PLACES`)."""


class _LateError(LibvirtError):
    """A call did not end in time."""


class PerSubject:
    """Calls in order for each subject, and some subjects at a time.

    Args:
        most: calls under way in all.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._places = most, asyncio.Semaphore(most)
        self._under_way: set[str] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(
        self, subject: str, what: str, call: Callable[[], Awaitable[Answer]], *, deadline: float
    ) -> Answer:
        """Make a call when the one before about the same subject has ended.

        Args:
            subject: that may hang; "" for what does not, and is under way at once.
            what: of the call, for the error.
            call: makes it.
            deadline: seconds, the wait for earlier calls included.

        Raises:
            DomainHungError: it did not end in time, or the one before has not ended yet.
            LibvirtError: it could not begin, as calls about other subjects have all places; else
                see `links.within`.
        """
        if not subject:
            return await within(deadline, what, call())
        try:
            return await within(deadline, what, self._in_turn(subject, call), late=_LateError)
        except _LateError as exc:
            if subject in self._under_way:
                raise DomainHungError(str(exc)) from exc
            others = f"{self._most} calls about other domains hang"
            raise LibvirtError(f"{what}: not sent within {deadline:g} s: {others}") from exc

    async def _in_turn(self, subject: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._turns.setdefault(subject, asyncio.Lock()))
            await held.enter_async_context(self._places)
            self._under_way.add(subject)
            held.callback(self._under_way.discard, subject)
            task = asyncio.create_task(_keep(held.pop_all(), call), name="libvirt-call")
        return await asyncio.shield(task)


async def _keep(held: AsyncExitStack, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make the call, and give back what it holds when it ends."""
    async with held:
        return await call()
