"""An agent's process: its client and pages, its Lease, and the concerns that it runs.

Every concern is a service of the runtime's manager. One that is late when the process is to stop is
cancelled: whatever it was about to write is written by the next start, which looks at the world
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host import incarnation
from hypercobalt.agent.lease import AgentLease
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.meta import Object
from hypercobalt.runtime import Connection, Limits, Manager, process
from hypercobalt.runtime.manager import Service
from hypercobalt.runtime.tasks import first

STOP_DEADLINE: Final = timedelta(seconds=5)
"""Less than systemd's and the kubelet's patience."""

_LIMITS: Final = Limits(deadline=timedelta(seconds=15), attempt=timedelta(seconds=5), connections=4)

Concern = Callable[[], Coroutine[None, None, None]]


def managed(
    settings: AgentSettings, connection: Connection, field_manager: str
) -> AbstractAsyncContextManager[Manager]:
    """A manager with the limits and the deadline of agents; see `runtime.process.managed`."""
    return process.managed(
        settings, connection, field_manager, limits=_LIMITS, stop_deadline=STOP_DEADLINE
    )


class Agent:
    """One agent of a host: what observes runs from the start, what acts when the Lease is held.

    Args:
        name: of its kind, such as `node-agent`; its Lease is `node-agent-NODE`.
        owner: gives the object that the Lease goes with; None while there is none.
    """

    def __init__(
        self,
        name: str,
        settings: AgentSettings,
        manager: Manager,
        owner: Callable[[], Object | None],
    ) -> None:
        self._manager, here = manager, incarnation.this_process()

        def is_over(holder: str) -> bool:
            other = incarnation.parse(holder)
            return other is not None and incarnation.is_over(other, here, incarnation.start_of)

        self._lease = AgentLease(
            manager.kube,
            f"{name}-{settings.node}",
            settings.namespace,
            str(here),
            is_over=is_over,
            owner=owner,
            duration=settings.lease,
            clock=manager.clock,
        )
        self.observe("lease", self._lease.run)
        manager.add_check("lease", self._lease.waiting, readiness=True)

    @property
    def renewals(self) -> int:
        """How often the Lease was renewed so far."""
        return self._lease.renewals

    def observe(self, name: str, concern: Concern) -> None:
        """Have a concern run for as long as the process."""
        self._manager.add_service(name, _until_stop(concern))

    def act(self, name: str, concern: Concern) -> None:
        """Have a concern run from when this agent holds its Lease: two never both write."""

        async def run() -> None:
            await self._lease.held.wait()
            await concern()

        self.observe(name, run)


def _until_stop(concern: Concern) -> Service:
    async def service(stop: asyncio.Event) -> None:
        await first(stop.wait(), concern())

    return service
