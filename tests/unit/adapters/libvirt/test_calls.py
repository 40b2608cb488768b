"""Blocking calls end at their deadline, whatever libvirt does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.port import LibvirtError


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls = Calls()
    yield calls
    calls.close()


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Something to hang on, set at the end so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_call_gives_its_answer(calls: Calls) -> None:
    assert await calls.run("one", lambda: 1, deadline=2) == 1


async def test_a_call_raises_its_error(calls: Calls) -> None:
    with pytest.raises(ZeroDivisionError):
        await calls.run("one", lambda: 1 // 0, deadline=2)
    assert await calls.run("another", lambda: 2, deadline=2) == 2


async def test_calls_share_a_thread(calls: Calls) -> None:
    threads = [await calls.run("ident", threading.get_ident, deadline=2) for _ in range(3)]

    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_a_stuck_call_is_left_and_the_next_one_goes_on(
    calls: Calls, hang: threading.Event
) -> None:
    with pytest.raises(LibvirtError, match=r"^stuck: libvirt did not answer within 0\.05 s$"):
        await calls.run("stuck", hang.wait, deadline=0.05)

    assert await calls.run("next", lambda: 1, deadline=2) == 1


async def test_a_call_that_waits_behind_a_stuck_one_has_its_own_deadline(
    calls: Calls, hang: threading.Event
) -> None:
    stuck = asyncio.create_task(calls.run("stuck", hang.wait, deadline=1))
    await asyncio.sleep(0)

    ran: list[str] = []
    with pytest.raises(LibvirtError, match="waiting"):
        await calls.run("waiting", lambda: ran.append("it"), deadline=0.05)
    hang.set()

    assert await stuck
    assert await calls.run("after", lambda: list(ran), deadline=2) == []


async def test_what_waits_behind_a_stuck_call_goes_on_when_that_is_given_up(
    calls: Calls, hang: threading.Event
) -> None:
    stuck = asyncio.create_task(calls.run("stuck", hang.wait, deadline=0.05))
    await asyncio.sleep(0)

    assert await calls.run("waiting", lambda: 1, deadline=5) == 1
    with pytest.raises(LibvirtError, match="stuck"):
        await stuck


async def test_few_stuck_calls_are_borne(calls: Calls, hang: threading.Event) -> None:
    answers = ["did not answer"]
    while "did not answer" in answers[-1]:  # on a busy machine some end before their thread begins
        with pytest.raises(LibvirtError) as refused:
            await calls.run("stuck", hang.wait, deadline=0.01)
        answers.append(str(refused.value))

    assert len(answers) > 5
    assert answers[-1] == "stuck: 4 earlier calls still wait for libvirt"

    hang.set()
    async with asyncio.timeout(2):
        while True:
            try:
                assert await calls.run("later", lambda: 1, deadline=1) == 1
            except LibvirtError:
                await asyncio.sleep(0)
            else:
                break


async def test_a_caller_that_goes_away_leaves_the_row_intact(
    calls: Calls, hang: threading.Event
) -> None:
    task = asyncio.create_task(calls.run("held", hang.wait, deadline=2))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await calls.run("next", lambda: 1, deadline=2) == 1
