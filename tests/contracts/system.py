"""What every class behind the port `System` does; run on the fake and on a real host."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from hypercobalt.adapters.host.port import System

DEADLINE = 45.0
QUIET = 0.5
"""Long enough for news that should not come."""


class World(ABC):
    """A host whose operating system can be updated."""

    def __init__(self, system: System) -> None:
        self.system = system

    @abstractmethod
    async def update(self, pretty_version: str) -> None:
        """Set PRETTY_NAME of os-release."""


async def the_present_system_comes_first(world: World) -> None:
    await world.update("One 1.0")
    async with asyncio.timeout(DEADLINE), aclosing(world.system.watch()) as found:
        now = await anext(found)
    assert (now.pretty_version, now.kernel_name) == ("One 1.0", "Linux")


async def an_update_is_reported_to_every_watcher(world: World) -> None:
    await world.update("One 1.0")
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(world.system.watch()) as one,
        aclosing(world.system.watch()) as other,
    ):
        for watch in (one, other):
            assert (await anext(watch)).pretty_version == "One 1.0"
        await world.update("Two 2.0")
        for watch in (one, other):
            assert (await anext(watch)).pretty_version == "Two 2.0"


async def an_unchanged_system_is_not_reported_again(world: World) -> None:
    await world.update("One 1.0")
    async with aclosing(world.system.watch()) as found:
        await anext(found)
        await world.update("One 1.0")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(found), QUIET)


CONTRACTS: tuple[Callable[[World], Awaitable[None]], ...] = (
    the_present_system_comes_first,
    an_update_is_reported_to_every_watcher,
    an_unchanged_system_is_not_reported_again,
)
