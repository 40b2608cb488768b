"""Blocking calls with a deadline about many subjects: what hangs holds up its own subject only.

A question to a domain's QEMU waits for as long as that QEMU is silent, and libvirt cannot interrupt
it. A call keeps its place until it ends, also when nobody waits for it any more: so a silent
subject has one thread at most, however often it is asked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from hypercobalt.adapters.libvirt.port import DomainHungError
from hypercobalt.adapters.thread_call import thread_call

Answer = TypeVar("Answer")

MOST: Final = 3
"""Calls under way in all. Of one client libvirtd serves five at a time (`max_client_requests`)
and does not even read the sixth: neither that nor a sign of life."""


class PerSubject:
    """Calls in order for each subject, and some subjects at a time.

    Args:
        most: calls under way in all.
    """

    def __init__(self, most: int = MOST) -> None:
        self._places = asyncio.Semaphore(most)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(
        self, subject: str, what: str, call: Callable[[], Answer], *, deadline: float
    ) -> Answer:
        """Make a call when the one before about the same subject has ended.

        Args:
            subject: that may hang.
            what: of the call, for the error.
            call: blocks; its errors are raised here.
            deadline: seconds, the wait for earlier calls included.

        Raises:
            DomainHungError: it did not end in time, or could not even begin.
        """
        turn = self._turns.setdefault(subject, asyncio.Lock())
        try:
            async with asyncio.timeout(deadline):
                with ExitStack() as held:
                    await turn.acquire()
                    held.callback(turn.release)
                    await self._places.acquire()
                    held.callback(self._places.release)
                    answer, job = thread_call(call)
                    _when_ended(answer, held.pop_all())
                    Thread(target=job, name="libvirt-call", daemon=True).start()
                    return await asyncio.wrap_future(answer)
        except TimeoutError as exc:
            raise DomainHungError(f"{what}: no answer within {deadline:g} s") from exc


def _when_ended(answer: Future[Answer], held: ExitStack) -> None:
    """Give back what a call holds, on the loop of now, however late it ends."""
    loop = asyncio.get_running_loop()

    def give_back(_: Future[Answer]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody needs it
            loop.call_soon_threadsafe(held.close)

    answer.add_done_callback(give_back)
