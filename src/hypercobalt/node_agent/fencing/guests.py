"""Ends every guest of the host, and does not come back before none runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from hypercobalt.adapters.host.port import HostError
from hypercobalt.adapters.libvirt.port import LibvirtError, Observe, Power
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import RunningLauncher
from hypercobalt.runtime import Backoff

log = get_logger(__name__)

AT_ONCE: Final = 4
"""Calls at a time: a hung emulator holds one of them for as long as libvirt tries."""

_AGAIN: Final = Backoff(base=timedelta(milliseconds=500), cap=timedelta(seconds=5))


class Guests(Observe, Power, Protocol):
    """What is needed of libvirt."""


class EndLaunchers(Protocol):
    """What is needed of launcher pods; both raise HostError."""

    async def running(self) -> tuple[RunningLauncher, ...]: ...
    async def kill(self, pod: str) -> None: ...


@dataclass(frozen=True, slots=True)
class AllGuests:
    """Every guest of the host.

    Args:
        libvirt: has domains.
        launchers: the launcher pods, each with the guest of a VirtualMachineInstance.
    """

    libvirt: Guests
    launchers: EndLaunchers


@dataclass(frozen=True, slots=True)
class _RunningGuest:
    """A guest that runs.

    Args:
        id: UUID of the domain, or UID of the launcher pod.
        name: for the log.
        end: kills its process.
    """

    id: str
    name: str
    end: Callable[[], Awaitable[None]]


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


async def stop_all(guests: AllGuests, reason: str, noted: Ended) -> int:
    """End the process of every domain and launcher pod; give how many there were.

    It tries until none is left, and both libvirt and systemd have shown that: either may be away,
    and a process that waits for lost storage outlives a kill. No kubelet starts a launcher again.

    Args:
        guests: of the host.
        reason: for the log.
        noted: takes each domain before its end.
    """
    ended = set[str]()
    while True:
        async with asyncio.TaskGroup() as kinds:  # apart: neither service holds up the other's
            domains = kinds.create_task(_stop(partial(_domains, guests.libvirt, noted), reason))
            launchers = kinds.create_task(_stop(partial(_launchers, guests.launchers), reason))
        found = domains.result() | launchers.result()
        if not found:
            return len(ended)
        ended |= found  # some may have started while the last of the others ended


async def _stop(
    running: Callable[[], Awaitable[list[_RunningGuest] | None]], reason: str
) -> set[str]:
    """End the guests of one kind until none is left; return which there were.

    Args:
        running: lists those that run; None while they cannot be listed.
        reason: for the log.
    """
    ended, failures = set[str](), 0
    turn = asyncio.Semaphore(AT_ONCE)

    async def end(guest: _RunningGuest) -> None:
        async with turn:
            log.warning("guest_stopped", domain=guest.name, uuid=guest.id, reason=reason)
            try:
                await guest.end()
            except (LibvirtError, HostError) as error:
                log.warning("guest_not_stopped", domain=guest.name, uuid=guest.id, error=str(error))

    while True:
        found = await running()
        if found is not None:
            if not found:
                return ended
            ended |= {guest.id for guest in found}
            await asyncio.gather(*(end(guest) for guest in found))
        await asyncio.sleep(_AGAIN.wait(failures))
        failures += 1


async def _domains(libvirt: Guests, noted: Ended) -> list[_RunningGuest] | None:
    """Return the domains that run; None while libvirt does not list them."""

    async def end(uuid: str) -> None:
        noted.note(uuid)
        await libvirt.destroy(uuid)

    try:
        found = await libvirt.domains()
    except LibvirtError as error:
        log.warning("guests_not_listed", error=str(error))
        return None
    return [
        _RunningGuest(one.uuid, one.name, partial(end, one.uuid)) for one in found if one.active
    ]


async def _launchers(launchers: EndLaunchers) -> list[_RunningGuest] | None:
    """Return the launcher pods that run; None while systemd does not list them."""
    try:
        found = await launchers.running()
    except HostError as error:
        log.warning("launchers_not_listed", error=str(error))
        return None
    return [
        _RunningGuest(one.pod, f"{one.namespace}/{one.name}", partial(launchers.kill, one.pod))
        for one in found
    ]
