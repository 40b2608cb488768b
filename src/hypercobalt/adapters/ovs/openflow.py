"""How many flows a bridge has, by OpenFlow's table statistics.

One request of 24 bytes gives the flows of all tables in about a millisecond, whatever their number;
a dump of 200,000 flows stalls the switch for seconds. Hidden flows are in no count.

Source: OpenFlow 1.0, section 5.3.5; OpenFlow 1.3.5, sections 7.1, 7.3.5 and 7.5.1; 1.4 and 1.5
leave these messages as they are.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, cast

from hypercobalt.adapters.ovs.model import FlowCounts
from hypercobalt.adapters.ovs.port import Fault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote, connect

OF10, OF13, OF14, OF15 = 1, 4, 5, 6
"""Versions on the wire that are spoken here."""
_SPOKEN: Final = (OF10, OF13, OF14, OF15)
_HEADER: Final = struct.Struct("!BBHI")  # version, type, length, xid
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY = 0, 1, 2, 3
_BITMAP: Final = struct.Struct("!HHI")  # OFPHET_VERSIONBITMAP, length, bits
_STATS: Final = struct.Struct("!HH")  # type, flags
_TABLE, _MORE = 3, 1
_REQUESTS: Final = {OF10: (16, 17)}  # types of stats request and reply; in 1.3 and later:
_MULTIPART: Final = (18, 19)
_RECORD: Final = {
    OF10: struct.Struct("!B3x32xIIIQQ"),  # table, wildcards, max entries, active, lookups, matched
}
_RECORD_13: Final = struct.Struct("!B3xIQQ")  # table, active, lookups, matched
_MAX_MESSAGES: Final = 64
"""Of one reply: 254 tables fit into one message."""
_INCOMPATIBLE, _FAILED_HELLO = 0, 0


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
        """Take bytes; gives the messages that are whole now.

        Raises:
            SwitchError: MALFORMED, for a length that no message has.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            version, kind, length, xid = _HEADER.unpack_from(self._buffer)
            if length < _HEADER.size:
                raise SwitchError(
                    Fault.MALFORMED, f"{self._peer}: an OpenFlow message of {length} bytes"
                )
            if len(self._buffer) < length:
                return
            body = bytes(self._buffer[_HEADER.size : length])
            del self._buffer[:length]
            yield Message(version, kind, xid, body)


async def flow_counts(socket: Path, *, deadline: float) -> FlowCounts:
    """Count the flows of a bridge.

    Args:
        socket: the bridge's management socket, `BRIDGE.mgmt` in the run directory.
        deadline: seconds for all of it.

    Raises:
        SwitchError: UNSUPPORTED when the bridge allows only versions that are not spoken here,
            TIMEOUT, or why there is no connection.
    """
    remote = Remote("unix", str(socket))
    transport, session = await connect(remote, lambda: _Session(str(remote)), deadline=deadline)
    try:
        await asyncio.wait({session.counts}, timeout=deadline)
        if session.counts.done():
            return session.counts.result()
        raise SwitchError(
            Fault.TIMEOUT, f"{remote}: table statistics were not answered within {deadline:g} s"
        )
    finally:
        transport.abort()


class _Session(asyncio.Protocol):
    """Agrees on a version, asks for the statistics of all tables, adds them up."""

    _transport: asyncio.Transport

    def __init__(self, peer: str) -> None:
        self.counts: asyncio.Future[FlowCounts] = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._messages = Messages(peer)
        self._version = 0
        self._replies = 0
        self._tables: dict[int, int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        bits = sum(1 << version for version in _SPOKEN)
        self._send(Message(OF15, _HELLO, 1, _BITMAP.pack(1, _BITMAP.size, bits)))

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._messages.feed(data):
                self._take(message)
        except SwitchError as exc:
            self._fail(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        cause = f": {exc}" if exc else ""
        self._fail(SwitchError(Fault.CLOSED, f"{self._peer}: closed before it answered{cause}"))

    def _take(self, message: Message) -> None:
        if message.type == _HELLO:
            self._greet(message)
        elif message.type == _ECHO_REQUEST:
            self._send(Message(message.version, _ECHO_REPLY, message.xid, message.body))
        elif message.type == _ERROR:
            raise SwitchError(*_refusal(self._peer, message.body))
        elif self._version and message.type == _REQUESTS.get(self._version, _MULTIPART)[1]:
            self._add(message.body)

    def _greet(self, hello: Message) -> None:
        common = [version for version in _SPOKEN if version in _versions(hello)]
        if not common:
            raise SwitchError(
                Fault.UNSUPPORTED,
                f"{self._peer}: the bridge allows no OpenFlow version of 1.0, 1.3, 1.4 and 1.5",
            )
        self._version = common[-1]
        request = _REQUESTS.get(self._version, _MULTIPART)[0]
        padding = b"" if self._version == OF10 else bytes(4)
        self._send(Message(self._version, request, 2, _STATS.pack(_TABLE, 0) + padding))

    def _add(self, body: bytes) -> None:
        self._replies += 1
        start = _STATS.size + (0 if self._version == OF10 else 4)
        record = _RECORD.get(self._version, _RECORD_13)
        if len(body) < start or (len(body) - start) % record.size or self._replies > _MAX_MESSAGES:
            raise SwitchError(Fault.MALFORMED, f"{self._peer}: table statistics cannot be read")
        kind, flags = _STATS.unpack_from(body)
        if kind != _TABLE:
            raise SwitchError(Fault.MALFORMED, f"{self._peer}: statistics of kind {kind}")
        for fields in record.iter_unpack(body[start:]):
            active = fields[-3]
            if active:
                self._tables[fields[0]] = active
        if not flags & _MORE and not self.counts.done():
            tables = dict(sorted(self._tables.items()))
            self.counts.set_result(FlowCounts(sum(tables.values()), tables))

    def _send(self, message: Message) -> None:
        self._transport.write(message.pack())

    def _fail(self, error: SwitchError) -> None:
        if not self.counts.done():
            self.counts.set_exception(error)
            self.counts.exception()  # whoever asked may be gone


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


def _refusal(peer: str, body: bytes) -> tuple[Fault, str]:
    kind, code = _STATS.unpack_from(body) if len(body) >= _STATS.size else (-1, -1)
    if (kind, code) == (_FAILED_HELLO, _INCOMPATIBLE):
        text = body[4:].split(b"\0")[0].decode(errors="replace")
        return Fault.UNSUPPORTED, f"{peer}: no common OpenFlow version: {text}"
    return Fault.REFUSED, f"{peer}: OpenFlow error of type {kind}, code {code}"
