"""Waits for what is written, and for who writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.runtime import Kube

T = TypeVar("T", bound=Object)


async def follow(
    kube: Kube, kind: type[T], name: str, good: Callable[[T], bool], *, seconds: float
) -> T:
    """Follow a cluster-wide object until it is as wanted."""
    seen: list[T] = []
    try:
        async with (
            asyncio.timeout(seconds),
            kube.watch(kind, fields=f"metadata.name={name}") as events,
        ):
            async for event in events:
                if event.object is None:
                    continue
                if good(event.object):
                    return event.object
                seen.append(event.object)
    except TimeoutError:
        raise AssertionError(f"not as wanted within {seconds} s; {_described(seen)}") from None
    raise AssertionError(f"the watch ended; {_described(seen)}")


def _described(seen: Sequence[Object]) -> str:
    """The last state, and the versions before it: whether anything was written meanwhile."""
    versions = ", ".join(one.metadata.resourceVersion for one in seen) or "none"
    return f"versions seen: {versions}; last: {seen[-1] if seen else None}"


@asynccontextmanager
async def background(*runs: Callable[[], Coroutine[None, None, None]]) -> AsyncGenerator[None]:
    """Run what runs until cancelled; none of it may have ended by itself."""
    tasks = [asyncio.create_task(run()) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            assert task.cancelled(), task
