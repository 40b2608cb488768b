"""Work that may take seconds, done beside the event loop so that other requests are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LARGE = 64 * 1024  # bytes of JSON or YAML; what is done with less takes less than 50 ms

P = ParamSpec("P")
T = TypeVar("T")


class Offload:
    """Runs functions over objects of any size: over large ones in a thread, one at a time."""

    def __init__(self) -> None:
        self._alone = asyncio.Lock()  # several threads would crowd out the loop

    async def run(
        self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What a pure function gives that takes time in proportion to `size`, in bytes."""
        if size < LARGE:
            return function(*args, **kwargs)
        async with self._alone:
            return await asyncio.to_thread(function, *args, **kwargs)
