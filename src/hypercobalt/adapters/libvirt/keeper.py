"""Keeps one connection to one daemon: opens it, listens to it, and opens it again.

One thread goes through the life of a connection: open, subscribe, say `Connected`, ask every
moment whether the daemon answers, say `Disconnected`, wait, and again. So there is never more than
one attempt under way, and one that hangs is waited for: it ends when the daemon goes on or dies.

A dead daemon is heard of at once, by the close callback. A hung one leaves its socket open, and
libvirt's keepalive counts in whole seconds; hence the heartbeat: a cheap call, and `check`, which
another thread makes when its answer is due. A daemon that answers again on the same connection has
its subscriptions still, so that only `Connected` is said.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

import libvirt

from hypercobalt.adapters.libvirt import inventory, links
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.events import EventQueue
from hypercobalt.adapters.libvirt.model import Connected, Disconnected, DomainEvent
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.sockets import shut_down_to
from hypercobalt.adapters.libvirt.subscriptions import Subscriptions, changes_definition
from hypercobalt.adapters.libvirt.uri import Address
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_MAX_EARLY = 1000
_CLOSED = {
    libvirt.VIR_CONNECT_CLOSE_REASON_EOF: "libvirt closed the connection",
    libvirt.VIR_CONNECT_CLOSE_REASON_ERROR: "the connection to libvirt broke",
    libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE: "libvirt did not answer keepalive messages",
}


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a fault is noticed and how often a connection is tried; seconds.

    Args:
        heartbeat: between an answer and the next question.
        patience: how long an answer may take.
        patience_to_connect: how long an attempt may take before that is said; it goes on.
        longest_attempt: after which one over TCP is given up, lest it wait for ever for a machine
            that is gone; the end of a Unix socket is always told.
        first_wait: before the second attempt to connect; it doubles with each one.
        longest_wait_local: bound of that for a daemon on this machine.
        longest_wait_remote: for one elsewhere, each wait then spread over its upper half.
    """

    heartbeat: float = 0.4
    patience: float = 0.4
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


class Keeper(threading.Thread):
    """The thread; a daemon, because an attempt to connect may hang for ever.

    Args:
        address: of the daemon.
        pace: see there.
        events: told of the connection and of its events.
        definitions: told of events that change a definition.
        ended: called, on the thread, when it ends after `stop`.
    """

    def __init__(
        self,
        address: Address,
        pace: Pace,
        events: EventQueue,
        definitions: Definitions,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(name="libvirt-keeper", daemon=True)
        self._address = address
        self._pace = pace
        self._events = events
        self._definitions = definitions
        self._ended = ended
        self._stopping = threading.Event()
        self._broken = threading.Event()
        self._reason = ""  # why it broke
        # Guards what follows: the thread, libvirt's event thread and `check` meet here.
        self._lock = threading.Lock()
        self._link: libvirt.virConnect | None = None
        self._connected: Connected | None = None
        self._subscription: object | None = None
        self._early: list[DomainEvent] = []  # events between subscription and `Connected`
        self._asked_at: float | None = None  # of the question that waits for its answer
        self._quiet_until = 0.0  # no question is asked before
        self._silent = False  # the daemon owes an answer, and that was said

    def link(self) -> libvirt.virConnect:
        """The connection.

        Raises:
            LibvirtError: there is none, or its daemon does not answer.
        """
        with self._lock:
            if self._link is None or self._silent:
                state = self._events.state
                reason = state.reason if isinstance(state, Disconnected) else "not yet"
                raise LibvirtError(f"libvirt is not connected: {reason}")
            return self._link

    def check(self, *, late: bool) -> float:
        """Say `Disconnected` if the daemon owes an answer for too long.

        Args:
            late: the caller was held up itself, so that nobody knows whose fault it is: wait anew.

        Returns:
            Seconds until the next check is due.
        """
        now = monotonic()
        with self._lock:
            if self._asked_at is None or self._silent:
                self._give_up_attempt(now)
                # No question that is asked from now on is overdue before this.
                return max(self._quiet_until - now, 0) + self._pace.patience
            if late:
                self._asked_at = now
            patience = self._pace.patience if self._link else self._pace.patience_to_connect
            left = self._asked_at + patience - now
            if left > 0:  # it may answer, and be asked again, before that
                return min(left, self._pace.patience)
            self._silent = True
            self._say_disconnected(f"libvirt has not answered for {patience:g} s")
            return self._pace.patience

    def _give_up_attempt(self, now: float) -> None:
        if self._link is not None or self._asked_at is None or self._address.port is None:
            return
        if now - self._asked_at >= self._pace.longest_attempt:
            log.warning("libvirt_attempt_given_up", uri=self._address.uri)
            shut_down_to(self._address.port)
            self._asked_at = now

    def stop(self) -> None:
        """Have the thread close its connection and end."""
        self._stopping.set()
        self._broken.set()

    def run(self) -> None:
        """Keep connections until `stop`."""
        local, attempt = self._address.is_local(), 0
        while not self._stopping.is_set():
            try:
                stood = self._keep_one()
            except Exception as exc:
                log.exception("libvirt_keeper_failed")
                self._lose(f"hypercobalt failed: {exc!r}")
                stood = False
            attempt = 0 if stood else attempt + 1
            self._stopping.wait(self._pace.wait(attempt, local=local))
        self._ended()

    def _keep_one(self) -> bool:
        connection = self._open()
        return connection is not None and self._serve(connection)

    def _open(self) -> libvirt.virConnect | None:
        self._ask()
        try:
            return libvirt.open(self._address.uri)
        except libvirt.libvirtError as exc:
            self._lose(str(exc))
            return None

    def _serve(self, connection: libvirt.virConnect) -> bool:
        """Use a connection until it breaks; gives whether it ever stood."""
        subscriptions = Subscriptions(connection)
        try:
            self._set_up(connection, subscriptions)
            self._listen(connection)
        except libvirt.libvirtError as exc:
            self._reason = self._reason or str(exc)
        stood = self._link is not None
        self._lose(self._reason)
        subscriptions.end()
        for close in (connection.unregisterCloseCallback, connection.close):
            try:
                close()
            except libvirt.libvirtError:
                continue  # it is broken already
        return stood

    def _set_up(self, connection: libvirt.virConnect, subscriptions: Subscriptions) -> None:
        self._broken.clear()
        self._reason = ""
        if self._stopping.is_set():
            self._broken.set()
            return
        # A driver inside this process has none, and needs none.
        inventory.has(lambda: connection.registerCloseCallback(self._on_close, None))
        links.keep_alive(connection)
        self._definitions.forget_all()
        subscription = object()
        with self._lock:
            self._subscription = subscription
        missing = subscriptions.make(lambda event: self._on_event(subscription, event))
        found = inventory.describe(connection)
        with self._lock:
            self._link = connection
            self._connected = replace(found, missing=found.missing + missing)
            self._silent = False
            self._say_connected()
            for event in self._early:
                self._events.put(event)
            self._early.clear()

    def _listen(self, connection: libvirt.virConnect) -> None:
        """Return when the connection broke."""
        self._answered()
        while not self._broken.wait(self._pace.heartbeat):
            self._ask()
            connection.getLibVersion()
            self._answered()

    def _ask(self) -> None:
        with self._lock:
            self._asked_at = monotonic()

    def _answered(self) -> None:
        with self._lock:
            self._asked_at = None
            self._quiet_until = monotonic() + self._pace.heartbeat
            self._revive()

    def _lose(self, reason: str) -> None:
        with self._lock:
            self._link = self._connected = self._subscription = self._asked_at = None
            self._quiet_until = 0.0
            self._silent = False
            self._early.clear()
            if not self._stopping.is_set():
                self._say_disconnected(reason)

    def _revive(self) -> None:
        if self._silent:
            self._silent = False
            self._say_connected()

    def _say_connected(self) -> None:
        if self._connected is not None:
            self._events.put(self._connected)

    def _say_disconnected(self, reason: str) -> None:
        if self._events.state != (said := Disconnected(reason)):
            self._events.put(said)

    def _on_close(self, _connection: libvirt.virConnect, reason: int, _context: None) -> None:
        self._reason = _CLOSED.get(reason, "the connection was closed")
        self._broken.set()

    def _on_event(self, subscription: object, event: DomainEvent) -> None:
        if changes_definition(event):
            self._definitions.forget(event.uuid)
        with self._lock:
            if subscription is not self._subscription:
                return  # stale event of a lost connection; the relist covers it
            if self._link is not None:
                if self._silent:  # but it speaks: give it time for the answer as well
                    self._asked_at = monotonic()
                self._revive()
                self._events.put(event)
            elif len(self._early) < _MAX_EARLY:
                self._early.append(event)
