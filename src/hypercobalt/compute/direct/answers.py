"""Answers of hosts, and libvirt's errors as errors of the compute port."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Daemons, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.shared_reads import SharedReads
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.identity import daemon_of
from hypercobalt.compute.direct.tls_errors import explained
from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Clock

_FENCED_SECONDS: Final = 2.0
"""Seconds for the read of a host that is proven dead, since a fence device may have lied."""

_REMEMBERED: Final = 5.0
"""Seconds for which a dead host's silence is kept: each of its servers would read it twice."""


class Answers:
    """Present reports of hosts; calls during the listing of a host share its next listing.

    Args:
        daemons: of the hosts.
        clock: monotonic.
    """

    def __init__(self, daemons: Daemons, clock: Clock) -> None:
        self._daemons, self._clock = daemons, clock
        self._silent: dict[tuple[str, str], float] = {}  # (host, boot) of those proven dead
        self._reads = SharedReads[tuple[str, str, str], tuple[Domain, ...] | None]()

    async def domains(self, place: Place) -> tuple[Domain, ...] | None:
        """Return the domains on a host; None when silent, or fenced and silent a moment ago."""
        key = (place.name, place.control, place.fenced_boot)
        return await self._reads.get(key, lambda: self._listed(place))

    async def _listed(self, place: Place) -> tuple[Domain, ...] | None:
        dead, now = (place.name, place.fenced_boot), self._clock.monotonic()
        if place.fenced and now - self._silent.get(dead, -_REMEMBERED) < _REMEMBERED:
            return None
        try:
            async with asyncio.timeout(_FENCED_SECONDS if place.fenced else None):
                return await daemon_of(self._daemons, place).domains(jobs=True)
        except (LibvirtError, TimeoutError):
            if place.fenced:
                self._silent[dead] = self._clock.monotonic()
            return None


@contextmanager
def translated(what: str) -> Generator[None]:
    """Raise the errors of libvirt and of the network as errors of the compute port."""
    try:
        yield
    except LibvirtRefusedError as exc:
        raise RefusedError(f"{what}: {explained(exc)}") from exc
    except (ConflictError, UnreachableError):
        raise
    except TransientError as exc:
        raise UnreachableError(f"{what}: {explained(exc)}") from exc
