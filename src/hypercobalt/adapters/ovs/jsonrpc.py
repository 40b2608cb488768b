"""One JSON-RPC stream: calls with their answers by id, notifications, the peer's echo requests.

OVSDB and unixctl speak JSON-RPC 1.0 over a stream socket. Every call has a deadline. An answer that
comes after the deadline is dropped, and the connection stays usable; the caller decides whether a
late daemon is worth keeping a connection to.

Source: RFC 7047, section 4; ovsdb-server(7); measured: on an error, Open vSwitch 3.1's unixctl
leaves `result` out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Final, cast

import msgspec

from hypercobalt.adapters.ovs.framing import Objects
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.adapters.ovs.remote import connect as reach

LIMIT: Final = 16 * 1024 * 1024
"""Bytes of the largest message: rows of 10,000 interfaces are 10 MB, and no host has so many."""
Json = msgspec.Raw
Listener = Callable[[str, Json], None]
_NULL: Final = b"null"
_SHOWN: Final = 300  # characters of an error that a message repeats
_UCRED: Final = struct.Struct("iII")  # unix(7): pid, uid, gid
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Message(msgspec.Struct):
    id: Json = Json(_NULL)
    method: str | None = None
    params: Json = Json(_NULL)
    result: Json = Json(_NULL)
    error: Json = Json(_NULL)


class Stream(asyncio.Protocol):
    """See the module; made by `connect`.

    Args:
        peer: for messages, such as `unix:/run/openvswitch/db.sock`.
        limit: bytes of the largest message that is accepted.
        listener: called with the method and params of each notification. A
            `SwitchError` or an error of decoding that it raises ends the connection.

    Attributes:
        closed: why the connection ended, once it has.
    """

    _transport: asyncio.Transport

    def __init__(self, peer: str, *, limit: int = LIMIT, listener: Listener | None = None) -> None:
        self.peer = peer
        self.closed: asyncio.Future[SwitchError] = asyncio.get_running_loop().create_future()
        self._objects = Objects(peer, limit)
        self._listener = listener
        self._serial = 0
        self._pending: dict[int, asyncio.Future[Json]] = {}

    async def call(self, method: str, params: object, *, deadline: float) -> Json:
        """Make a call, and return its result, undecoded.

        Args:
            method: of the peer.
            params: its arguments, a list.
            deadline: seconds until the answer.

        Raises:
            SwitchError: REFUSED for an error of the peer, TIMEOUT, or why the connection ended.
        """
        if self.closed.done():
            raise again(self.closed.result())
        self._serial += 1
        serial = self._serial
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[serial] = answer
        try:
            self._send({"id": serial, "method": method, "params": params})
            await asyncio.wait({answer}, timeout=deadline)  # an answer that came by now counts
        finally:
            del self._pending[serial]
        if answer.done():
            return answer.result()
        raise SwitchError(
            ProducerFault.TIMEOUT, f"{self.peer}: {method} was not answered within {deadline:g} s"
        )

    def peer_process(self) -> int | None:
        """The process behind a Unix socket; None for a network peer or another PID namespace's."""
        found = self._transport.get_extra_info("socket")
        if found is None or found.family != socket.AF_UNIX:
            return None
        credentials = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return _UCRED.unpack(credentials)[0] or None

    def close(self, reason: SwitchError | None = None) -> None:
        """End the connection now; calls under way raise the reason."""
        closed = SwitchError(ProducerFault.CLOSED, f"{self.peer}: the connection was closed here")
        self._end(reason or closed)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.closed.done():
            return
        try:
            for text in self._objects.feed(data):
                self._take(text)
        except SwitchError as exc:
            self._end(exc)
        except _NOT_JSON as exc:
            self._end(
                SwitchError(
                    ProducerFault.MALFORMED, f"{self.peer}: the message cannot be read: {exc}"
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        cause = f": {exc}" if exc else ""
        self._end(
            SwitchError(ProducerFault.CLOSED, f"{self.peer}: the peer closed the connection{cause}")
        )

    def _take(self, text: bytes) -> None:
        # From text, as what is left undecoded for now would be left unchecked too.
        message = msgspec.json.decode(text.decode(), type=_Message)
        if message.method is None:
            self._answer(message)
        elif bytes(message.id) == _NULL:
            if self._listener is not None:
                self._listener(message.method, message.params)
        elif message.method == "echo":
            self._send({"id": message.id, "result": message.params, "error": None})
        else:
            self._send({"id": message.id, "result": None, "error": "unknown method"})

    def _answer(self, message: _Message) -> None:
        serial: object = msgspec.json.decode(message.id)
        pending = self._pending.get(serial) if isinstance(serial, int) else None
        if pending is None or pending.done():
            return  # its call has been given up
        if bytes(message.error) == _NULL:
            pending.set_result(message.result)
        else:
            words = _words(message.error)
            _fail(pending, SwitchError(ProducerFault.REFUSED, f"{self.peer}: refused: {words}"))

    def _send(self, message: dict[str, object]) -> None:
        self._transport.write(msgspec.json.encode(message))

    def _end(self, error: SwitchError) -> None:
        if self.closed.done():
            return
        self.closed.set_result(error)
        with contextlib.suppress(AttributeError):  # never connected
            self._transport.abort()
        for answer in self._pending.values():
            if not answer.done():
                _fail(answer, again(error))


async def connect(
    remote: Remote,
    *,
    deadline: float,
    limit: int = LIMIT,
    listener: Listener | None = None,
    tls: ssl.SSLContext | None = None,
) -> Stream:
    """Connect; see `Stream` and `remote.connect` for the arguments.

    Raises:
        SwitchError: see `remote.connect`.
    """
    _, stream = await reach(
        remote,
        lambda: Stream(str(remote), limit=limit, listener=listener),
        deadline=deadline,
        tls=tls,
    )
    return stream


def again(error: SwitchError) -> SwitchError:
    """The same error for another caller: a raised one collects tracebacks."""
    return SwitchError(error.fault, str(error))


def _fail(answer: asyncio.Future[Json], error: SwitchError) -> None:
    answer.set_exception(error)
    answer.exception()  # its caller may have been cancelled


def _words(error: Json) -> str:
    """An error as text: unixctl sends a string, ovsdb-server an object."""
    found: object = msgspec.json.decode(error)
    if isinstance(found, dict):
        parts = cast("dict[str, object]", found)
        words = f"{parts.get('error', '')} {parts.get('details', '')}"
    else:
        words = str(found)
    return words.strip()[:_SHOWN]
