"""Blocking calls with a deadline, one after the other, on a thread of their own.

libvirt cannot interrupt a call that waits. When a deadline passes its thread is left behind: it
ends by itself once the call does, and the next call, which may wait already, gets a new thread. So
few are left behind that a daemon which never answers cannot fill the process with threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.thread_call import Job, thread_call

Answer = TypeVar("Answer")

_MAX_STUCK = 4


class Calls:
    """A row of calls."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._worker: _Worker | None = None
        self._stuck: list[_Worker] = []

    async def run(self, what: str, call: Callable[[], Answer], *, deadline: float) -> Answer:
        """Make a call.

        Args:
            what: of the call, for the error.
            call: blocks; its errors are raised here.
            deadline: seconds, the wait for earlier calls included.

        Raises:
            LibvirtError: it did not end in time, or too many calls before it never did.
        """
        try:
            async with asyncio.timeout(deadline), self._turn:
                worker = self._free_worker(what)
                answer, job = thread_call(call)
                worker.add(job)
                try:
                    return await asyncio.wrap_future(answer)
                finally:
                    if answer.running():  # nobody waits for it any more
                        self._leave(worker)
        except TimeoutError as exc:
            raise LibvirtError(f"{what}: libvirt did not answer within {deadline:g} s") from exc

    def close(self) -> None:
        """Let the thread end after what it does now."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _free_worker(self, what: str) -> _Worker:
        self._stuck = [worker for worker in self._stuck if worker.is_alive()]
        if len(self._stuck) >= _MAX_STUCK:
            raise LibvirtError(f"{what}: {_MAX_STUCK} earlier calls still wait for libvirt")
        if self._worker is None:
            self._worker = _Worker()
            self._worker.start()
        return self._worker

    def _leave(self, worker: _Worker) -> None:
        worker.end()
        if worker is self._worker:
            self._worker = None
            self._stuck.append(worker)


class _Worker(threading.Thread):
    """Does jobs until it is told to end; a daemon, so that the process can exit meanwhile."""

    def __init__(self) -> None:
        super().__init__(name="libvirt-calls", daemon=True)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    def add(self, job: Job) -> None:
        self._jobs.put(job)

    def end(self) -> None:
        self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
