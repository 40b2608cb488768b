"""Calls a daemon every moment, to notice one that hangs: it leaves its connections open.

By timers, without a task: nothing else wakes an idle agent as often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypercobalt.adapters.libvirt.rpc.client import Client


class Heartbeat:
    """Beats from when it is made until it is stopped, or the connection ends.

    Args:
        client: the connection.
        interval: from one call to the next, seconds.
        patience: how long an answer may take, seconds.
        silent: called when an answer is late.
        alive: called when the daemon has sent something after that.
    """

    def __init__(
        self,
        client: Client,
        interval: float,
        patience: float,
        *,
        silent: Callable[[], None],
        alive: Callable[[], None],
    ) -> None:
        self._client, self._interval, self._patience = client, interval, patience
        self._silent, self._alive = silent, alive
        self._is_silent = False
        self._loop = asyncio.get_running_loop()
        self._beat()

    def stop(self) -> None:
        """Stop calling."""
        self._timer.cancel()

    def sign(self) -> None:
        """Take note that the daemon has sent something: a late answer is waited for once more."""
        if self._is_silent and not self._client.closed.done():
            self._is_silent = False
            self._alive()
            self._wait()

    def _beat(self) -> None:
        if not self._client.closed.done():
            self._next = self._loop.time() + self._interval
            self._wait()
            self._is_answered = False
            self._client.check(self._answered)

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self._patience, self._late)

    def _answered(self) -> None:
        self._is_answered = True
        self.sign()
        self._timer.cancel()
        self._timer = self._loop.call_at(self._next, self._beat)

    def _late(self) -> None:
        if self._client.closed.done() or self._is_answered:
            return
        if self._loop.time() - self._timer.when() >= self._patience / 2:
            self._wait()  # this process was held up: the answer may wait in its socket
        else:
            self._is_silent = True
            self._silent()
