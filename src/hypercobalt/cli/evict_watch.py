"""Follows an Eviction to its end, on a terminal with bars, elsewhere in lines."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from hypercobalt.api.eviction import Eviction, EvictionReason, evicting, has_ended
from hypercobalt.cli import exit_codes
from hypercobalt.cli.following import follow
from hypercobalt.runtime import Kube
from hypercobalt.views.eviction_progress import EvictionFollower, outcome, summary

_EXIT = {
    EvictionReason.SUCCEEDED: 0,
    EvictionReason.FAILED: exit_codes.FAILED,
    EvictionReason.CANCELLED: exit_codes.CANCELLED,
}


async def watch(kube: Kube, eviction: Eviction) -> int:
    """Show an Eviction until it ends, and return the exit code."""
    name = eviction.metadata.name
    follower = EvictionFollower(eviction)
    await follow(kube, Eviction, name, follower, _show(follower))
    last = follower.eviction
    if not has_ended(last.status):
        print(f"eviction/{name} was deleted", flush=True)
        return exit_codes.CANCELLED
    print(outcome(last), flush=True)
    return _exit_code(last)


async def _show(follower: EvictionFollower) -> None:
    if not sys.stdout.isatty():
        await _lines(follower)
        return
    try:
        from hypercobalt.cli.evict_bars import show_bars  # noqa: PLC0415 - rich is an extra
    except ImportError:
        await _lines(follower)
    else:
        await show_bars(follower)


async def _lines(follower: EvictionFollower) -> None:
    shown = ""
    while not follower.over:
        text = summary(follower.eviction, datetime.now(UTC))
        if text != shown:
            print(text, flush=True)
            shown = text
        await follower.changed.wait()
        follower.changed.clear()


def _exit_code(eviction: Eviction) -> int:
    """The exit code for the end of an Eviction, 0 before it."""
    found = evicting(eviction.status)
    return _EXIT.get(EvictionReason(found.reason), 0) if found else 0
