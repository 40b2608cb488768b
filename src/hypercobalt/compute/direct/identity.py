"""Checks whether the daemon behind a host's address is that host's.

Nothing is moved before that is known. The node agent reads its host's UUID from the daemon beside
it, over a Unix socket; the daemon that the operator reaches by the address of the Node has to have
the same one. So neither a wrong address nor a host that takes the address of another has domains
moved to or from a third host.

Source: libvirt's formatcaps.html, `host/uuid`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from hypercobalt.adapters.libvirt.port import Daemon, Daemons, LibvirtError
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.tls_errors import explained
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Clock

log = get_logger(__name__)

REASON: Final = "WrongHost"
_RECHECKED: Final = 30.0
"""Seconds for which a host with another host's daemon is no target; then it is read again."""


def daemon_of(daemons: Daemons, place: Place) -> Daemon:
    """Return the daemon of a host.

    Raises:
        LibvirtError: the host is refused: see `Place`.
    """
    if place.refused:
        raise LibvirtError(f"host {place.name} is not connected to: {place.refused}")
    return daemons.at(place.control)


@contextmanager
def answering(place: Place) -> Generator[None]:
    """Raise every error of libvirt as the error for a host that does not answer."""
    try:
        yield
    except LibvirtError as exc:
        raise UnreachableError(f"host {place.name}: {explained(exc)}") from exc


class Identities:
    """Results of the checks of the daemons behind the hosts' addresses."""

    def __init__(self, daemons: Daemons, clock: Clock) -> None:
        self._daemons, self._clock = daemons, clock
        self._doubted: dict[tuple[str, str, str], float] = {}

    def is_doubted(self, place: Place) -> bool:
        """Whether the host's daemon was another host's at the last read, a moment ago."""
        at = self._doubted.get(_key(place))
        return at is not None and self._clock.monotonic() - at < _RECHECKED

    async def check(self, place: Place) -> None:
        """Compare the UUID of the daemon with the one that the host's agent reports.

        Raises:
            RefusedError: they differ, or one of them is not known.
            UnreachableError: the daemon does not answer.
        """
        if why := place.refused or place.unidentified:
            raise RefusedError(f"host {place.name}: {why}", reason=REASON)
        with answering(place):
            found = (await daemon_of(self._daemons, place).capabilities()).uuid
        if found == place.uuid:
            self._doubted.pop(_key(place), None)
            return
        self._doubted[_key(place)] = self._clock.monotonic()
        log.error(
            "host_identity_differs", host=place.name, daemon_uuid=found, agent_uuid=place.uuid
        )
        raise RefusedError(
            f"host {place.name}: libvirt at its address has the host UUID {found or 'unknown'}, "
            f"its node agent reports {place.uuid}; check the addresses of the Node",
            reason=REASON,
        )


def _key(place: Place) -> tuple[str, str, str]:
    return place.name, place.control, place.uuid
