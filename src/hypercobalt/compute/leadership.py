"""Whether this process may still change anything: a leader that was frozen may have a successor."""

from __future__ import annotations

from collections.abc import Callable

LeaderGuard = Callable[[], None]
"""Called right before each change, on any thread; raises a `TransientError` that forbids it."""


def unguarded() -> None:
    """For a process that is the only one."""
