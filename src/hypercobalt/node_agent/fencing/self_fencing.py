"""Ends the host's guests when the host is cut off from the API, its witnesses and its storage.

Off unless a window is set. While the agent's Lease is renewed nothing else is probed, so a host in
good order costs its witnesses nothing. With a watchdog, a host whose guests cannot be ended, or
whose agent does not run any more, is reset by its hardware.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from hypercobalt.api.fencing import GuestsStopped
from hypercobalt.ha.self_fencing import History, Sign, is_cut_off
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended, stop_all
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock

log = get_logger(__name__)

TICK: Final = timedelta(seconds=5)
"""How often it looks, and feeds the watchdog."""

QUIET: Final = timedelta(seconds=25)
"""Time without a renewal after which two are missing: witnesses and storage are probed."""


class Feeds(Protocol):
    """A watchdog."""

    def feed(self) -> None: ...
    def disarm(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """What shows that the host is not cut off.

    Args:
        renewals: how often the agent's Lease was renewed so far.
        witness: whether one of the witnesses answers now.
        storage: whether the shared storage can be written now.
    """

    renewals: Callable[[], int]
    witness: Callable[[], Awaitable[bool]]
    storage: Callable[[], Awaitable[bool]]


class SelfFencing:
    """Looks for signs that the host is not cut off.

    Args:
        window: for how long every sign has to be missing.
        outside: the signs.
        guests: of the host.
        board: takes `guestsStopped`.
        boot: the boot that this process runs in.
        ended: takes the guests that are ended.
        watchdog: None without one.
    """

    def __init__(
        self,
        window: timedelta,
        outside: Outside,
        guests: AllGuests,
        board: Board,
        *,
        boot: str,
        ended: Ended,
        watchdog: Feeds | None,
        clock: Clock,
    ) -> None:
        self._window, self._outside, self._boot = window, outside, boot
        self._guests, self._board = guests, board
        self._ended, self._watchdog, self._clock = ended, watchdog, clock
        self._renewals, self._history = 0, History()

    async def run(self) -> None:
        """Look until cancelled; end every guest once the host is cut off."""
        at = self._clock.monotonic()
        try:
            while True:
                signs = await self._look()
                before, at = at, self._clock.monotonic()
                self._history = self._history.after(timedelta(seconds=at - before), TICK, signs)
                if is_cut_off(self._history, self._window):
                    await self._fence()
                if self._watchdog is not None:
                    self._watchdog.feed()
                await asyncio.sleep(TICK.total_seconds())
        finally:
            if self._watchdog is not None:
                self._watchdog.disarm()

    async def _look(self) -> frozenset[Sign]:
        renewals = self._outside.renewals()
        renewed, self._renewals = renewals != self._renewals, renewals
        known, quiet = frozenset(self._history.seen), self._history.silent(Sign.API)
        if known == frozenset(Sign) and (renewed or (quiet is not None and quiet < QUIET)):
            return known if renewed else known - {Sign.API}  # not probed, so not silent
        witness, storage = await asyncio.gather(self._outside.witness(), self._outside.storage())
        seen = {Sign.API: renewed, Sign.WITNESS: witness, Sign.STORAGE: storage}
        return frozenset(sign for sign, there in seen.items() if there)

    async def _fence(self) -> None:
        """End the guests. The watchdog is not fed meanwhile: it resets what cannot be ended."""
        window = self._window.total_seconds()
        log.critical("self_fencing", silent_seconds=window)
        why = f"cut off from everything for {window:.0f} s"
        count = await stop_all(self._guests, why, self._ended)
        stopped = GuestsStopped(self._boot, None, self._clock.now(), count)
        self._board.put(replace(self._board.parts, guests_stopped=stopped))
        self._history = History()  # each sign has to be there once more first
