"""Numbers of flows, by table statistics, and the flows of one table.

Statistics of tables give the flows of all tables in about a millisecond, whatever their number; a
dump of 200,000 flows stalls the switch for seconds. So flows themselves are read of one small
table only. Hidden flows are in neither.

Source: OpenFlow 1.0, section 5.3.5; OpenFlow 1.3.5, sections 7.2.3 to 7.2.5, 7.3.5.2 and 7.3.5.4,
which 1.4 leaves as they are; ovs-actions(7), "The clone action"; 1.5 has flows in another form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.model import Flow, FlowCounts, FlowShape
from hypercobalt.adapters.ovs.openflow.wire import OF10, OF13, OF14, OF15, Reply, Request, exchange
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_FLOW, _TABLE = 1, 3
_TABLE_10: Final = struct.Struct("!B3x32xIIIQQ")  # table, wildcards, max, active, lookups, matched
_TABLE_13: Final = struct.Struct("!B3xIQQ")  # table, active, lookups, matched
_TABLES: Final = Request(_TABLE, (OF10, OF13, OF14, OF15), lambda _: b"", 1024 * 1024)
_FLOW_10: Final = struct.Struct("!HBxIH34x8xH4x6xQQ8x")
"""Length, table, wildcards, in_port, priority, cookie, packets; then actions."""
_FLOW_13: Final = struct.Struct("!HBx8xH6x4xQQ8x")
"""Length, table, priority, cookie, packets; then the match and instructions."""
_REQUEST_10: Final = struct.Struct("!I36xBxH")  # wildcards, table, out_port
_REQUEST_13: Final = struct.Struct("!B3xII4xQQHH4x")
"""Table, out_port, out_group, cookie, its mask, and an empty match with its padding."""
_ANY_IN_10, _ALL_WILD_10, _NO_PORT_10 = 1, 0x3FFFFF, 0xFFFF
_ANY: Final = 0xFFFFFFFF
_MATCH: Final = struct.Struct("!HH")  # type, length
_OXM: Final = struct.Struct("!HBB")  # class, field and whether it has a mask, length
_BASIC, _IN_PORT = 0x8000, 0
_OUTPUT: Final = b"\0\0\0\x10"  # type 0, 16 bytes
_WITH_ACTIONS: Final = frozenset({3, 4})  # OFPIT_WRITE_ACTIONS, OFPIT_APPLY_ACTIONS
_OF_ACTIONS: Final = 4  # where actions begin in the body of an instruction
_EXPERIMENTER: Final = 0xFFFF
_RESUBMITS: Final = tuple(
    bytes.fromhex(f"00002320{subtype:04x}")
    for subtype in (1, 14, 44)  # NXAST_RESUBMIT, _TABLE, _TABLE_CT
)
_CONJUNCTION: Final = bytes.fromhex("000023200022")  # NXAST_CONJUNCTION
_OF_PIPELINE: Final = frozenset({2, 38})  # of OpenFlow's class: metadata, tunnel_id
_NXM_0, _NXM_1 = 0, 1  # Nicira's classes; the first has fields of the packet alone
_OF_PACKET: Final = frozenset({*range(17, 31), *range(34, 37)})
"""Fields of the packet in the second class: of ARP, IPv6, ICMPv6, fragments, TTL, TCP flags."""
_CLONE: Final = bytes.fromhex("00002320002a")  # Nicira's, NXAST_CLONE
_OF_CLONE: Final = 12  # where actions begin in its body
_DEEPEST: Final = 100  # actions within each other
_ONE_MESSAGE: Final = 65536
_BYTES_A_FLOW: Final = 512
"""More than a flow of OVN takes, however long its actions."""


async def flow_counts(socket: Path, *, deadline: float) -> FlowCounts:
    """Count the flows of a bridge.

    Raises:
        SwitchError: see `wire.exchange`.
    """
    reply = await exchange(socket, _TABLES, deadline=deadline)
    record = _TABLE_10 if reply.version == OF10 else _TABLE_13
    tables: dict[int, int] = {}
    for part in reply.parts:
        if len(part) % record.size:
            raise SwitchError(ProducerFault.MALFORMED, f"{socket}: table statistics cannot be read")
        for fields in record.iter_unpack(part):
            if active := fields[-3]:
                tables[fields[0]] = active
    return FlowCounts(sum(tables.values()), dict(sorted(tables.items())))


async def flows(socket: Path, table: int, *, limit: int, deadline: float) -> tuple[Flow, ...]:
    """Read the flows of one table, unless there are too many.

    The switch puts its answer together before it does anything else: 300 ms for 200,000 flows. So
    they are counted first.

    Args:
        socket: the bridge's management socket.
        table: its number.
        limit: of flows.
        deadline: seconds for each of the two answers.

    Raises:
        SwitchError: MALFORMED also for more flows than the limit, UNSUPPORTED also for a bridge
            that allows OpenFlow 1.5 alone; see `wire.exchange`.
    """

    def body(version: int) -> bytes:
        if version == OF10:
            return _REQUEST_10.pack(_ALL_WILD_10, table, _NO_PORT_10)
        return _REQUEST_13.pack(table, _ANY, _ANY, 0, 0, 1, _MATCH.size)

    count = (await flow_counts(socket, deadline=deadline)).tables
    _check_limit(socket, table, count.get(table, 0), limit)
    request = Request(_FLOW, (OF10, OF13, OF14), body, _ONE_MESSAGE + limit * _BYTES_A_FLOW)
    reply = await exchange(socket, request, deadline=deadline)
    try:
        found = tuple(_flows(reply))
    except (struct.error, ValueError) as exc:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{socket}: flows cannot be read: {exc}"
        ) from exc
    _check_limit(socket, table, len(found), limit)
    return found


def _check_limit(socket: Path, table: int, count: int, limit: int) -> None:
    if count > limit:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{socket}: table {table} has {count} flows, more than {limit}"
        )


def _flows(reply: Reply) -> Iterator[Flow]:
    for part in reply.parts:
        while part:
            record = part[: struct.unpack_from("!H", part)[0]]
            if not record:
                raise ValueError("a flow of 0 bytes")
            yield _flow_10(record) if reply.version == OF10 else _flow_13(record)
            part = part[len(record) :]  # noqa: PLW2901 - what is left of it


def _flow_10(record: bytes) -> Flow:
    _, table, wild, in_port, priority, cookie, packets = _FLOW_10.unpack_from(record)
    return Flow(table, cookie, priority, packets, None if wild & _ANY_IN_10 else in_port)


def _flow_13(record: bytes) -> Flow:
    _, table, priority, cookie, packets = _FLOW_13.unpack_from(record)
    _, length = _MATCH.unpack_from(record, _FLOW_13.size)
    match = record[_FLOW_13.size + _MATCH.size : _FLOW_13.size + length]
    outputs: tuple[int, ...] = ()
    instructions = record[_FLOW_13.size + (length + 7) // 8 * 8 :]
    if _OUTPUT in instructions:  # most flows of OVN have none: actions are walked where one may be
        outputs = tuple(_outputs(instructions))
    in_port, pipeline = _match(match)
    shape = _shape(
        pipeline,
        bool(instructions.strip(b"\0")),
        any(one in instructions for one in _RESUBMITS),
        _CONJUNCTION in instructions,
    )
    return Flow(table, cookie, priority, packets, in_port, outputs, shape)


@lru_cache(16)
def _shape(pipeline: bool, acts: bool, resubmits: bool, joins: bool) -> FlowShape:
    return FlowShape(pipeline, acts, resubmits, joins)  # one for many flows


def _outputs(instructions: bytes) -> Iterator[int]:
    for kind, body in _parts(instructions):
        if kind in _WITH_ACTIONS:
            yield from _ports(body[_OF_ACTIONS:])


def _ports(actions: bytes, depth: int = 0) -> Iterator[int]:
    if depth > _DEEPEST:
        raise ValueError("its actions are nested too deep")
    for kind, body in _parts(actions):
        if kind == 0:
            yield struct.unpack_from("!I", body)[0]
        elif kind == _EXPERIMENTER and body.startswith(_CLONE):
            yield from _ports(body[_OF_CLONE:], depth + 1)


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Types and bodies of instructions or actions, which all begin with type and length."""
    while len(data) >= _MATCH.size:
        kind, length = _MATCH.unpack_from(data)
        if length < _MATCH.size:
            return  # padding
        yield kind, data[_MATCH.size : length]
        data = data[length:]


def _match(match: bytes) -> tuple[int | None, bool]:
    """The port that a flow matches, and whether it matches what an earlier table has set."""
    in_port: int | None = None
    pipeline = False
    while match:
        group, kind, length = _OXM.unpack_from(match)
        field = kind >> 1
        if (group, field) == (_BASIC, _IN_PORT):
            (in_port,) = struct.unpack_from("!I", match, _OXM.size)
        elif group == _BASIC:
            pipeline = pipeline or field in _OF_PIPELINE
        elif group == _NXM_1:
            pipeline = pipeline or field not in _OF_PACKET
        elif group != _NXM_0:
            pipeline = True  # registers, and what others define
        match = match[_OXM.size + length :]
    return in_port, pipeline
