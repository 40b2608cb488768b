"""A subject that never answers holds up no other one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.following import background

from hypercobalt.adapters.libvirt.per_subject import PerSubject
from hypercobalt.adapters.libvirt.port import DomainHungError, LibvirtError

BRIEF, LONG = 0.05, 5.0


class Silent:
    """A subject that answers when a test lets it."""

    def __init__(self) -> None:
        self.calls, self.speaks = 0, asyncio.Event()

    async def __call__(self) -> bool:
        self.calls += 1
        return await self.speaks.wait()


async def one() -> int:
    return 1


async def refused(lanes: PerSubject, subject: str, silent: Silent) -> None:
    with pytest.raises(DomainHungError, match=r"^stuck: libvirt did not answer within 0\.05 s$"):
        await lanes.run(subject, "stuck", silent, deadline=BRIEF)


async def test_a_call_gives_its_answer_or_raises_its_error() -> None:
    async def wrong() -> int:
        raise ZeroDivisionError

    lanes = PerSubject()
    assert await lanes.run("a", "one", one, deadline=LONG) == 1
    with pytest.raises(ZeroDivisionError):
        await lanes.run("a", "one", wrong, deadline=LONG)
    assert await lanes.run("a", "one", one, deadline=LONG) == 1


async def test_other_subjects_are_answered_while_one_is_called_again_and_again() -> None:
    lanes, silent = PerSubject(), Silent()

    async def call_again() -> None:
        while True:
            with suppress(LibvirtError):
                await lanes.run("silent", "stuck", silent, deadline=BRIEF)

    async with background(call_again):
        await refused(lanes, "silent", silent)
        for _ in range(20):
            assert await lanes.run("other", "fine", one, deadline=LONG) == 1


async def test_a_silent_subject_is_called_once_until_it_answers() -> None:
    lanes, silent = PerSubject(), Silent()
    for _ in range(5):
        await refused(lanes, "silent", silent)
    assert silent.calls == 1

    silent.speaks.set()

    assert await lanes.run("silent", "well again", silent, deadline=LONG)
    assert silent.calls == 2


async def test_few_calls_are_under_way_in_all() -> None:
    lanes, silent = PerSubject(most=2), Silent()
    for subject in ("one", "two"):
        await refused(lanes, subject, silent)
    with pytest.raises(LibvirtError, match="2 calls about other domains hang") as not_called:
        await lanes.run("three", "stuck", silent, deadline=BRIEF)
    assert not isinstance(not_called.value, DomainHungError)
    assert silent.calls == 2

    silent.speaks.set()

    assert await lanes.run("three", "well again", silent, deadline=LONG)


async def test_a_caller_that_goes_away_leaves_nothing_behind() -> None:
    lanes, silent = PerSubject(most=1), Silent()
    holder = asyncio.create_task(lanes.run("silent", "stuck", silent, deadline=LONG))
    waiting = asyncio.create_task(lanes.run("other", "waits", one, deadline=LONG))
    await asyncio.sleep(0)
    for task in (waiting, holder):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    silent.speaks.set()

    for subject in ("silent", "other"):
        assert await lanes.run(subject, "next", one, deadline=LONG) == 1
