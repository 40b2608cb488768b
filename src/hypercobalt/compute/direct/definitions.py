"""What was defined on a host that is dead: see `hypercobalt.api.definitions`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import HostDefinitions, definitions, secret_name
from hypercobalt.errors import TransientError

NOTHING: Final = HostDefinitions()
_SHARED_SECONDS: Final = 5.0


class NotStoredError(TransientError):
    """What was defined on a host cannot be read; the message names the Secret."""


class Stored(Protocol):
    """The definitions of hosts that may be dead."""

    async def of(self, host: str) -> HostDefinitions:
        """Those of a host.

        Raises:
            TransientError: they cannot be read.
        """
        ...


class NotStored:
    """A site that keeps no definitions: nothing of a dead host is known."""

    async def of(self, host: str) -> HostDefinitions:
        raise NotStoredError(f"host {host}: the definitions of its domains are not stored")


class StoredInSecrets:
    """Those that the hosts' agents have written.

    Args:
        read: gives a Secret that agents have written, by its name.
        clock: seconds that never step back.
    """

    def __init__(
        self,
        read: Callable[[str], Awaitable[Secret | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self._known: dict[str, tuple[float, HostDefinitions]] = {}
        self._reading = asyncio.Lock()

    async def of(self, host: str) -> HostDefinitions:
        async with self._reading:  # a hundred servers of one host read it once
            at, known = self._known.get(host, (0.0, NOTHING))
            if known is NOTHING or self._clock() - at > _SHARED_SECONDS:
                known = await self._fetch(host)
                self._known = {host: (self._clock(), known)}
            return known

    async def _fetch(self, host: str) -> HostDefinitions:
        name = secret_name(host)
        found = await self._read(name)
        if found is None:
            raise NotStoredError(
                f"host {host}: its node agent has stored no definitions (Secret {name})"
            )
        try:
            return definitions(found)
        except ValueError as exc:
            raise NotStoredError(str(exc)) from None


def stored_domain(host: HostDefinitions, uuid: str) -> Domain:
    """A domain as its host had it; a KeyError without it."""
    kept = host.domains[uuid]
    state = DomainState.RUNNING if kept.active else DomainState.SHUTOFF
    found = parse(kept.xml).domain(uuid, kept.name, state, active=kept.active)
    return replace(found, saved=kept.saved)
