"""What every class behind the port `Shutdown` does; run on the fake and on a real logind."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta

import pytest

from hypercobalt.adapters.host.port import Shutdown

DEADLINE = 45.0
QUIET = 0.5
"""Long enough for news that should not come."""

WHO, WHY = "contract", "to see"


class World(ABC):
    """A host whose inhibitors are listed and that is shut down."""

    def __init__(self, shutdown: Shutdown) -> None:
        self.shutdown = shutdown

    @abstractmethod
    async def inhibitors(self) -> list[str]:
        """Holders of delay inhibitors on shutdown, of those that a contract took."""

    @abstractmethod
    async def begin(self) -> None:
        """Begin a shutdown."""

    async def until_held(self, *who: str) -> None:
        """Wait until these inhibitors are held, and no others; logind has no event for it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                if sorted(await self.inhibitors()) == sorted(who):
                    return
                await asyncio.sleep(0.05)


async def a_delay_is_held_while_its_context_is_entered(world: World) -> None:
    async with world.shutdown.delay(who=WHO, why=WHY):
        await world.until_held(WHO)
    await world.until_held()


async def a_delay_is_released_by_an_error_too(world: World) -> None:
    async def fail() -> None:
        async with world.shutdown.delay(who=WHO, why=WHY):
            await world.until_held(WHO)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    await world.until_held()


async def two_delays_are_held_apart(world: World) -> None:
    async with world.shutdown.delay(who=WHO, why=WHY):
        async with world.shutdown.delay(who=f"{WHO}-2", why=WHY):
            await world.until_held(WHO, f"{WHO}-2")
        await world.until_held(WHO)
    await world.until_held()


async def the_limit_is_a_positive_duration(world: World) -> None:
    assert timedelta() < await world.shutdown.limit() <= timedelta(days=1)


async def that_no_shutdown_is_prepared_is_reported_once(world: World) -> None:
    async with aclosing(world.shutdown.preparations()) as preparations:
        assert await asyncio.wait_for(anext(preparations), DEADLINE) is False
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(preparations), QUIET)


async def a_shutdown_is_reported_to_present_and_later_listeners(world: World) -> None:
    async with (
        asyncio.timeout(DEADLINE),
        world.shutdown.delay(who=WHO, why=WHY),
        aclosing(world.shutdown.preparations()) as preparations,
    ):
        assert await anext(preparations) is False
        reported = asyncio.ensure_future(anext(preparations))
        await world.until_held(WHO)
        await world.begin()
        assert await reported is True
        async with aclosing(world.shutdown.preparations()) as later:
            assert await anext(later) is True


CONTRACTS: tuple[Callable[[World], Awaitable[None]], ...] = (
    a_delay_is_held_while_its_context_is_entered,
    a_delay_is_released_by_an_error_too,
    two_delays_are_held_apart,
    the_limit_is_a_positive_duration,
    that_no_shutdown_is_prepared_is_reported_once,
    a_shutdown_is_reported_to_present_and_later_listeners,  # the last: the host goes down
)
