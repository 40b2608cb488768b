"""Guard of changes by leadership: a leader that was frozen may have a successor."""

from __future__ import annotations

from collections.abc import Callable

LeaderGuard = Callable[[], None]
"""Guard called right before each change, on any thread; raises a `TransientError` to forbid it."""


def unguarded() -> None:
    """Allow every change: the process is the only one."""
