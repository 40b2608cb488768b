"""logind's shutdown, over D-Bus: delay it, and observe that it is announced.

A delay inhibitor is a file descriptor. logind lets go of the delay when it is closed, by us or by
our death, and after its limit at the latest. It outlives the connection it came over. Only shutdown
is inhibited: we do nothing before a sleep, so holding it back would be of no use.

Signals are only hints: after one, `PreparingForShutdown` is read.

Source: org.freedesktop.login1(5), systemd's "Inhibitor Locks".
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.bus import Retry, Service, reach
from hypercobalt.adapters.host.port import HostError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

FIRST_RETRY: Final = timedelta(milliseconds=500)
LAST_RETRY: Final = timedelta(seconds=10)
MAX_LIMIT: Final = timedelta(days=1)  # logind's "infinity" is beyond what timedelta holds
_NAME, _PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
_MANAGER = "org.freedesktop.login1.Manager"


class LogindShutdown:
    """The shutdown that the logind behind a bus manages.

    Args:
        address: of the system bus; None: the usual one.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    @asynccontextmanager
    async def delay(self, *, who: str, why: str) -> AsyncGenerator[None]:
        inhibitor = _Inhibitor(who, why)
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keeper = asyncio.create_task(self._keep(inhibitor, taken), name="shutdown inhibitor")
        try:
            await asyncio.wait([keeper, taken], return_when=asyncio.FIRST_COMPLETED)
            if keeper.done():
                keeper.result()  # why the first time failed
            yield
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            inhibitor.release()

    async def limit(self) -> timedelta:
        async with reach(_NAME, self._address) as logind:
            microseconds = await logind.get(_PATH, _MANAGER, "InhibitDelayMaxUSec")
        if not isinstance(microseconds, int):
            raise HostError(f"{_NAME}: InhibitDelayMaxUSec is {microseconds!r}, not a number")
        return timedelta(microseconds=min(microseconds, MAX_LIMIT // timedelta(microseconds=1)))

    async def preparations(self) -> AsyncGenerator[bool]:
        known: bool | None = None
        retry = Retry("reconnecting_to_logind", FIRST_RETRY, LAST_RETRY)
        while True:
            try:
                async with reach(_NAME, self._address) as logind:
                    await logind.listen(f"{_MANAGER}.PrepareForShutdown", path=_PATH)
                    while True:
                        preparing = await logind.get(_PATH, _MANAGER, "PreparingForShutdown")
                        retry.succeeded()
                        if bool(preparing) != known:
                            known = bool(preparing)
                            yield known
                        await logind.changed()
            except HostError as error:
                await retry.after(error)

    async def _keep(self, inhibitor: _Inhibitor, taken: asyncio.Future[None]) -> None:
        """Take the inhibitor, and again from each new logind; the old one is held until then.

        `taken` gets the outcome of the first attempt, which alone is not retried.
        """
        retry = Retry("renewing_shutdown_inhibitor", FIRST_RETRY, LAST_RETRY)
        while True:
            try:
                async with reach(_NAME, self._address, descriptors=True) as logind:
                    await logind.attach()
                    await inhibitor.take(logind)
                    if not taken.done():
                        taken.set_result(None)
                    retry.succeeded()
                    await logind.changed()
            except HostError as error:
                if not taken.done():
                    raise
                await retry.after(error)


class _Inhibitor:
    """A delay inhibitor on shutdown, once it has been taken."""

    def __init__(self, who: str, why: str) -> None:
        self._who, self._why = who, why
        self._descriptor: int | None = None

    async def take(self, logind: Service) -> None:
        """Get one from this logind, then release the one held so far."""
        arguments = ["shutdown", self._who, self._why, "delay"]
        reply = await logind.call(_PATH, f"{_MANAGER}.Inhibit", "ssss", arguments)
        if reply.signature != "h" or len(reply.unix_fds) != 1:
            for descriptor in reply.unix_fds:
                os.close(descriptor)
            raise HostError(f"{_NAME} Inhibit: no file descriptor in the answer")
        log.info("shutdown_inhibitor_taken")
        self.release()
        self._descriptor = reply.unix_fds[0]
        # A child that had it too would hold back the shutdown after we let go.
        os.set_inheritable(self._descriptor, False)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
