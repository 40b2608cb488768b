"""Waits for what is written, and for who writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.runtime import Kube

T = TypeVar("T", bound=Object)


async def follow(
    kube: Kube, kind: type[T], name: str, good: Callable[[T], bool], *, seconds: float
) -> T:
    """Follow a cluster-wide object until it is as wanted."""
    last: T | None = None
    try:
        async with (
            asyncio.timeout(seconds),
            kube.watch(kind, fields=f"metadata.name={name}") as events,
        ):
            async for event in events:
                last = event.object or last
                if event.object is not None and good(event.object):
                    return event.object
    except TimeoutError:
        raise AssertionError(f"not as wanted within {seconds} s; last: {last}") from None
    raise AssertionError(f"the watch ended; last: {last}")


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
