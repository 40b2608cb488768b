"""An event loop that skips its waits, though it talks to a server in another process.

Nothing is due and no request is under way: then the time jumps to the next timer. Hours of waits of
the operator cost what its requests cost, and its own settings need no change for it.

A watch may deliver what was written a moment later than the answer of the write came. So after each
write the loop waits a moment in real time, and then until every thread of the server's processes
sleeps: one that waits for a core on a busy machine does not. Threads are looked at one after the
other, and one that was seen asleep may be woken by one that falls asleep before it is looked at. So
all are looked at twice: none that sleeps both times, and has not run between, was woken meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from hypercobalt.runtime.client.session import Exchange, Session
from hypercobalt.runtime.client.transport import Call, Transport

T = TypeVar("T")

PATIENCE: Final = float(os.environ.get("ATTACKER_PATIENCE_MS", "4")) / 1000
"""Seconds for which a written object may not have reached the watches of an idle server."""

_GLANCE: Final = 0.0005
_SLICE: Final = 0.02
_STATUS_BYTES: Final = 8192
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class SkippingLoop(asyncio.SelectorEventLoop):
    """See the module.

    Args:
        pids: the server's processes.

    Attributes:
        under_way: requests that have no answer yet, watches not counted once they are open.
        skipped: seconds that were not waited for.
        written: when the last write was answered, in real time.
        longest: seconds of CPU of its thread in the longest turn since this was set to 0.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._threads = Threads(pids)
        self.under_way, self.skipped, self.written = 0, 0.0, 0.0
        self.longest, self._turn_began = 0.0, time.thread_time()
        super().__init__(_Skipping(self))

    def time(self) -> float:
        return time.monotonic() + self.skipped

    @contextmanager
    def between_turns(self) -> Iterator[None]:
        """Wait in the block for the next turn."""
        self.longest = max(self.longest, time.thread_time() - self._turn_began)
        try:
            yield
        finally:
            self._turn_began = time.thread_time()

    @contextmanager
    def request(self, *, writes: bool) -> Iterator[None]:
        """Let no time be skipped until the block is left."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            if writes:
                self.written = time.monotonic()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Skip no time either while a thread works."""
        self.under_way += 1
        made = super().run_in_executor(executor, func, *args)
        made.add_done_callback(self._thread_is_done)
        return made

    def _thread_is_done(self, _: object) -> None:
        self.under_way -= 1

    def is_waited_for(self) -> bool:
        """Whether something may come from the server without a timer."""
        if self.under_way > 0 or time.monotonic() - self.written < PATIENCE:
            return True
        asleep = self._threads.asleep()
        return asleep is None or self._threads.asleep() != asleep

    def close(self) -> None:
        super().close()
        self._threads.close()


class Threads:
    """The threads of processes, by what the kernel shows of them.

    Args:
        pids: ids of the processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._folders = [Path("/proc", str(pid), "task") for pid in pids]
        self._files: dict[Path, int] = {}
        """File of each thread, kept open: that makes a look five times as cheap."""

    def asleep(self) -> Mapping[Path, bytes] | None:
        """How often each thread has run, while all wait for something to come; else None."""
        found: dict[Path, bytes] = {}
        for thread in self._listed():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                state, runs = self._read(thread)
                if state not in b"SZX":
                    return None
                found[thread] = runs
        return found

    def _listed(self) -> Iterator[Path]:
        for folder in self._folders:
            with suppress(FileNotFoundError):
                yield from tuple(folder.iterdir())

    def _read(self, thread: Path) -> tuple[bytes, bytes]:
        """State and switches (proc(5), `status`: State, voluntary and other switches)."""
        if thread not in self._files:
            self._files[thread] = os.open(thread / "status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.pread(self._files[thread], _STATUS_BYTES, 0)
        except ProcessLookupError:
            os.close(self._files.pop(thread))
            raise
        state = text.partition(b"\nState:\t")[2][:1]
        return state, text.partition(b"\nvoluntary_ctxt_switches:")[2]

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


class _Skipping(selectors.EpollSelector):
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        with self._loop.between_turns():
            return self._select(timeout)

    def _select(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= _GLANCE:
            return super().select(timeout)
        if self._loop.is_waited_for():
            return super().select(min(timeout, _SLICE if self._loop.under_way else PATIENCE / 4))
        if events := super().select(_GLANCE):
            return events
        self._loop.skipped += max(timeout - _GLANCE, 0.0)
        return []


class SkippedClock:
    """The clock of such a loop, as `runtime.Clock`; in step with the machine's when it is made."""

    def __init__(self, loop: SkippingLoop) -> None:
        self._loop, self._ahead = loop, loop.skipped

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._loop.skipped - self._ahead)

    def monotonic(self) -> float:
        return self._loop.time()


@contextmanager
def counted() -> Iterator[None]:
    """Have every client's requests count on the loop that makes them."""
    send, open_ = Transport.send, Session.open

    async def counted_send(self: Transport, call: Call) -> bytes:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, SkippingLoop):
            return await send(self, call)
        with loop.request(writes=call.method in _WRITES):
            return await send(self, call)

    async def counted_open(self: Session, request: object, *, watch: bool) -> Exchange:
        loop = asyncio.get_running_loop()
        if not watch or not isinstance(loop, SkippingLoop):
            return await open_(self, request, watch=watch)  # type: ignore[arg-type]
        with loop.request(writes=True):  # its first events come on their own
            return await open_(self, request, watch=watch)  # type: ignore[arg-type]

    Transport.send, Session.open = counted_send, counted_open  # type: ignore[method-assign]
    try:
        yield
    finally:
        Transport.send, Session.open = send, open_  # type: ignore[method-assign]
