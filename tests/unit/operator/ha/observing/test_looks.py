"""What a look at a host counts for that its compute service has not answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

import pytest

from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Hosts
from hypercobalt.operator.ha.observing.looks import COUNTS, Looks
from hypercobalt.runtime import FakeClock

pytestmark = pytest.mark.asyncio

DEADLINE = timedelta(seconds=10)
LISTED = Host("kvm-1", "1", "1", enabled=True, up=False)
FRESH = replace(LISTED, up=True)
DOWN = replace(LISTED, forced_down=True)
SHORTLY, LATER = timedelta(seconds=COUNTS - 0.1), timedelta(seconds=COUNTS)


@dataclass
class Service:
    """A host that takes the whole deadline of each call until it lives."""

    clock: FakeClock
    lives: bool = False
    calls: int = 0
    looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self.looks = Looks(self.clock)

    async def get(self, name: str, *, fresh: bool = False) -> Host:
        assert (name, fresh) == (LISTED.name, True)
        self.calls += 1
        if self.lives:
            return FRESH
        self.clock.advance(DEADLINE)
        raise UnreachableError("no answer within 10 s")

    async def at(self, boot: str = "a", listed: Host = LISTED) -> Host | None:
        return await self.looks.at(cast("Hosts", self), listed, boot)


@pytest.fixture
def service() -> Service:
    return Service(FakeClock())


async def test_steps_of_a_recovery_wait_once_for_a_dead_host(service: Service) -> None:
    began = service.clock.monotonic()
    for _ in range(5):
        assert await service.at() == LISTED
    assert service.clock.monotonic() - began == DEADLINE.total_seconds()


async def test_next_look_begins_beside_the_steps_and_counts_from_its_end(service: Service) -> None:
    await service.at()
    service.clock.advance(SHORTLY)
    assert await service.at() == LISTED
    await asyncio.sleep(0)
    assert service.calls == 2
    service.clock.advance(SHORTLY)
    assert await service.at() == LISTED
    service.lives = True
    service.clock.advance(LATER)
    assert await service.at() == FRESH


async def test_host_that_answers_a_look_beside_the_steps_is_not_silent_any_more(
    service: Service,
) -> None:
    await service.at()
    service.lives = True
    assert await service.at() == LISTED
    await asyncio.sleep(0)
    assert await service.at() == FRESH


async def test_a_look_that_was_not_answered_counts_for_some_seconds(service: Service) -> None:
    await service.at()
    service.lives = True
    service.clock.advance(SHORTLY)
    assert await service.at() == LISTED
    service.clock.advance(LATER - SHORTLY)
    assert await service.at() == FRESH


@pytest.mark.parametrize(
    ("boot", "listed"),
    [
        pytest.param("b", LISTED, id="another boot"),
        pytest.param("a", DOWN, id="declared down"),
    ],
)
async def test_what_is_not_the_same_silence_is_looked_at(
    service: Service, boot: str, listed: Host
) -> None:
    await service.at()
    await service.at(boot, listed)
    assert service.calls == 2


async def test_a_look_that_was_answered_counts_once(service: Service) -> None:
    service.lives = True
    assert [await service.at(), await service.at()] == [FRESH, FRESH]
    assert service.calls == 2
    service.lives = False
    assert await service.at() == LISTED
