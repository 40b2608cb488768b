"""Listening sockets whose clients cost little until they have shown what they want.

    accept ── waiting ──── opening ──── open
              bare socket  TLS, a few   buffers

A connection is counted when it is accepted. It waits as a bare socket until its first bytes are
there, of TLS the whole first record: clients that send nothing, or byte by byte, cost a descriptor
for a few seconds. Then it takes one of the places, each of which has buffers, and one of the few
places for handshakes until its TLS handshake is over; addresses in turn, the newest connection of
an address first. A client that has a place, and does not send a request soon, may lose the place to
a newcomer by the rules of `places`.

Without descriptors nothing is accepted for a moment, and some of those that wait are given up.

Source: sshd's MaxStartups; socket(7), SO_RCVLOWAT; accept(2), errors; RFC 8446, section 5.1.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hypercobalt.logs import get_logger
from hypercobalt.runtime.places import Crowd, owner_of

log = get_logger(__name__)

GRACE_SECONDS: Final = 2.0
"""Seconds that a place is safe: some round trips of a client on a busy machine."""

_ACCEPTED_AT_ONCE: Final = 64  # in one turn of the loop
_PAUSE_SECONDS: Final = 0.2  # without descriptors
_GIVEN_UP: Final = 16  # of those that wait, without descriptors
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_RECORD: Final = struct.Struct(">BBBH")  # content type, version, length
_HANDSHAKE, _VERSION, _MAX_RECORD = 22, 3, 2**14


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections of each state a listener has at once.

    Args:
        places: connections with buffers.
        handshakes: connections with buffers that are in a TLS handshake.
        waiting: connections that are bare sockets.
        seconds: from accept until a place is found; for a handshake; for the end of TLS.
    """

    places: int = 64
    handshakes: int = 8
    waiting: int = 256
    seconds: float = 5.0


class Place:
    """The place of one connection with buffers.

    Attributes:
        owner: address that the place counts for.
        since: when it was taken, by the loop's clock.
        at_work: whether it may not be taken away; set by the code that serves the connection.
    """

    __slots__ = ("_released", "at_work", "end", "owner", "since")

    def __init__(self, owner: str, since: float, released: Callable[[Place], None]) -> None:
        self.owner, self.since, self.at_work = owner, since, False
        self.end: Callable[[], object] = _nothing
        self._released: Callable[[Place], None] | None = released

    def release(self) -> None:
        """Give it back, when the connection is lost at the latest; again is harmless."""
        released, self._released = self._released, None
        self.end = _nothing  # nor does it keep the connection's buffers
        if released is not None:
            released(self)

    def opened(self, transport: asyncio.Transport) -> None:
        """Take note of the connection, unless its place was given back meanwhile."""
        if self._released is not None:
            self.end = transport.abort

    def take_away(self) -> None:
        """End the connection for another one's sake."""
        end = self.end
        self.release()
        end()


def _nothing() -> None:
    """There is nothing to end yet."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A connection without buffers.

    Args:
        needed: bytes of its first record, as far as they are known.
        measured: whether they are.
    """

    socket: socket.socket
    owner: str
    needed: int
    measured: bool
    deadline: asyncio.TimerHandle | None = None


Connect = Callable[[Place], asyncio.BaseProtocol]
"""Makes the protocol of a connection, which releases the place when the connection is lost."""


class Listener:
    """Accepts connections on sockets until it is closed.

    Args:
        sockets: that listen; they are closed with the listener.
        connect: see `Connect`.
        bounds: of the connections.
        tls: None accepts connections without it.
    """

    def __init__(
        self,
        sockets: Iterable[socket.socket],
        connect: Connect,
        bounds: Bounds,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._sockets, self._connect = tuple(sockets), connect
        self._bounds, self._tls = bounds, tls
        self._loop = asyncio.get_running_loop()
        self._waiting = Crowd[_Waiting](bounds.waiting)
        self._ready = dict[str, list[_Waiting]]()  # those of them that wait for a place, by owner
        self._places = Crowd[Place](bounds.places)
        self._opening = Crowd[Place](bounds.handshakes)  # those of them in a handshake
        self._tasks = set[asyncio.Task[None]]()
        self._retry: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        for listening in self._sockets:
            listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Stop accepting, and end connections that are not open yet."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._retry, self._pause):
            if timer is not None:
                timer.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for waiting in tuple(self._waiting):
            self._drop(waiting)
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is being opened any more."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- accepting -------------------------------------------------------------------------

    def _resume(self) -> None:
        self._pause = None
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, peer = listening.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest(error)
                return  # else nobody is there, or who was is gone
            self._admit(connection, owner_of(peer))

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a moment: a socket that cannot be accepted stays readable."""
        if self._pause is not None:
            return
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._resume)
        oldest = tuple(self._waiting)[:_GIVEN_UP]
        log.warning("connections_not_accepted", error=str(error), given_up=len(oldest))
        for waiting in oldest:
            self._drop(waiting)

    def _admit(self, connection: socket.socket, owner: str) -> None:
        for giver in (self._waiting.givers(owner) or ())[:1]:
            self._drop(next(self._waiting.of(giver)))
        connection.setblocking(False)
        waiting = _Waiting(connection, owner, needed=1, measured=self._tls is None)
        if self._tls is not None:
            waiting.needed = _RECORD.size
        waiting.deadline = self._loop.call_later(self._bounds.seconds, self._drop, waiting)
        self._waiting.add(owner, waiting)
        self._look_when(waiting)

    # -- waiting for the first bytes -------------------------------------------------------

    def _look_when(self, waiting: _Waiting) -> None:
        """Look at a connection when as much as it needs has arrived, or its end."""
        waiting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, waiting.needed)
        self._loop.add_reader(waiting.socket, self._look, waiting)

    def _look(self, waiting: _Waiting) -> None:
        try:
            head = waiting.socket.recv(waiting.needed, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            head = b""
        if len(head) < waiting.needed:  # there comes no more
            self._drop(waiting)
        elif waiting.measured:
            self._loop.remove_reader(waiting.socket)
            waiting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            self._ready.setdefault(waiting.owner, []).append(waiting)
            self._open_next()
        else:
            length = _length_of(head)
            if length is None:
                self._drop(waiting)
                return
            waiting.needed, waiting.measured = _RECORD.size + length, True
            self._look_when(waiting)

    def _drop(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        self._loop.remove_reader(waiting.socket)
        waiting.socket.close()

    def _forget(self, waiting: _Waiting) -> None:
        """Take it out of those that wait."""
        if waiting.deadline is not None:
            waiting.deadline.cancel()
        self._waiting.remove(waiting.owner, waiting)
        ready = self._ready.get(waiting.owner, [])
        if waiting in ready:
            ready.remove(waiting)
            if not ready:
                del self._ready[waiting.owner]

    # -- opening ---------------------------------------------------------------------------

    def _open_next(self) -> None:
        """Give places to those that are ready, addresses in turn."""
        goes_on = not self._closed
        while goes_on:
            goes_on = False
            for owner in tuple(self._ready):
                if self._has_room(owner):
                    waiting = self._ready[owner][-1]
                    self._forget(waiting)
                    self._open(waiting)
                    goes_on = True
        if self._ready and self._retry is None and not self._closed:
            self._retry = self._loop.call_later(GRACE_SECONDS, self._again)

    def _again(self) -> None:
        self._retry = None
        self._open_next()

    def _has_room(self, owner: str) -> bool:
        """Whether there is a place for this owner; who has to give it loses it."""
        before = self._loop.time() - GRACE_SECONDS
        losers = set[Place]()
        for crowd in (self._opening, self._places):
            asked = crowd.givers(owner)
            if asked is None or not losers.isdisjoint(crowd):
                continue
            loser = _idle(crowd, asked, before=before)
            if loser is None:
                return False
            losers.add(loser)
        for place in losers:
            place.take_away()
        return True

    def _open(self, waiting: _Waiting) -> None:
        place = Place(waiting.owner, self._loop.time(), self._released)
        self._places.add(place.owner, place)
        self._opening.add(place.owner, place)
        task = self._loop.create_task(self._opened(place, waiting.socket), name="connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        place.end = task.cancel

    async def _opened(self, place: Place, connection: socket.socket) -> None:
        seconds = self._bounds.seconds if self._tls is not None else None
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                partial(self._connect, place),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
            place.opened(transport)
        except OSError:  # of TLS too, and of time
            place.release()
        except asyncio.CancelledError:
            place.release()
            raise
        finally:
            self._opening.remove(place.owner, place)
            self._open_next()

    def _released(self, place: Place) -> None:
        self._places.remove(place.owner, place)
        self._opening.remove(place.owner, place)
        if self._ready:
            self._loop.call_soon(self._open_next)


def _idle(crowd: Crowd[Place], owners: Iterable[str], *, before: float) -> Place | None:
    """The place that is idle for longest, of the first owner that has such a one."""
    found = (place for owner in owners for place in crowd.of(owner))
    return next((one for one in found if not one.at_work and one.since <= before), None)


def _length_of(head: bytes) -> int | None:
    """Length of the record that begins a TLS handshake; None for anything else."""
    kind, major, _, length = _RECORD.unpack(head)
    return length if (kind, major) == (_HANDSHAKE, _VERSION) and 0 < length <= _MAX_RECORD else None
