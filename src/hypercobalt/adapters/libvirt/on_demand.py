"""Connections on demand, for a caller with very many daemons.

Each is opened by the first call, closed after a while without one, and opened again after it
broke. Calls are made one after the other.

A connection is never closed while a call uses it, as libvirt's client would read freed memory, and
never on the event loop, as closing waits for the daemon.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from threading import Lock, Thread

import libvirt

from hypercobalt.adapters.libvirt import links, uri
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.definitions import WITHOUT_EVENTS, Definitions
from hypercobalt.adapters.libvirt.eventloop import ensure_running
from hypercobalt.adapters.libvirt.host import DEADLINE, Answer, Call, Host
from hypercobalt.adapters.libvirt.port import Daemon, LibvirtError


@dataclass
class _Link:
    """A connection.

    Attributes:
        calls: under way on it, abandoned ones included.
        over: taken by no further call; it is closed after the last of these.
    """

    connection: libvirt.virConnect
    calls: int = 0
    over: bool = False


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
        self._session = OnDemandConnection(uri)
        known = Definitions(max_age=WITHOUT_EVENTS)
        super().__init__(uri, self._session, known, slow_deadline=DEADLINE)

    async def close(self) -> None:
        self._session.close()


class OnDemandConnection:
    """The connection to one daemon.

    Args:
        address: URI of the daemon.
        idle: how long the connection is kept without a call, seconds.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """

    def __init__(self, address: str, *, idle: float = 30.0) -> None:
        self._uri, self._idle = uri.parse(address).uri, idle
        self._calls = Calls()
        self._lock = Lock()  # a thread that was left behind may come back with a connection
        self._link: _Link | None = None
        self._asking = 0
        self._timer: asyncio.TimerHandle | None = None
        ensure_running()

    async def ask(
        self, what: str, call: Call[Answer], deadline: float, *, domain: str = ""
    ) -> Answer:
        """See `Connection`; a hung domain holds up the calls about the others here."""
        del domain
        self._stop_timer()
        self._asking += 1
        try:
            return await self._calls.run(what, lambda: self._put(what, call), deadline=deadline)
        finally:
            self._asking -= 1
            if not self._asking:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._idle, self._let_go)

    def close(self) -> None:
        """Close the connection, after the call that may be under way on it; does not wait."""
        self._stop_timer()
        self._let_go()

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _let_go(self) -> None:
        self._calls.close()
        unused = self._swap(None)
        if unused is not None:
            # To close is to ask the daemon, which may take half a minute to be given up.
            Thread(target=links.close, args=(unused,), name="libvirt-close", daemon=True).start()

    def _put(self, what: str, call: Call[Answer]) -> Answer:
        try:
            link = self._take()
        except libvirt.libvirtError as exc:
            raise LibvirtError(f"{what}: {exc}") from exc
        try:
            with links.translated(what, link.connection):
                return call(link.connection)
        finally:
            self._give_back(link)

    def _take(self) -> _Link:
        with self._lock:
            if self._link is not None and links.is_alive(self._link.connection):
                self._link.calls += 1
                return self._link
        opened = _Link(links.connect(self._uri), calls=1)
        unused = self._swap(opened)
        if unused is not None:
            links.close(unused)
        return opened

    def _swap(self, link: _Link | None) -> libvirt.virConnect | None:
        """Put a link in the place of the present one; gives what is to be closed now."""
        with self._lock:
            before, self._link = self._link, link
            if before is None:
                return None
            before.over = True
            return None if before.calls else before.connection

    def _give_back(self, link: _Link) -> None:
        with self._lock:
            link.calls -= 1
            to_close = link.over and not link.calls
        if to_close:
            links.close(link.connection)
