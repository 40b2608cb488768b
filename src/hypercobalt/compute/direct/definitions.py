"""Definitions of the domains on a dead host: see `hypercobalt.api.definitions`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.definitions import MOST_TEXT, HostDefinitions
from hypercobalt.compute.direct.starts import StartsInMemory, StartsUnderWay
from hypercobalt.errors import TransientError

NOTHING: Final = HostDefinitions()
_SHARED_SECONDS: Final = 5.0
_AT_ONCE: Final = 256 * 1024
"""Characters of XML that are parsed on the loop: some 30 ms. A host may have stored 16 MiB."""
_MOST_KEPT: Final = 2 * MOST_TEXT
"""Characters of XML of which something is kept; what was used last is kept in any case."""


class NotStoredError(TransientError):
    """The definitions of a host cannot be read; the message says why."""


class Stored(Protocol):
    """The definitions of hosts that may be dead, and what marks their domains elsewhere."""

    @property
    def starts(self) -> StartsUnderWay:
        """The record of their domains' starts on other hosts."""
        ...

    async def of(self, host: str) -> HostDefinitions:
        """Return the definitions of a host.

        Raises:
            TransientError: they cannot be read.
        """
        ...

    async def mark_keys(self) -> tuple[bytes, ...]:
        """Keys that seal the marks of evacuations, the one to seal with first; () without any.

        Raises:
            TransientError: they cannot be read.
        """
        ...


class NotStored:
    """Definitions of a site that stores none: nothing about a dead host is known."""

    def __init__(self) -> None:
        self.starts: StartsUnderWay = StartsInMemory()

    async def of(self, host: str) -> HostDefinitions:
        raise NotStoredError(f"host {host}: the definitions of its domains are not stored")

    async def mark_keys(self) -> tuple[bytes, ...]:
        return ()


class StoredByAgents:
    """Definitions that the hosts' agents have stored.

    Args:
        read: returns the definitions of a host, and the keys, without a cache.
        clock: seconds that never step back.
    """

    def __init__(
        self,
        read: Stored,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self.starts = read.starts
        self._known: dict[str, tuple[float, HostDefinitions]] = {}
        self._keys: tuple[float, tuple[bytes, ...]] = (0.0, ())
        self._reading = asyncio.Lock()

    async def of(self, host: str) -> HostDefinitions:
        async with self._reading:  # a hundred servers of one host read it once
            at, known = self._known.get(host, (0.0, NOTHING))
            if known is NOTHING or self._clock() - at > _SHARED_SECONDS:
                known = await self._read.of(host)
                self._keep(host, known)
            return known

    def _keep(self, host: str, known: HostDefinitions) -> None:
        """Keep what was read of a host, and lately of others: several may die together."""
        now = self._clock()
        others = [
            (name, (at, one))
            for name, (at, one) in self._known.items()
            if name != host and now - at <= _SHARED_SECONDS
        ]
        while others and _characters(known, *(one for _, (_, one) in others)) > _MOST_KEPT:
            del others[0]
        self._known = {**dict(others), host: (now, known)}

    async def mark_keys(self) -> tuple[bytes, ...]:
        async with self._reading:  # each evacuation needs them four times
            at, keys = self._keys
            if not keys or self._clock() - at > _SHARED_SECONDS:
                keys = await self._read.mark_keys()
                self._keys = (self._clock(), keys)
            return keys


@dataclass(slots=True)
class _Version:
    """Domains of one version of an object.

    Args:
        characters: of their XML.
        parsing: held by whoever parses them.
        domains: None until they are parsed.
    """

    characters: int
    parsing: asyncio.Lock = field(default_factory=asyncio.Lock)
    domains: tuple[Domain, ...] | None = None


class ParsedDomains:
    """Domains that dead hosts have stored, each version of an object parsed once.

    Every start of another host's domain is compared with all of them, and a captured host stores
    what takes seconds to parse.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Version] = {}  # the one that was used last is last

    async def of(self, host: HostDefinitions) -> tuple[Domain, ...]:
        """Return all domains as their host had them."""
        version = host.version
        known = self._known.pop(version, None) or _Version(_characters(host))
        if version:
            self._known[version] = known
            self._forget_old()
        async with known.parsing:
            if known.domains is None:
                known.domains = await stored_domains(host)
        return known.domains

    def _forget_old(self) -> None:
        left = sum(one.characters for one in self._known.values())
        for version, one in tuple(self._known.items())[:-1]:
            if left <= _MOST_KEPT:
                break
            left -= one.characters
            del self._known[version]


async def stored_domains(host: HostDefinitions) -> tuple[Domain, ...]:
    """Return all domains as their host had them; many of them are parsed on a thread."""

    def parsed() -> tuple[Domain, ...]:
        return tuple(stored_domain(host, uuid) for uuid in host.domains)

    return await asyncio.to_thread(parsed) if _characters(host) > _AT_ONCE else parsed()


def _characters(*hosts: HostDefinitions) -> int:
    return sum(len(one.xml) for host in hosts for one in host.domains.values())


def stored_domain(host: HostDefinitions, uuid: str) -> Domain:
    """Return a domain as its host has left it; KeyError without it.

    A domain that its owner had suspended is off: its memory is gone with the host. One that has
    crashed runs: nobody has stopped it, and its host died before it was started again.
    """
    kept = host.domains[uuid]
    off = DomainState.PAUSED if kept.halted else DomainState.SHUTOFF
    runs = kept.is_to_run
    state = DomainState.RUNNING if runs else off
    found = parse(kept.xml).domain(uuid, kept.name, state, active=runs)
    return replace(found, saved=kept.saved)
