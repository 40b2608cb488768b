"""Follows an Eviction to its end, on a terminal with bars, elsewhere in lines."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from hypercobalt.api.eviction import (
    Eviction,
    has_ended,
)
from hypercobalt.cli import exit_codes
from hypercobalt.cli.evict_progress import Follower, exit_code, outcome, summary
from hypercobalt.cli.following import follow
from hypercobalt.runtime import Kube


async def watch(kube: Kube, eviction: Eviction) -> int:
    """Show an Eviction until it ends; gives the exit code."""
    name = eviction.metadata.name
    follower = Follower(eviction)
    await follow(kube, Eviction, name, follower, _show(follower))
    last = follower.eviction
    if not has_ended(last.status):
        print(f"eviction/{name} was deleted", flush=True)
        return exit_codes.CANCELLED
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
