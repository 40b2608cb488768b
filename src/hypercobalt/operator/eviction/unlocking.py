"""Unlocks servers once their recovery is over, by what the compute service shows as locked.

One pass looks at all of them: when an Eviction is done with an instance, has ended or is gone, when
an operator begins to lead, and in time. So a lock is also found if the process that set it died,
or if its Eviction was removed by force. An Eviction's end never waits for this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.compute.errors import ComputeError, RefusedError
from hypercobalt.compute.model import Server
from hypercobalt.compute.server_port import Owners
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction.assessing.locks import (
    PREFIX,
    has_recoveries,
    is_running,
    outlived,
    recovered,
)
from hypercobalt.runtime import Result

log = get_logger(__name__)

NAME: Final = "server-locks"
KEY: Final = "all"
"""Key of the one pass for all servers."""

_RESYNC: Final = timedelta(minutes=10)
"""Interval of passes for locks without an Eviction: each is one listing of locked servers."""
_RETRY: Final = timedelta(seconds=30)
"""Wait after the compute service has refused to unlock a server."""


class UnlockingReconciler:
    """Makes the passes.

    Args:
        owners: of the compute service.
        evictions: returns all Evictions.
        hypervisors: returns the uids of the Hypervisors that this operator manages.
    """

    def __init__(
        self,
        owners: Owners,
        evictions: Callable[[], Iterable[Eviction]],
        hypervisors: Callable[[], Collection[str]],
    ) -> None:
        self._owners, self._evictions, self._hypervisors = owners, evictions, hypervisors

    async def reconcile(self, key: str, /) -> Result:
        """Unlock servers that have outlived their recovery.

        Raises:
            UnreachableError: the locked servers cannot be listed now.
        """
        del key
        try:
            locked = await self._owners.locked(PREFIX)
        except RefusedError as error:
            log.warning("locked_servers_not_listed", error=str(error))
            return Result(_RESYNC)
        over = outlived(locked, self._evictions(), self._hypervisors()) if locked else ()
        done = [await self._unlock(server) for server in over]
        return Result(_RESYNC if all(done) else _RETRY)

    async def _unlock(self, server: Server) -> bool:
        """Unlock a server, and return whether it is; a failure keeps no other server locked."""
        log.info("unlocking_instance", server=server.id, reason=server.locked_reason)
        try:
            await self._owners.unlock(server)
        except ComputeError as error:
            log.warning("instance_not_unlocked", server=server.id, error=str(error))
            return False
        return True


def worth_a_pass(old: Eviction | None, new: Eviction | None) -> bool:
    """A predicate: a recovery that the Eviction made may be over."""
    if not any(eviction is not None and has_recoveries(eviction) for eviction in (old, new)):
        return False

    def seen(eviction: Eviction | None) -> tuple[bool, frozenset[str]]:
        return (
            (False, frozenset())
            if eviction is None
            else (is_running(eviction), recovered(eviction))
        )

    return old is None or new is None or seen(old) != seen(new)
