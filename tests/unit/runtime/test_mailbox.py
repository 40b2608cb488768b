"""Work in order for one key, at once for several, and refused when one key has too much."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from hypercobalt.runtime.mailbox import Mailbox

SECONDS = 5


class Work:
    """Records what began and ended, and waits where a test holds it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def hold(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def do(self, name: str) -> None:
        self.log.append(f"begin {name}")
        if name in self.gates:
            await self.gates[name].wait()
        self.log.append(f"end {name}")


async def test_work_of_one_key_is_done_in_order_and_another_key_does_not_wait() -> None:
    work = Work()
    first = work.hold("a1")
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        mailbox = Mailbox(tasks)
        assert mailbox.put("a", partial(work.do, "a1"))
        assert mailbox.put("a", partial(work.do, "a2"))
        await mailbox.do("b", partial(work.do, "b1"))
        assert work.log == ["begin a1", "begin b1", "end b1"]
        first.set()
    assert work.log[-3:] == ["end a1", "begin a2", "end a2"]


async def test_result_comes_after_all_earlier_work_of_the_key() -> None:
    work = Work()

    async def count() -> int:
        return len(work.log)

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        mailbox = Mailbox(tasks)
        for number in range(3):
            mailbox.put("a", partial(work.do, str(number)))
        assert await mailbox.do("a", count) == 6


async def test_full_mailbox_refuses_new_work_and_keeps_what_waits() -> None:
    work = Work()
    first = work.hold("1")
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        mailbox = Mailbox(tasks, limit=2)
        taken = [mailbox.put("a", partial(work.do, name)) for name in "123"]
        assert taken == [True, True, False]
        assert mailbox.put("b", partial(work.do, "other"))
        first.set()
        await mailbox.do("a", partial(work.do, "last"))
        assert mailbox.put("a", partial(work.do, "4"))
    ended = [line for line in work.log if line.startswith("end")]
    assert [line for line in ended if line != "end other"] == [
        "end 1",
        "end 2",
        "end last",
        "end 4",
    ]


async def test_work_that_is_waited_for_ends_with_its_group() -> None:
    work = Work()
    work.hold("1")

    async def run() -> None:
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(Mailbox(tasks).do("a", partial(work.do, "1")))
            await asyncio.sleep(0)
            raise ValueError("broken")

    with pytest.raises(ExceptionGroup) as raised:
        await run()
    assert [str(error) for error in raised.value.exceptions] == ["broken"]


async def test_error_of_one_piece_ends_the_group() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ExceptionGroup, match="unhandled"):
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            Mailbox(tasks).put("a", fail)


async def test_cancelled_waiter_gives_its_turn_to_the_next() -> None:
    work = Work()
    first = work.hold("1")
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        mailbox = Mailbox(tasks)
        mailbox.put("a", partial(work.do, "1"))
        waiter = asyncio.create_task(mailbox.do("a", partial(work.do, "2")))
        await asyncio.sleep(0)
        mailbox.put("a", partial(work.do, "3"))
        waiter.cancel()
        first.set()
    assert work.log == ["begin 1", "end 1", "begin 3", "end 3"]
