"""Ends every guest of the host, and does not come back before none runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, Protocol

from hypercobalt.adapters.libvirt.port import LibvirtError, Observe, Power
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Backoff

log = get_logger(__name__)

AT_ONCE: Final = 4
"""Calls at a time: a hung emulator holds one of them for as long as libvirt tries."""

_AGAIN: Final = Backoff(base=timedelta(milliseconds=500), cap=timedelta(seconds=5))


class Guests(Observe, Power, Protocol):
    """What is needed of libvirt."""


class Ended:
    """The guests that this agent has ended, each until its end was judged.

    No owner has wanted it: what is not started elsewhere runs again once its host is back.
    """

    def __init__(self) -> None:
        self._uuids: set[str] = set()

    def note(self, uuid: str) -> None:
        """A guest is about to be ended."""
        self._uuids.add(uuid)

    def take(self, uuid: str) -> bool:
        """Whether the end of a guest that has just ended is this agent's; it is so once."""
        known = uuid in self._uuids
        self._uuids.discard(uuid)
        return known


async def stop_all(libvirt: Guests, reason: str, noted: Ended) -> int:
    """End the process of every domain; give how many there were.

    It tries until none is left: libvirt may be away, and a process that waits for lost storage
    outlives a kill.

    Args:
        libvirt: of the host.
        reason: for the log.
        noted: takes each guest before its end.
    """
    ended, failures = set[str](), 0
    turn = asyncio.Semaphore(AT_ONCE)

    async def end(uuid: str, name: str) -> None:
        async with turn:
            log.warning("guest_stopped", domain=name, uuid=uuid, reason=reason)
            noted.note(uuid)
            try:
                await libvirt.destroy(uuid)
            except LibvirtError as error:
                log.warning("guest_not_stopped", domain=name, uuid=uuid, error=str(error))

    while True:
        try:
            running = [domain for domain in await libvirt.domains() if domain.active]
        except LibvirtError as error:
            log.warning("guests_not_listed", error=str(error))
        else:
            if not running:
                return len(ended)
            ended |= {domain.uuid for domain in running}
            await asyncio.gather(*(end(domain.uuid, domain.name) for domain in running))
        await asyncio.sleep(_AGAIN.wait(failures))
        failures += 1
