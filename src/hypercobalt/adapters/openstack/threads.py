"""Blocking calls on a bounded number of threads.

A call without a waiting caller keeps its thread until its own time-outs end it; it cannot
fill the process with threads, since the next calls wait for one of the same few. The threads do not
hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

from hypercobalt.adapters.thread_call import Job, thread_call

Answer = TypeVar("Answer")

SIZE: Final = 16
"""Calls at once: as many as OpenStack's services serve to one client without queueing."""


class Threads:
    """A pool; threads start when they are first needed.

    Args:
        name: of the threads, for people who look at the process.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Make a call on a thread; its errors are raised here.

        One that is cancelled before a thread has taken it is not made.
        """
        answer, job = thread_call(call)
        self._jobs.put(job)
        if not self._free.acquire(blocking=False) and self._started < SIZE:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return await asyncio.wrap_future(answer)

    def close(self) -> None:
        """Let the threads end after what they do now."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._free.release()
