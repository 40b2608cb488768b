"""Follows an Eviction to its end, on a terminal with bars, elsewhere in lines."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime

from hypercobalt.api.eviction import (
    Eviction,
    has_ended,
)
from hypercobalt.cli import asking
from hypercobalt.cli.evict_progress import Follower, exit_code, outcome, summary
from hypercobalt.runtime import Informer, Kube, Metrics
from hypercobalt.runtime.client.requests import Selection


async def watch(kube: Kube, eviction: Eviction) -> int:
    """Show an Eviction until it ends; gives the exit code."""
    name = eviction.metadata.name
    follower = Follower(eviction)
    selection = Selection(Eviction, fields=f"metadata.name={name}")
    informer = Informer(kube, selection, metrics=Metrics())
    informer.add_handler(follower)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run(), name=f"eviction-{name}")
        # A watch does not report an object that is gone before its first list.
        listed = group.create_task(_missed(informer, follower), name="listed")
        try:
            await _show(follower)
        finally:
            listed.cancel()
            following.cancel()
    last = follower.eviction
    if not has_ended(last.status):
        print(f"eviction/{name} was deleted", flush=True)
        return asking.CANCELLED
    print(outcome(last), flush=True)
    return exit_code(last)


async def _show(follower: Follower) -> None:
    if not sys.stdout.isatty():
        await _lines(follower)
        return
    try:
        from hypercobalt.cli.evict_bars import show_bars  # noqa: PLC0415 - rich is an extra
    except ImportError:
        await _lines(follower)
    else:
        await show_bars(follower)


async def _lines(follower: Follower) -> None:
    shown = ""
    while not follower.over:
        text = summary(follower.eviction, datetime.now(UTC))
        if text != shown:
            print(text, flush=True)
            shown = text
        await follower.changed.wait()
        follower.changed.clear()


async def _missed(informer: Informer[Eviction], follower: Follower) -> None:
    await informer.wait_synced()
    if not len(informer.cache):
        follower.lost()
