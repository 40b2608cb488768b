"""Keeps one connection to one daemon: opens it, listens to it, and opens it again.

One task goes through the life of a connection: open, subscribe, report `Connected`, check at each
heartbeat that the daemon replies, report `Disconnected`, wait, and again. So there is never more
than one attempt under way; an attempt over a Unix socket that hangs is waited for, as it ends when
the daemon goes on or dies.

A dead daemon closes its socket. A hung one leaves it open, and keepalive counts in seconds; hence
the heartbeat, a cheap call. A daemon that answers again on the same connection has its
subscriptions still, so that only `Connected` is reported.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from hypercobalt.adapters.libvirt import inventory
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.events import Connected, Disconnected, DomainEvent, EventQueue
from hypercobalt.adapters.libvirt.heartbeat import Heartbeat
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import ClosedError, RpcError
from hypercobalt.adapters.libvirt.rpc.transport import connect
from hypercobalt.adapters.libvirt.subscriptions import changes_definition, subscribe
from hypercobalt.adapters.libvirt.uri import Address
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_MAX_EARLY: Final = 1000


@dataclass(frozen=True, slots=True)
class ConnectionPace:
    """How fast a fault is noticed and how often a connection is tried; seconds.

    Args:
        heartbeat: between two calls. With `patience`, a hang is reported within 0.9 s.
        patience: how long an answer may take.
        patience_to_connect: how long an attempt may take before that is reported; it goes on.
        longest_attempt: after which one over TCP is given up: it could wait for ever for a machine
            that is gone; the end of a Unix socket is always seen.
        first_wait: before the second attempt to connect; it doubles with each one.
        longest_wait_local: bound of that for a daemon on this machine.
        longest_wait_remote: for one elsewhere, each wait then spread over its upper half.
    """

    heartbeat: float = 0.55
    patience: float = 0.35
    patience_to_connect: float = 3.0
    longest_attempt: float = 60.0
    first_wait: float = 0.05
    longest_wait_local: float = 0.4
    longest_wait_remote: float = 5.0

    def wait(self, attempt: int, *, local: bool) -> float:
        """The wait after a number of failed attempts."""
        doubled = self.first_wait * 2.0 ** min(attempt, 16)
        if local:
            return min(doubled, self.longest_wait_local)
        return min(doubled, self.longest_wait_remote) * random.uniform(0.5, 1)  # noqa: S311


@dataclass(frozen=True, slots=True)
class _Link:
    """A connection that can be used, and what is reported of it."""

    client: Client
    connected: Connected


class Reconnector:
    """Keeps the connection while `run` runs.

    Args:
        address: of the daemon.
        pace: see there.
        events: gets the connection's changes and the domains' events.
        definitions: forgets what an event changes.
    """

    def __init__(
        self, address: Address, pace: ConnectionPace, events: EventQueue, definitions: Definitions
    ) -> None:
        self._address = address
        self._pace = pace
        self._events = events
        self._definitions = definitions
        self._link: _Link | None = None
        # Events between subscription and `Connected`: what is older than the newest of them is
        # covered by the listing that follows. The oldest without the newest would undo that.
        self._early = deque[DomainEvent](maxlen=_MAX_EARLY)
        self._heartbeat: Heartbeat | None = None

    def client(self) -> Client:
        """The connection.

        Raises:
            LibvirtError: there is none, or its daemon does not answer.
        """
        if self._link is None or isinstance(self._events.state, Disconnected):
            state = self._events.state
            reason = state.reason if isinstance(state, Disconnected) else "not yet"
            raise LibvirtError(f"libvirt is not connected: {reason}")
        return self._link.client

    async def run(self) -> None:
        """Keep a connection, without end."""
        local = not self._address.host or await asyncio.to_thread(self._address.is_local)
        attempt = 0
        while True:
            try:
                self._link = await self._open()
                attempt = 0
                self._begin(self._link)
                await self._listen(self._link)
            except RpcError as exc:
                self._report_disconnected(str(exc))
            except Exception as exc:
                log.exception("libvirt_reconnector_failed")
                self._report_disconnected(f"hypercobalt failed: {exc!r}")
            finally:
                if self._link is not None:
                    self._link.client.close()
                    self._link = None
            # Backoff: a daemon that is away reports its return by nothing but a connection.
            await asyncio.sleep(self._pace.wait(attempt, local=local))
            attempt += 1

    async def _open(self) -> _Link:
        """Connect, subscribe and look at what the driver offers."""
        attempt = asyncio.create_task(self._attempt(), name="libvirt-attempt")
        try:
            if await self._passes(self._pace.patience_to_connect, attempt):
                self._report_silent(self._pace.patience_to_connect)
                over_network = self._address.port is not None
                left = self._pace.longest_attempt - self._pace.patience_to_connect
                await asyncio.wait({attempt}, timeout=left if over_network else None)
            if not attempt.done():
                log.warning("libvirt_attempt_given_up", uri=self._address.uri)
                raise ClosedError(f"no answer within {self._pace.longest_attempt:g} s")
            return await attempt
        finally:
            attempt.cancel()

    async def _attempt(self) -> _Link:
        self._definitions.forget_all()
        self._early.clear()
        client = await connect(self._address)
        try:
            missing = await subscribe(client, self._on_event)
            found = await inventory.describe(client)
        except BaseException:
            client.close()
            raise
        return _Link(client, Connected(found.versions, found.missing + missing))

    def _begin(self, link: _Link) -> None:
        self._events.put(link.connected)
        for event in self._early:
            self._events.put(event)
        self._early.clear()

    async def _listen(self, link: _Link) -> None:
        """Check at each heartbeat that the daemon replies, until the connection breaks."""
        client, pace = link.client, self._pace
        self._heartbeat = Heartbeat(
            client,
            pace.heartbeat,
            pace.patience,
            silent=lambda: self._report_silent(pace.patience),
            alive=lambda: self._events.put(link.connected),
        )
        try:
            await asyncio.wait({client.closed})
        finally:
            self._heartbeat.stop()
            self._heartbeat = None
        raise ClosedError(client.closed.result())

    async def _passes(self, seconds: float, until: asyncio.Future[Any]) -> bool:
        """Wait, and return whether the time has passed before `until` came.

        Time in which this process was held up does not count: the answers wait in its socket.
        """
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + seconds
            done, _ = await asyncio.wait({until}, timeout=seconds)
            if done:
                return False
            if loop.time() - due < self._pace.patience / 2:
                return True

    def _on_event(self, event: DomainEvent) -> None:
        if changes_definition(event):
            self._definitions.forget(event.uuid)
        if self._heartbeat is None:
            self._early.append(event)
        else:
            self._heartbeat.sign()
            self._events.put(event)

    def _report_silent(self, seconds: float) -> None:
        self._report_disconnected(f"libvirt has not answered for {seconds:g} s")

    def _report_disconnected(self, reason: str) -> None:
        if self._events.state != (reported := Disconnected(reason)):
            self._events.put(reported)
