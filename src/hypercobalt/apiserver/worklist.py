"""Work queue of the server's own controllers, one key at a time.

Level-triggered: a key only names what to look at; what to do is read from the store, so a crash at
any point loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, Generic, TypeVar

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.storage.objects import StoreError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

RETRY: Final = timedelta(seconds=1)  # after a full disk
K = TypeVar("K", bound=str | tuple[str, ...])


class Worklist(Generic[K]):
    """Runs beside the server, from `start` to `stop`; keys in the order of `add`, each once.

    Args:
        name: of the controller.
        handle: looks at a key; one that the store could not write comes again.
        due: adds what time alone has made due, and gives its next call, by the loop's clock;
            None: after the next key.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[K], Awaitable[None]],
        due: Callable[[float], float | None],
    ) -> None:
        self._name, self._handle, self._due = name, handle, due
        self._waiting: dict[K, None] = {}  # ordered, without repeats
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, key: K) -> None:
        self._waiting[key] = None
        self._wake.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            until = self._due(loop.time())
            if self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                await self._try(key)
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._wake.wait()

    async def _try(self, key: K) -> None:
        known = {"controller": self._name, "object": key if isinstance(key, str) else "/".join(key)}
        try:
            await self._handle(key)
        except StatusError as error:
            log.warning("controller_write_refused", **known, reason=error.message)
        except StoreError as error:
            log.warning("controller_write_failed", **known, reason=str(error))
            asyncio.get_running_loop().call_later(RETRY.total_seconds(), self.add, key)
        except Exception:  # a bug must not keep the other objects waiting
            log.exception("controller_failed", **known)
