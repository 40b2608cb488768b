"""Calls, events and keepalive over one connection, against a daemon that is made up."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.adapters.libvirt.made_up import MadeUpDaemon, connected, error, made_up

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.rpc import event_types, protocol
from hypercobalt.adapters.libvirt.rpc.client import PLACES, Client
from hypercobalt.adapters.libvirt.rpc.errors import (
    ClosedError,
    NotSupportedError,
    RemoteError,
    XdrError,
)
from hypercobalt.adapters.libvirt.rpc.framing import Frames, Message, MessageKind, Status
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import Procedure, Void
from hypercobalt.adapters.libvirt.rpc.transport import connect
from hypercobalt.adapters.libvirt.rpc.xdr import codec

VERSION = protocol.GET_LIB_VERSION
TYPE = protocol.GET_TYPE
NINE = protocol.Version(9_000_000)


@pytest.fixture
async def both() -> AsyncIterator[tuple[MadeUpDaemon, Client]]:
    async with connected() as found:
        yield found


Both = tuple[MadeUpDaemon, Client]


async def test_answers_arrive_byte_by_byte(both: Both) -> None:
    daemon, client = both
    daemon.piece = 1
    daemon.answers[VERSION.number] = NINE

    assert await client.call(VERSION, Void()) == NINE


async def test_answers_find_their_calls_in_any_order(both: Both) -> None:
    daemon, client = both
    first = asyncio.create_task(client.call(VERSION, Void()))
    second = asyncio.create_task(client.call(TYPE, Void()))
    await daemon.until(lambda: bool(daemon.of(VERSION) and daemon.of(TYPE)))
    daemon.answer(daemon.of(TYPE)[0], protocol.Text("QEMU"))
    daemon.answer(daemon.of(VERSION)[0], NINE)

    assert (await first, await second) == (NINE, protocol.Text("QEMU"))


async def test_a_refusal_has_libvirts_message_code_domain_and_level(both: Both) -> None:
    daemon, client = both
    daemon.answers[TYPE.number] = error(ErrorCode.NO_DOMAIN, "Domain not found")
    with pytest.raises(RemoteError, match="Domain not found") as refused:
        await client.call(TYPE, Void())

    assert (refused.value.code, refused.value.domain, refused.value.level) == (42, 10, 2)
    assert not isinstance(refused.value, NotSupportedError)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.NO_SUPPORT, "this function is not supported by the connection driver"),
        (ErrorCode.RPC, f"unknown procedure: {TYPE.number}"),
    ],
)
async def test_procedure_that_the_daemon_lacks_is_not_supported(
    both: Both, code: int, message: str
) -> None:
    daemon, client = both
    daemon.answers[TYPE.number] = error(code, message)
    with pytest.raises(NotSupportedError):
        await client.call(TYPE, Void())


async def test_a_call_that_is_given_up_keeps_its_place_and_its_late_answer_is_dropped(
    both: Both,
) -> None:
    daemon, client = both
    stuck = [asyncio.create_task(client.call(TYPE, Void())) for _ in range(PLACES)]
    await daemon.until(lambda: len(daemon.of(TYPE)) == PLACES)
    for one in stuck:
        one.cancel()
    waiting = asyncio.create_task(client.call(VERSION, Void()))
    answered = asyncio.Event()
    client.check(answered.set)  # takes no place
    await daemon.until(lambda: len(daemon.of(VERSION)) == 1)

    daemon.answer(daemon.of(TYPE)[0], protocol.Text("QEMU"))
    await daemon.until(lambda: len(daemon.of(VERSION)) == 2)
    check, call = daemon.of(VERSION)
    daemon.answer(call, NINE)
    assert await waiting == NINE
    assert not answered.is_set()

    daemon.answer(check, NINE)
    async with asyncio.timeout(10):
        await answered.wait()


async def test_the_end_of_the_connection_ends_calls_under_way_and_waiting_ones(
    both: Both,
) -> None:
    daemon, client = both
    calls = [asyncio.create_task(client.call(TYPE, Void())) for _ in range(PLACES + 2)]
    await daemon.until(lambda: len(daemon.of(TYPE)) == PLACES)
    daemon.hang_up()

    for one in calls:
        with pytest.raises(ClosedError, match="libvirt closed the connection"):
            await one
    with pytest.raises(ClosedError):
        await client.call(VERSION, Void())


async def test_a_value_that_does_not_fit_leaves_the_connection_as_it_is(both: Both) -> None:
    daemon, client = both
    daemon.answers[VERSION.number] = NINE
    for _ in range(PLACES + 1):
        with pytest.raises(XdrError):
            await client.call(protocol.SUPPORTS_FEATURE, protocol.Number(2**40))

    assert await client.call(VERSION, Void()) == NINE


GARBAGE = Message(protocol.REMOTE, 1, VERSION.number, MessageKind.REPLY, 77, Status.OK, b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GARBAGE.pack(), "an answer to call 77, which was never made"),
        (GARBAGE._replace(version=2).pack(), "version 2 of program 0x20008086"),
        (GARBAGE._replace(kind=3).pack(), "a message of kind 3"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a message of 1213486160 bytes"),
    ],
)
async def test_garbage_ends_the_connection_with_its_name(
    both: Both, data: bytes, reason: str
) -> None:
    daemon, client = both
    daemon.write(data)

    assert reason in await client.closed


async def test_a_check_answered_by_another_procedure_ends_the_connection(both: Both) -> None:
    daemon, client = both
    answered = asyncio.Event()
    client.check(answered.set)
    await daemon.until(lambda: bool(daemon.of(VERSION)))
    daemon.send(daemon.of(VERSION)[0]._replace(kind=MessageKind.REPLY, procedure=4))

    assert "procedure 4 answers 157" in await client.closed
    assert not answered.is_set()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"procedure": 4}, "procedure 4 answers 157"),
        ({"status": 2}, "an answer of status 2"),
        ({"payload": b"1234"}, r"Version.version: 8 bytes announced, 4 left"),
    ],
)
async def test_an_answer_that_makes_no_sense_ends_the_connection(
    both: Both, change: dict[str, Any], reason: str
) -> None:
    daemon, client = both
    call = asyncio.create_task(client.call(VERSION, Void()))
    await daemon.until(lambda: bool(daemon.of(VERSION)))
    answer = daemon.of(VERSION)[0]._replace(kind=MessageKind.REPLY, payload=bytes(8))
    daemon.send(answer._replace(**change))

    with pytest.raises(ClosedError, match=reason):
        await call


async def test_events_reach_their_listener_and_others_are_dropped(both: Both) -> None:
    daemon, client = both
    received: asyncio.Queue[event_types.PairEvent] = asyncio.Queue()
    client.listen(
        event_types.LIFECYCLE,
        lambda data: received.put_nowait(codec(event_types.PairEvent).decode(data)),
    )
    sent = event_types.PairEvent(0, protocol.DomainRef("a", bytes(16), 1), 2, 0)
    payload = codec(event_types.PairEvent).encode(sent)
    event = Message(protocol.REMOTE, 1, 318, MessageKind.EVENT, 0, Status.OK, payload)
    daemon.send(event._replace(procedure=319))
    daemon.send(event)

    assert await received.get() == sent
    assert received.empty()


async def test_a_ping_is_answered(both: Both) -> None:
    daemon, _ = both
    daemon.send(Message(protocol.KEEPALIVE, 1, protocol.PING, MessageKind.EVENT, 0, Status.OK, b""))
    await daemon.until(lambda: daemon.calls[-1].program == protocol.KEEPALIVE)

    pong = daemon.calls[-1]
    assert (pong.procedure, pong.kind, pong.serial) == (protocol.PONG, MessageKind.EVENT, 0)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({protocol.AUTH_LIST: protocol.Types((1,))}, r'auth_tcp or auth_tls to "none"'),
        (
            {protocol.OPEN: error(ErrorCode.SYSTEM_ERROR, "no such driver")},
            "libvirt refuses qemu:///system: no such driver",
        ),
        (
            {
                protocol.AUTH_LIST: protocol.Types((2,)),
                protocol.AUTH_POLKIT: error(ErrorCode.SYSTEM_ERROR, "not authorized"),
            },
            "libvirt refuses qemu:///system: not authorized",
        ),
    ],
    ids=["sasl", "no driver", "polkit"],
)
async def test_daemon_that_refuses_the_connection_is_named(
    answers: dict[Procedure[Any, Any], tuple[Any, ...]], reason: str
) -> None:
    async with made_up() as daemon:
        daemon.answers |= {procedure.number: answer for procedure, answer in answers.items()}
        with pytest.raises(ClosedError, match=reason):
            await connect(uri.parse(daemon.uri))


async def test_polkit_is_called_where_the_daemon_requires_it() -> None:
    async with made_up() as daemon:
        daemon.answers[protocol.AUTH_LIST.number] = protocol.Types((2,))
        daemon.answers[protocol.AUTH_POLKIT.number] = protocol.Number(1)
        client = await connect(uri.parse(daemon.uri))
        assert len(daemon.of(protocol.AUTH_POLKIT)) == 1
        client.close()


async def test_a_socket_without_a_listener_is_named() -> None:
    with pytest.raises(ClosedError, match="unable to connect to socket '/nowhere': No such file"):
        await connect(uri.parse("qemu+unix:///system?socket=/nowhere"))


@pytest.mark.looptime
async def test_a_daemon_that_is_silent_for_half_a_minute_is_gone() -> None:
    client, transport = Client(), Recorder()
    client.connection_made(transport)
    client.keep_alive()
    began = asyncio.get_running_loop().time()

    assert await client.closed == "libvirt did not answer keepalive messages"
    assert asyncio.get_running_loop().time() - began == 30
    assert [one.procedure for one in transport.written] == [protocol.PING] * 2


async def test_a_connection_given_up_before_it_is_accepted_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client(verdict=True)
    client.connection_made(Recorder())
    client.close()
    del client
    gc.collect()

    assert caplog.records == []


class Recorder(asyncio.Transport):
    """Records the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Message] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += Frames().feed(bytes(data))

    def abort(self) -> None: ...
