"""Connections on demand, for a caller with very many daemons.

Each is opened by the first call, closed after a while without one, and opened again after it broke.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.definitions import WITHOUT_EVENTS, Definitions
from hypercobalt.adapters.libvirt.host import DEADLINE, Host
from hypercobalt.adapters.libvirt.links import Answer, Call
from hypercobalt.adapters.libvirt.per_subject import MOST, PerSubject
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
    """The connection to one daemon, and further ones while calls hang.

    A daemon takes few calls of one connection, and a call that hangs cannot be taken back. Once as
    many hang as one may have (`per_subject.MOST`), another one is opened for the next call.

    Args:
        address: URI of the daemon.
        idle: how long it is kept without a call, seconds.
        most: calls under way that may hang, over all connections.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """

    def __init__(self, address: str, *, idle: float = _IDLE, most: int = MOST) -> None:
        self._address, self._idle = uri.parse(address), idle
        self._opening, self._hanging = asyncio.Lock(), PerSubject(most)
        self._links: list[_Link] = []
        self._calls = 0
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self, what: str, call: Call[Answer], deadline: float, *, subject: str = ""
    ) -> Answer:
        """See `Connection`."""
        self._stop_timer()
        self._calls += 1
        try:
            return await self._hanging.run(
                subject, what, lambda: self._call(call, hangs=bool(subject)), deadline=deadline
            )
        finally:
            self._calls -= 1
            if not self._calls:
                self._timer = asyncio.get_running_loop().call_later(self._idle, self.close)

    def close(self) -> None:
        """Close every connection at once; a call under way on one is over."""
        self._stop_timer()
        for link in self._links:
            link.client.close()
        self._links.clear()

    async def _call(self, call: Call[Answer], *, hangs: bool) -> Answer:
        async with self._opening:
            link = await self._link(hangs=hangs)
            link.hanging += hangs
        try:
            return await call(link.client)
        finally:
            link.hanging -= hangs
            if not link.hanging and link in self._links[1:]:
                self._links.remove(link)
                link.client.close()

    async def _link(self, *, hangs: bool) -> _Link:
        """The first connection with a place for the call, else a new one."""
        self._links = [link for link in self._links if not link.client.closed.done()]
        for link in self._links:
            if not hangs or link.hanging < MOST:
                return link
        self._links.append(_Link(await connect(self._address)))
        return self._links[-1]

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


@dataclass(slots=True, eq=False)
class _Link:
    """A connection, and how many calls that may hang are under way on it."""

    client: Client
    hanging: int = 0
