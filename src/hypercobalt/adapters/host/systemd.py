"""What all clients of systemd share: its address, and following it through lost connections.

Source: org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from typing import Final, Protocol, TypeVar

from hypercobalt.adapters.host.bus import PING, Retry, Service, reach
from hypercobalt.adapters.host.jobs import SYSTEMD
from hypercobalt.adapters.host.port import HostError

GRACE: Final = timedelta(seconds=2)  # systemd executes itself again, the bus restarts, within this
RESYNC: Final = timedelta(minutes=5)
FIRST_RETRY: Final = timedelta(milliseconds=250)
LAST_RETRY: Final = timedelta(seconds=1)

_Read_co = TypeVar("_Read_co", covariant=True)
_Now = TypeVar("_Now")


class Followed(Protocol[_Read_co]):
    """What is followed, for as long as one connection lasts."""

    async def begin(self) -> None:
        """Listen to what announces a change."""
        ...

    async def read(self) -> _Read_co:
        """All of it as it is now."""
        ...


class SystemdClient:
    """A client of the systemd behind a bus.

    Args:
        address: of the system bus; None: the usual one.
        grace: how long systemd may be away before watchers get an error.
        ping: after so much silence systemd is pinged.
    """

    def __init__(
        self, address: str | None = None, *, grace: timedelta = GRACE, ping: timedelta = PING
    ) -> None:
        self._address, self._grace, self._ping = address, grace, ping

    def _reach(self) -> AbstractAsyncContextManager[Service]:
        """Connect to systemd; raises HostError."""
        return reach(SYSTEMD, self._address, ping=self._ping)

    async def _follow(
        self,
        made: Callable[[Service], Followed[_Now]],
        *,
        resync: Callable[[_Now], timedelta] = lambda _: RESYNC,
    ) -> AsyncGenerator[_Now | HostError]:
        """What is read of systemd: now, and after each change.

        Args:
            made: makes what is followed, for a new connection.
            resync: after how long what was read is read again without a hint.
        """
        clock = asyncio.get_running_loop().time
        known: _Now | HostError | None = None
        retry = Retry("reconnecting_to_systemd", FIRST_RETRY, LAST_RETRY)
        away_since = clock() - self._grace.total_seconds()
        while True:
            try:
                async with self._reach() as systemd:
                    followed = made(systemd)
                    await followed.begin()
                    while True:
                        now = await followed.read()
                        retry.succeeded()
                        if now != known:
                            known = now
                            yield now
                        away_since = clock()
                        await _changed(systemd, resync(now))
                        away_since = clock()
            except HostError as error:
                away = clock() - away_since
                if not isinstance(known, HostError) and away >= self._grace.total_seconds():
                    known = error
                    yield error
                await retry.after(error)


async def _changed(systemd: Service, within: timedelta) -> None:
    """Wait for a hint that something changed; after a while, assume it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within.total_seconds()):
            await systemd.changed()
