from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.adapters.ovs.scripted import Serve, served, silent

from hypercobalt.adapters.ovs.model import FlowCounts
from hypercobalt.adapters.ovs.openflow.statistics import flow_counts, flows
from hypercobalt.adapters.ovs.openflow.wire import Message, Messages
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

HELLO, ERROR, ECHO, ECHO_REPLY = 0, 1, 2, 3
DEADLINE = 5.0
TABLE_STATISTICS = 3


def hello(version: int, *versions: int) -> Message:
    bits = sum(1 << one for one in versions)
    return Message(version, HELLO, 1, struct.pack("!HHI", 1, 8, bits) if versions else b"")


def tables(version: int, flows: dict[int, int], *, more: bool = False) -> Message:
    if version == 1:
        records = [struct.pack("!B3x32sIIIQQ", n, b"t", 0, 9, c, 7, 8) for n, c in flows.items()]
        return Message(1, 17, 2, struct.pack("!HH", 3, more) + b"".join(records))
    records = [struct.pack("!B3xIQQ", number, count, 7, 8) for number, count in flows.items()]
    return Message(version, 19, 2, struct.pack("!HH4x", 3, more) + b"".join(records))


def switch(*script: Message | Sequence[Message], size: int = 65536) -> Serve:
    """Answer each message of the other side with the next entry, cut into pieces of a size."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = Messages("agent")
        for entry in script:
            while not list(messages.feed(await reader.read(65536))):
                pass
            answers = [entry] if isinstance(entry, Message) else entry
            whole = b"".join(one.pack() for one in answers)
            for start in range(0, len(whole), size):
                writer.write(whole[start : start + size])
                await writer.drain()
                await asyncio.sleep(0)
        await reader.read()

    return serve


async def count(path: Path, serve: Serve, deadline: float = DEADLINE) -> FlowCounts:
    async with served(path / "br-int.mgmt", serve) as socket:
        return await flow_counts(socket, deadline=deadline)


@pytest.mark.parametrize("version", [1, 4, 5, 6])
@pytest.mark.parametrize("size", [1, 7, 65536])
async def test_flows_are_counted_by_table_in_each_version(
    tmp_path: Path, version: int, size: int
) -> None:
    serve = switch(hello(6, version), tables(version, {0: 2, 1: 0, 65: 200_000}), size=size)
    assert await count(tmp_path, serve) == FlowCounts(200_002, {0: 2, 65: 200_000})


async def test_a_switch_without_a_bitmap_speaks_its_version_and_those_before(
    tmp_path: Path,
) -> None:
    assert (await count(tmp_path, switch(hello(4), tables(4, {0: 3})))).total == 3


async def test_a_reply_in_several_messages_is_added_up(tmp_path: Path) -> None:
    parts = [tables(6, {0: 1}, more=True), tables(6, {1: 2})]
    assert (await count(tmp_path, switch(hello(6, 6), parts))).total == 3


async def test_an_echo_of_the_switch_is_answered(tmp_path: Path) -> None:
    received: list[Message] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(hello(6, 6).pack() + Message(6, ECHO, 99, b"alive?").pack())
        messages = Messages("agent")
        while Message(6, ECHO_REPLY, 99, b"alive?") not in received:
            received.extend(messages.feed(await reader.read(65536)))
        writer.write(tables(6, {0: 1}).pack())
        await reader.read()

    assert (await count(tmp_path, serve)).total == 1


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        pytest.param([hello(3, 2, 3)], ProducerFault.UNSUPPORTED, id="only-1.1-and-1.2"),
        pytest.param(
            [Message(6, ERROR, 1, struct.pack("!HH", 0, 0) + b"no\0")],
            ProducerFault.UNSUPPORTED,
            id="hello-refused",
        ),
        pytest.param(
            [hello(6, 6), Message(6, ERROR, 2, struct.pack("!HH", 1, 2))],
            ProducerFault.REFUSED,
            id="error",
        ),
        pytest.param(
            [hello(6, 6), Message(6, 19, 2, b"\0\3\0\0\0\0\0\0" + b"x" * 23)],
            ProducerFault.MALFORMED,
            id="half-a-record",
        ),
        pytest.param([hello(6, 6), Message(6, 19, 2, b"")], ProducerFault.MALFORMED, id="empty"),
        pytest.param(
            [hello(6, 6), [tables(6, {0: 1}, more=True)] * 65],
            ProducerFault.MALFORMED,
            id="without-end",
        ),
    ],
)
async def test_flows_that_cannot_be_counted_are_reported(
    tmp_path: Path, script: list[Message | Sequence[Message]], fault: ProducerFault
) -> None:
    with pytest.raises(SwitchError, match=r"br-int\.mgmt") as failed:
        await count(tmp_path, switch(*script))
    assert failed.value.fault is fault


async def test_a_silent_switch_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SwitchError, match=r"within 0\.05 s") as failed:
        await count(tmp_path, silent, deadline=0.05)
    assert failed.value.fault is ProducerFault.TIMEOUT


async def test_a_switch_that_closes_is_reported(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(8)

    with pytest.raises(SwitchError, match="closed before") as failed:
        await count(tmp_path, serve)
    assert failed.value.fault is ProducerFault.CLOSED


async def test_another_protocol_is_reported(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0" * 64)
        await reader.read()

    with pytest.raises(SwitchError) as failed:
        await count(tmp_path, serve)
    assert failed.value.fault is ProducerFault.MALFORMED


async def test_flows_of_a_table_beyond_the_limit_are_not_requested(tmp_path: Path) -> None:
    requested: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = Messages("agent")
        while data := await reader.read(65536):
            for one in messages.feed(data):
                if one.type == HELLO:
                    writer.write(hello(5, 5).pack())
                else:
                    requested.append(struct.unpack_from("!H", one.body)[0])
                    writer.write(tables(5, {0: 200_000, 8: 3}).pack())

    async with served(tmp_path / "br-int.mgmt", serve) as socket:
        with pytest.raises(SwitchError, match=r"table 0 has 200000 flows, more than 9") as failed:
            await flows(socket, 0, limit=9, deadline=DEADLINE)
    assert failed.value.fault is ProducerFault.MALFORMED
    assert requested == [TABLE_STATISTICS]


def cloned(levels: int) -> bytes:
    """A flow with an output that is nested into actions `clone`."""
    actions = struct.pack("!HHIH6x", 0, 16, 7, 0)
    for _ in range(levels):
        actions = struct.pack("!HHIH6x", 0xFFFF, 16 + len(actions), 0x2320, 42) + actions
    instruction = struct.pack("!HH4x", 4, 8 + len(actions)) + actions
    flow = struct.pack("!B33xQQQ", 0, 0, 0, 0)[:46] + struct.pack("!HH4x", 1, 4) + instruction
    return struct.pack("!H", 2 + len(flow)) + flow


@pytest.mark.parametrize(("levels", "outputs"), [(0, (7,)), (1, (7,)), (64, (7,)), (4000, None)])
async def test_outputs_are_found_in_nested_actions_that_have_an_end(
    tmp_path: Path, levels: int, outputs: tuple[int, ...] | None
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = Messages("agent")
        while data := await reader.read(65536):
            for one in messages.feed(data):
                if one.type == HELLO:
                    writer.write(hello(5, 5).pack())
                elif struct.unpack_from("!H", one.body)[0] == TABLE_STATISTICS:
                    writer.write(tables(5, {0: 1}).pack())
                else:
                    body = struct.pack("!HH4x", 1, 0) + cloned(levels)
                    writer.write(Message(5, 19, 2, body).pack())

    async with served(tmp_path / "br-int.mgmt", serve) as socket:
        if outputs is None:
            with pytest.raises(SwitchError, match="nested too deep") as failed:
                await flows(socket, 0, limit=9, deadline=DEADLINE)
            assert failed.value.fault is ProducerFault.MALFORMED
        else:
            (found,) = await flows(socket, 0, limit=9, deadline=DEADLINE)
            assert found.outputs == outputs


@given(st.binary(), st.integers(1, 9))
def test_any_bytes_are_framed_or_refused(data: bytes, size: int) -> None:
    messages = Messages("switch")
    try:
        found = [m for i in range(0, len(data), size) for m in messages.feed(data[i : i + size])]
    except SwitchError:
        return
    assert data.startswith(b"".join(one.pack() for one in found))
