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
from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Clock

_FENCED_SECONDS: Final = 2.0
"""Seconds for the read of a host that is proven dead, since a fence device may have lied."""

_LATE: Final = 3.0
"""Seconds after which an answer is late: a host lists a thousand domains within one."""

_LATELY: Final = 600.0
"""Seconds for which a host that was late is the last to be given anything."""

FAILS_AGAIN: Final = 60.0
"""Seconds within which the next call fails of a host that still does not answer."""

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
        self._late: dict[str, float] = {}  # when a host was late, in the loop's time
        self._failing: dict[str, tuple[float, float]] = {}  # first and last time, as above
        self._reads = SharedReads[tuple[str, str, str], tuple[Domain, ...] | None]()

    async def domains(self, place: Place) -> tuple[Domain, ...] | None:
        """Return the domains on a host; None when silent, or fenced and silent a moment ago."""
        key = (place.name, place.control, place.fenced_boot)
        return await self._reads.get(key, lambda: self._listed(place))

    def failing_for(self, place: Place) -> float:
        """Return the seconds since a host began to leave calls without an answer; 0 for none.

        An answer in between ends that only if no call fails for a while: a captured host answers
        every other call. Hosts that are proven dead do not count.
        """
        now = asyncio.get_running_loop().time()
        first, last = self._failing.get(place.name, (now, now))
        return now - first if now - last <= FAILS_AGAIN else 0.0

    def _note_failure(self, place: Place) -> None:
        now = asyncio.get_running_loop().time()
        self._failing[place.name] = (now - self.failing_for(place), now)

    def is_late(self, place: Place) -> bool:
        """Whether a host has answered late within the last minutes, or started nothing for long."""
        at = self._late.get(place.name)
        return at is not None and asyncio.get_running_loop().time() - at < _LATELY

    @contextmanager
    def timed(self, place: Place, seconds: float = _LATE) -> Generator[None]:
        """Note a host as late if its answer takes longer.

        Args:
            place: the host.
            seconds: that it may take.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            if loop.time() - began > seconds:
                self.note_late(place)

    def note_late(self, place: Place) -> None:
        """Note that a host has answered late."""
        self._late[place.name] = asyncio.get_running_loop().time()

    async def _listed(self, place: Place) -> tuple[Domain, ...] | None:
        dead, now = (place.name, place.fenced_boot), self._clock.monotonic()
        if place.fenced and now - self._silent.get(dead, -_REMEMBERED) < _REMEMBERED:
            return None
        try:
            async with asyncio.timeout(_FENCED_SECONDS if place.fenced else None):
                with self.timed(place):
                    return await daemon_of(self._daemons, place).domains(jobs=True)
        except (LibvirtError, TimeoutError):
            if place.fenced:
                self._silent[dead] = self._clock.monotonic()
            else:
                self._note_failure(place)
            return None


@contextmanager
def translated(what: str) -> Generator[None]:
    """Raise the errors of libvirt and of the network as errors of the compute port."""
    try:
        yield
    except LibvirtRefusedError as exc:
        raise RefusedError(f"{what}: {explained(exc)}") from exc
    except (ComputeConflictError, UnreachableError):
        raise
    except TransientError as exc:
        raise UnreachableError(f"{what}: {explained(exc)}") from exc
