"""A connection that is there when it is needed, for somebody with very many daemons to ask.

It is opened by the first question, closed after a while without one, and opened again after it
broke. Questions are put one after the other; each has a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

import libvirt

from hypercobalt.adapters.libvirt import inventory, uri
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.eventloop import ensure_running
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.remote.port import LibvirtRefusedError

Answer = TypeVar("Answer")

_KEEPALIVE_S, _KEEPALIVE_COUNT = 5, 5
_IDLE: Final = 30.0


class Session:
    """One daemon's connection.

    Args:
        address: URI of the daemon.
        deadline: of a question, seconds, connecting included.

    Raises:
        ConfigurationError: the URI is none that can be used.
    """

    def __init__(self, address: str, *, deadline: float = 10.0) -> None:
        self._uri = uri.parse(address).uri
        self._deadline = deadline
        self._calls = Calls()
        self._lock = Lock()  # a thread that was left behind may come back with a connection
        self._connection: libvirt.virConnect | None = None
        self._idle: asyncio.TimerHandle | None = None
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
        loop = asyncio.get_running_loop()
        if self._idle:
            self._idle.cancel()
        try:
            return await self._calls.run(
                what, lambda: self._put(what, ask), deadline=self._deadline
            )
        finally:
            self._idle = loop.call_later(_IDLE, self._let_go)

    def close(self) -> None:
        """Close the connection; what waits for it hears of a broken one."""
        if self._idle:
            self._idle.cancel()
        self._let_go()

    def _let_go(self) -> None:
        self._calls.close()
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            close(connection)

    def _put(self, what: str, ask: Callable[[libvirt.virConnect], Answer]) -> Answer:
        try:
            connection = self._connected()
        except libvirt.libvirtError as exc:
            raise LibvirtError(f"{what}: {exc}") from exc
        try:
            return ask(connection)
        except libvirt.libvirtError as exc:
            if is_alive(connection):
                raise LibvirtRefusedError(f"{what}: {exc}") from exc
            self._drop(connection)
            raise LibvirtError(f"{what}: {exc}") from exc

    def _connected(self) -> libvirt.virConnect:
        with self._lock:
            if self._connection is not None and is_alive(self._connection):
                return self._connection
        opened = connect(self._uri)
        with self._lock:
            self._connection = opened
        return opened

    def _drop(self, connection: libvirt.virConnect) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
        close(connection)


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
