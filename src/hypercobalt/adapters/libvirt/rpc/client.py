"""One connection to a daemon: calls and their answers, events, keepalive.

A call that is cancelled, by a deadline or otherwise, still runs in the daemon. It keeps its
slot until its reply arrives, which is dropped; so the daemon never gets more calls than it
serves at a time (`max_client_requests`, 5). It would not even read a further one, nor a sign of
life; hence four slots, and a fifth for the heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.errors import (
    ClosedError,
    NotSupportedError,
    ProtocolError,
    RemoteError,
    RpcError,
    XdrError,
)
from hypercobalt.adapters.libvirt.rpc.event_types import EventType
from hypercobalt.adapters.libvirt.rpc.framing import Frames, Message, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import Arguments, Procedure, Result
from hypercobalt.adapters.libvirt.rpc.xdr import codec

PLACES: Final = 4
_INTERVAL: Final = 10.0  # of keepalive, seconds
_UNANSWERED: Final = 2
_ACCEPTED: Final = b"\x01"
_MAX_SERIAL: Final = 2**31 - 1
_CHECK: Final = Message(
    protocol.GET_LIB_VERSION.program,
    protocol.VERSION,
    protocol.GET_LIB_VERSION.number,
    MessageKind.CALL,
    serial=0,  # other calls begin with 1
    status=Status.OK,
    payload=b"",
)
_CHECK_BYTES: Final = _CHECK.pack()

Listener = Callable[[bytes], None]


class _Pending(NamedTuple):
    """A call without an answer so far."""

    procedure: Procedure[Any, Any]
    answer: asyncio.Future[Any]
    release: Callable[[], None]


class Client(asyncio.Protocol):
    """See the module; made by `transport.connect`.

    Args:
        verdict: the daemon sends one byte once it accepts our certificate, as it does over TLS.

    Attributes:
        accepted: done when calls can be made.
        closed: why the connection ended, once it has.
    """

    _transport: asyncio.Transport

    def __init__(self, *, verdict: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[None] = self._loop.create_future()
        self.closed: asyncio.Future[str] = self._loop.create_future()
        self._verdict = verdict
        self._frames = Frames()
        self._serial = 0
        self._pending: dict[int, _Pending] = {}
        self._checked: Callable[[], None] | None = None
        self._places = asyncio.Semaphore(PLACES)
        self._listeners: dict[tuple[int, int], Listener] = {}
        self._received = False
        self._pings = 0
        self._timer: asyncio.TimerHandle | None = None

    async def call(self, procedure: Procedure[Arguments, Result], arguments: Arguments) -> Result:
        """Call a procedure, when there is a place; it has no deadline of its own.

        Args:
            procedure: of the table in `protocol`.
            arguments: of it.

        Raises:
            RemoteError: the daemon refuses.
            ClosedError: the connection ended first, so nothing is known of the outcome.
            XdrError: an argument does not fit its type.
            ProtocolError: the arguments are longer than a message may be.
        """
        await self._places.acquire()
        try:
            answer = self._send(procedure, arguments, self._places.release)
        except RpcError:
            self._places.release()
            raise
        return await answer

    def check(self, answered: Callable[[], None]) -> None:
        """Have the daemon answer a cheap call, without waiting for a place; one at a time.

        Made at each heartbeat, so with bytes that stay the same, and no future.

        Args:
            answered: called when the reply arrives, a refusal too; not when the connection ends.
        """
        self._checked = answered
        self._transport.write(_CHECK_BYTES)

    def listen(self, event: EventType[Any], listener: Listener) -> None:
        """Have the payloads of an event handed over; events without a listener are dropped.

        Args:
            event: of the table in `protocol`.
            listener: called for each; an `XdrError` that it raises ends the connection.
        """
        self._listeners[event.program, event.number] = listener

    def keep_alive(self) -> None:
        """End the connection when the daemon is silent for 30 to 40 s, pings included."""
        self._timer = self._loop.call_later(_INTERVAL, self._tick)

    def close(self, reason: str = "the connection was closed") -> None:
        """End the connection now; calls under way raise `ClosedError`."""
        if self.closed.done():
            return
        self.closed.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        error = ClosedError(reason)
        if not self.accepted.done():
            self.accepted.set_exception(error)
            self.accepted.exception()  # as below
        for pending in self._pending.values():
            pending.release()
            if not pending.answer.done():
                pending.answer.set_exception(error)
                pending.answer.exception()  # its caller may have given up
        self._pending.clear()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._verdict:
            self.accepted.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received = True
        try:
            if not self.accepted.done():
                data = self._judged(data)
            for message in self._frames.feed(data):
                self._take(message)
        except (ProtocolError, XdrError) as exc:
            self.close(f"libvirt's answer cannot be read: {exc}")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.accepted.done():
            self.close(f"libvirt did not accept our TLS certificate: {exc or 'no reason given'}")
        elif exc is not None:
            self.close(f"the connection to libvirt broke: {exc}")
        else:
            self.close("libvirt closed the connection")

    def _judged(self, data: bytes) -> bytes:
        if data[:1] != _ACCEPTED:
            raise ProtocolError("it refuses our TLS certificate")
        self.accepted.set_result(None)
        return data[1:]

    def _take(self, message: Message) -> None:
        if message.version != protocol.VERSION:
            raise ProtocolError(f"version {message.version} of program {message.program:#x}")
        if message.program == protocol.KEEPALIVE:
            if message.procedure == protocol.PING:
                self._write(protocol.KEEPALIVE, protocol.PONG, MessageKind.EVENT, 0, b"")
        elif message.kind == MessageKind.EVENT:
            if listener := self._listeners.get((message.program, message.procedure)):
                listener(message.payload)
        elif message.kind == MessageKind.REPLY:
            self._answer(message)
        else:
            raise ProtocolError(f"a message of kind {message.kind}")

    def _answer(self, message: Message) -> None:
        if message.serial == _CHECK.serial and (answered := self._checked):
            if message[:3] != _CHECK[:3]:
                raise ProtocolError(f"procedure {message.procedure} answers {_CHECK.procedure}")
            self._checked = None
            answered()
            return
        pending = self._pending.get(message.serial)
        if pending is None:
            raise ProtocolError(f"an answer to call {message.serial}, which was never made")
        procedure = pending.procedure
        if (message.program, message.procedure) != (procedure.program, procedure.number):
            raise ProtocolError(f"procedure {message.procedure} answers {procedure.number}")
        if message.status not in {Status.OK, Status.ERROR}:
            raise ProtocolError(f"an answer of status {message.status}")
        if not pending.answer.done():  # else it was given up
            if message.status == Status.OK:
                pending.answer.set_result(codec(procedure.result).decode(message.payload))
            else:
                error = codec(protocol.Error).decode(message.payload)
                pending.answer.set_exception(_refusal(error, procedure))
        del self._pending[message.serial]
        pending.release()

    def _send(
        self,
        procedure: Procedure[Arguments, Result],
        arguments: Arguments,
        release: Callable[[], None],
    ) -> asyncio.Future[Result]:
        if self.closed.done():
            raise ClosedError(self.closed.result())
        payload = codec(procedure.arguments).encode(arguments)
        self._serial = self._serial % _MAX_SERIAL + 1
        self._write(procedure.program, procedure.number, MessageKind.CALL, self._serial, payload)
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._pending[self._serial] = _Pending(procedure, answer, release)
        return answer

    def _write(
        self, program: int, procedure: int, kind: MessageKind, serial: int, payload: bytes
    ) -> None:
        message = Message(program, protocol.VERSION, procedure, kind, serial, Status.OK, payload)
        self._transport.write(message.pack())

    def _tick(self) -> None:
        self._pings = 0 if self._received else self._pings + 1
        self._received = False
        if self._pings > _UNANSWERED:
            self.close("libvirt did not answer keepalive messages")
            return
        if self._pings:
            self._write(protocol.KEEPALIVE, protocol.PING, MessageKind.EVENT, 0, b"")
        self.keep_alive()


def _refusal(error: protocol.Error, procedure: Procedure[Any, Any]) -> RemoteError:
    message = error.message or f"libvirt's error {error.code}, without a message"
    # An unknown procedure is refused as `unknown procedure: 391`, in the daemon's language.
    unknown = error.code == ErrorCode.RPC and message.endswith(f" {procedure.number}")
    absent = unknown or error.code == ErrorCode.NO_SUPPORT
    kind = NotSupportedError if absent else RemoteError
    number = error.int1 if error.code == ErrorCode.SYSTEM_ERROR else 0
    return kind(message, code=error.code, domain=error.domain, level=error.level, number=number)
