"""An operator that dies in its work."""

from __future__ import annotations

import asyncio


class Dying:
    """Lets so many writes through, and then ends the process's task."""

    def __init__(self, writes: int) -> None:
        self.left = writes
        self.task: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        if not self.left:
            assert self.task is not None
            self.task.cancel()
        self.left = max(0, self.left - 1)
