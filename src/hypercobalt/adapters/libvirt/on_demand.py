"""Connections on demand, for a caller with very many daemons.

Each is opened by the first call, closed after a while without one, and opened again after it broke.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.definitions import WITHOUT_EVENTS, Definitions
from hypercobalt.adapters.libvirt.host import DEADLINE, Host
from hypercobalt.adapters.libvirt.links import Answer, Call
from hypercobalt.adapters.libvirt.per_subject import PerSubject
from hypercobalt.adapters.libvirt.port import Daemon
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.transport import connect

_IDLE: Final = 30.0


class OnDemandDaemons:
    """See `hypercobalt.adapters.libvirt.port.Daemons`."""

    def __init__(self) -> None:
        self._known: dict[str, OnDemandDaemon] = {}

    def at(self, uri: str) -> Daemon:
        if uri not in self._known:
            self._known[uri] = OnDemandDaemon(uri)
        return self._known[uri]

    async def close(self) -> None:
        for daemon in self._known.values():
            await daemon.close()
        self._known.clear()


class OnDemandDaemon(Host):
    """See `hypercobalt.adapters.libvirt.port.Daemon`."""

    def __init__(self, uri: str) -> None:
        self._on_demand = OnDemandConnection(uri)
        known = Definitions(max_age=WITHOUT_EVENTS)
        super().__init__(uri, self._on_demand, known, slow_deadline=DEADLINE)

    async def close(self) -> None:
        self._on_demand.close()


class OnDemandConnection:
    """The connection to one daemon.

    Args:
        address: URI of the daemon.
        idle: how long the connection is kept without a call, seconds.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """

    def __init__(self, address: str, *, idle: float = _IDLE) -> None:
        self._address, self._idle = uri.parse(address), idle
        self._opening, self._hanging = asyncio.Lock(), PerSubject()
        self._client: Client | None = None
        self._asking = 0
        self._timer: asyncio.TimerHandle | None = None

    async def ask(
        self, what: str, call: Call[Answer], deadline: float, *, subject: str = ""
    ) -> Answer:
        """See `Connection`."""
        self._stop_timer()
        self._asking += 1
        try:
            return await self._hanging.run(
                subject, what, lambda: self._ask(call), deadline=deadline
            )
        finally:
            self._asking -= 1
            if not self._asking:
                self._timer = asyncio.get_running_loop().call_later(self._idle, self.close)

    def close(self) -> None:
        """Close the connection at once; a call under way on it is over."""
        self._stop_timer()
        if self._client is not None:
            self._client.close()
            self._client = None

    async def _ask(self, call: Call[Answer]) -> Answer:
        async with self._opening:
            if self._client is None or self._client.closed.done():
                self._client = await connect(self._address)
            client = self._client
        return await call(client)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
