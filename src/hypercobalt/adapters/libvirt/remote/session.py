"""A connection that is there when it is needed, for somebody with very many daemons to ask.

It is opened by the first question, closed after a while without one, and opened again after it
broke. Questions are put one after the other; each has a deadline.

A connection is never closed while a call uses it, as libvirt's client would read freed memory, and
never on the event loop, as closing waits for the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TypeVar

import libvirt

from hypercobalt.adapters.libvirt import inventory, uri
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.eventloop import ensure_running
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.remote.port import LibvirtRefusedError

Answer = TypeVar("Answer")

_KEEPALIVE_S, _KEEPALIVE_COUNT = 5, 5


@dataclass
class _Link:
    """A connection.

    Attributes:
        calls: under way on it, those that nobody waits for any more included.
        over: nobody takes it any more; it is closed after the last of these calls.
    """

    connection: libvirt.virConnect
    calls: int = 0
    over: bool = False


class Session:
    """One daemon's connection.

    Args:
        address: URI of the daemon.
        deadline: of a question, seconds, connecting included.
        idle: how long the connection is kept without a question, seconds.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """

    def __init__(self, address: str, *, deadline: float = 10.0, idle: float = 30.0) -> None:
        self._uri = uri.parse(address).uri
        self._deadline, self._idle = deadline, idle
        self._calls = Calls()
        self._lock = Lock()  # a thread that was left behind may come back with a connection
        self._link: _Link | None = None
        self._asking = 0
        self._timer: asyncio.TimerHandle | None = None
        ensure_running()

    async def ask(self, what: str, ask: Callable[[libvirt.virConnect], Answer]) -> Answer:
        """Put a question.

        Args:
            what: the question, for the error.
            ask: blocks; libvirt's errors are translated.

        Raises:
            LibvirtRefusedError: libvirt says no.
            LibvirtError: nothing is known of the outcome.
        """
        self._stop_timer()
        self._asking += 1
        try:
            return await self._calls.run(
                what, lambda: self._put(what, ask), deadline=self._deadline
            )
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
            Thread(target=close, args=(unused,), name="libvirt-close", daemon=True).start()

    def _put(self, what: str, ask: Callable[[libvirt.virConnect], Answer]) -> Answer:
        try:
            link = self._take()
        except libvirt.libvirtError as exc:
            raise LibvirtError(f"{what}: {exc}") from exc
        try:
            return ask(link.connection)
        except libvirt.libvirtError as exc:
            if is_alive(link.connection):
                raise LibvirtRefusedError(f"{what}: {exc}") from exc
            raise LibvirtError(f"{what}: {exc}") from exc
        finally:
            self._give_back(link)

    def _take(self) -> _Link:
        with self._lock:
            if self._link is not None and is_alive(self._link.connection):
                self._link.calls += 1
                return self._link
        opened = _Link(connect(self._uri), calls=1)
        unused = self._swap(opened)
        if unused is not None:
            close(unused)
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
            close(link.connection)


def connect(address: str) -> libvirt.virConnect:
    """Open a connection that breaks when its peer's machine goes. Blocks.

    Raises:
        libvirt.libvirtError: there is none to be had.
    """
    opened = libvirt.open(address)
    # A driver inside this process needs none.
    inventory.has(lambda: opened.setKeepAlive(_KEEPALIVE_S, _KEEPALIVE_COUNT))
    return opened


def is_alive(connection: libvirt.virConnect) -> bool:
    """Whether it can be used, as far as this end knows."""
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def close(connection: libvirt.virConnect) -> None:
    """Close it, broken or not."""
    try:
        connection.close()
    except libvirt.libvirtError:
        return  # it is broken already
