"""The right of way of one controller: the others wait for its work.

A burst of new objects would otherwise share the process and the API server with all that follows
from each of them: what others wait for most would be there last.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

LONGEST: Final = timedelta(seconds=15)
"""How long a pass lets others go first: work that never ends holds up nothing for good."""


class Precedence:
    """Keys whose first pass goes before the passes of controllers that yield.

    Args:
        longest: see `LONGEST`.
    """

    def __init__(self, longest: timedelta = LONGEST) -> None:
        self._longest = longest
        self._keys: set[str] = set()
        self._none = asyncio.Event()
        self._none.set()

    @property
    def is_free(self) -> bool:
        """Whether nothing goes first now."""
        return not self._keys

    def begin(self, key: str) -> None:
        """Let a key go first."""
        self._keys.add(key)
        self._none.clear()

    def end(self, key: str) -> None:
        """The key has had its pass, or needs none."""
        self._keys.discard(key)
        if not self._keys:
            self._none.set()

    async def free(self) -> None:
        """Wait until no work that goes first is left, `longest` at most."""
        try:
            async with asyncio.timeout(self._longest.total_seconds()):
                await self._none.wait()
        except TimeoutError:
            return
