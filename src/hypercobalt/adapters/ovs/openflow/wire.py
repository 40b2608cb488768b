"""Messages of OpenFlow, and a request for statistics, from hello to the last part of the reply.

Source: OpenFlow 1.0, sections 5.1 and 5.3.5; OpenFlow 1.3.5, sections 7.1, 7.3.5 and 7.5.1.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote, connect

OF10, OF13, OF14, OF15 = 1, 4, 5, 6
"""Versions as they are on the wire."""
_NAMES: Final = {OF10: "1.0", OF13: "1.3", OF14: "1.4", OF15: "1.5"}
_HEADER: Final = struct.Struct("!BBHI")  # version, type, length, xid
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY = 0, 1, 2, 3
_STATS_10, _STATS_REPLY_10, _MULTIPART, _MULTIPART_REPLY = 16, 17, 18, 19
_BITMAP: Final = struct.Struct("!HHI")  # OFPHET_VERSIONBITMAP, length, bits
_STATS: Final = struct.Struct("!HH")  # type, flags; from 1.3 on four bytes of padding follow
_PADDING: Final = 4
_MORE: Final = 1
_XID: Final = 2
_FAILED_HELLO: Final = 0
_LEAST: Final = 16 * 1024
"""Bytes that a message counts as: a switch fills its messages, and an endless answer has an end."""


class Message(NamedTuple):
    """One message; `body` without the header."""

    version: int
    type: int
    xid: int
    body: bytes

    def pack(self) -> bytes:
        """The message's bytes."""
        length = _HEADER.size + len(self.body)
        return _HEADER.pack(self.version, self.type, length, self.xid) + self.body


class Messages:
    """Finds the messages in a stream, however it is cut."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes, and yield the messages that are whole now.

        Raises:
            SwitchError: MALFORMED, for a length that no message has.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            version, kind, length, xid = _HEADER.unpack_from(self._buffer)
            if length < _HEADER.size:
                raise SwitchError(
                    ProducerFault.MALFORMED, f"{self._peer}: an OpenFlow message of {length} bytes"
                )
            if len(self._buffer) < length:
                return
            body = bytes(self._buffer[_HEADER.size : length])
            del self._buffer[:length]
            yield Message(version, kind, xid, body)


@dataclass(frozen=True, slots=True)
class Request:
    """A request for statistics.

    Args:
        kind: its type, such as OFPMP_TABLE.
        spoken: versions in which it can be made, ascending.
        body: gives its body in a version.
        limit: bytes of the largest reply that is read.
    """

    kind: int
    spoken: tuple[int, ...]
    body: Callable[[int], bytes]
    limit: int


@dataclass(slots=True)
class Reply:
    """What came.

    Args:
        version: that was agreed on.
        parts: records, a message each.
    """

    version: int = 0
    parts: list[bytes] = field(default_factory=list[bytes])


async def exchange(socket: Path, request: Request, *, deadline: float) -> Reply:
    """Send a request to a bridge and collect the reply.

    Args:
        socket: its management socket, `BRIDGE.mgmt` in the run directory.
        request: for it.
        deadline: seconds for all of it.

    Raises:
        SwitchError: UNSUPPORTED when the bridge allows none of the versions, REFUSED, MALFORMED,
            TIMEOUT, or why there is no connection.
    """
    remote = Remote("unix", str(socket))
    transport, session = await connect(
        remote, lambda: _Session(str(remote), request), deadline=deadline
    )
    try:
        await asyncio.wait({session.reply}, timeout=deadline)
        if session.reply.done():
            return session.reply.result()
        raise SwitchError(
            ProducerFault.TIMEOUT, f"{remote}: statistics were not answered within {deadline:g} s"
        )
    finally:
        transport.abort()


class _Session(asyncio.Protocol):
    """Negotiates a version, sends the request, and collects the parts of the reply."""

    _transport: asyncio.Transport

    def __init__(self, peer: str, request: Request) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._peer, self._request = peer, request
        self._messages = Messages(peer)
        self._found = Reply()
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        spoken = self._request.spoken
        bits = sum(1 << version for version in spoken)
        self._send(Message(spoken[-1], _HELLO, 1, _BITMAP.pack(1, _BITMAP.size, bits)))

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._messages.feed(data):
                self._take(message)
        except SwitchError as exc:
            self._fail(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        cause = f": {exc}" if exc else ""
        self._fail(
            SwitchError(ProducerFault.CLOSED, f"{self._peer}: closed before it answered{cause}")
        )

    def _take(self, message: Message) -> None:
        if self.reply.done():
            return
        if message.type == _HELLO:
            self._greet(message)
        elif message.type == _ECHO_REQUEST:
            self._send(Message(message.version, _ECHO_REPLY, message.xid, message.body))
        elif message.type == _ERROR:
            raise SwitchError(*self._refusal(message.body))
        elif (message.type, message.xid) == (self._types[1], _XID):
            self._add(message.body)

    @property
    def _types(self) -> tuple[int, int]:
        """Types of request and reply in the version that was agreed on."""
        if self._found.version == OF10:
            return _STATS_10, _STATS_REPLY_10
        return _MULTIPART, _MULTIPART_REPLY

    @property
    def _start(self) -> int:
        """Where records begin in the body of a message."""
        return _STATS.size + (0 if self._found.version == OF10 else _PADDING)

    def _greet(self, hello: Message) -> None:
        theirs = _versions(hello)
        common = [version for version in self._request.spoken if version in theirs]
        if not common:
            raise SwitchError(ProducerFault.UNSUPPORTED, self._no_version())
        version = self._found.version = common[-1]
        head = _STATS.pack(self._request.kind, 0).ljust(self._start, b"\0")
        self._send(Message(version, self._types[0], _XID, head + self._request.body(version)))

    def _add(self, body: bytes) -> None:
        self._size += max(len(body), _LEAST)
        if len(body) < self._start or _STATS.unpack_from(body)[0] != self._request.kind:
            raise SwitchError(ProducerFault.MALFORMED, f"{self._peer}: statistics of another kind")
        if self._size > self._request.limit:
            raise SwitchError(
                ProducerFault.MALFORMED,
                f"{self._peer}: more than {self._request.limit} bytes of statistics",
            )
        self._found.parts.append(body[self._start :])
        if not _STATS.unpack_from(body)[1] & _MORE:
            self.reply.set_result(self._found)

    def _send(self, message: Message) -> None:
        self._transport.write(message.pack())

    def _fail(self, error: SwitchError) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # its caller may have been cancelled

    def _no_version(self) -> str:
        names = ", ".join(_NAMES[version] for version in self._request.spoken)
        return f"{self._peer}: the bridge allows none of OpenFlow {names}"

    def _refusal(self, body: bytes) -> tuple[ProducerFault, str]:
        kind, code = _STATS.unpack_from(body) if len(body) >= _STATS.size else (-1, -1)
        if kind == _FAILED_HELLO:
            return ProducerFault.UNSUPPORTED, self._no_version()
        return ProducerFault.REFUSED, f"{self._peer}: OpenFlow error of type {kind}, code {code}"


def _versions(hello: Message) -> frozenset[int]:
    """Versions that a peer speaks: by its bitmap, else all up to that of its message."""
    body = hello.body
    while len(body) >= _STATS.size:
        kind, length = _STATS.unpack_from(body)
        if length < _STATS.size:
            break
        if kind == 1 and length >= _BITMAP.size and len(body) >= _BITMAP.size:
            bits = _BITMAP.unpack_from(body)[2]
            return frozenset(version for version in range(32) if bits >> version & 1)
        body = body[(length + 7) // 8 * 8 :]
    return frozenset(range(1, hello.version + 1))
