"""A socket that floods, carried to a websocket over TLS: memory, idleness, a second person."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.apiserver.conftest import no_check
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api.address import Address
from hypercobalt.launch import own_certificate
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.relay import Seats, StreamBytes, carry
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, Upgrade
from hypercobalt.runtime.websocket import new_key, upgraded
from hypercobalt.runtime.websocket_bytes import WebSocketBytes

PROTOCOL, PATH = "plain.kubevirt.io", "/console"
DEADLINE = 20.0


class Guest:
    """A serial port: it sends what the test wants, and keeps what it gets."""

    def __init__(self) -> None:
        self.got, self.writers = bytearray(), list[asyncio.StreamWriter]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(4096):
                self.got += data
        self.writers.remove(writer)
        writer.close()


@pytest.fixture
async def guest(tmp_path: Path) -> AsyncIterator[Guest]:
    made = Guest()
    server = await asyncio.start_unix_server(made.serve, tmp_path / "virt-serial0")
    yield made
    server.close()


@pytest.fixture
def stalled_after(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds without a confirmation after which a listener gives up ordinary clients."""
    monkeypatch.setattr("hypercobalt.runtime.bind.STALLED_SECONDS", 1)
    return 1.0


@pytest.fixture
async def port(tmp_path: Path, guest: Guest) -> AsyncIterator[int]:
    seats = Seats()

    async def console(request: Request) -> Answer | Upgrade:
        head = upgraded(request, PROTOCOL)
        if isinstance(head, Answer):
            return head
        who = request.requester.user if request.requester else ""

        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            person = WebSocketBytes(reader, writer, is_server=True)
            async with seats.take("vm", who) as seat:
                source = await asyncio.open_unix_connection(tmp_path / "virt-serial0")
                try:
                    end = await carry(StreamBytes(*source), person, seat)
                finally:
                    source[1].close()
            await person.close(reason=end.value)

        return Upgrade(head, run)

    async def admits(request: Request, _: Route | None) -> Requester:
        return Requester(request.token)

    guard = Guard(ListenerTls(own_certificate()).context, admits)
    pages = Endpoints(Address("127.0.0.1", 0), routes=[Route(PATH, console)], guard=guard)
    yield (await pages.start()).port
    await pages.stop()


@contextlib.asynccontextmanager
async def session(port: int, who: str) -> AsyncIterator[WebSocketBytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=no_check())
    lines = (
        f"GET {PATH} HTTP/1.1",
        "Host: a",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {new_key()}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {PROTOCOL}",
        f"Authorization: Bearer {who}",
        "\r\n",
    )
    writer.write("\r\n".join(lines).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    try:
        yield WebSocketBytes(reader, writer, is_server=False)
    finally:
        writer.close()


async def until(person: WebSocketBytes, wanted: bytes) -> bytes:
    """What is shown, up to some bytes, or to the end."""
    found = b""
    async with asyncio.timeout(DEADLINE):
        while wanted not in found:
            data = await person.read()
            if not data:
                break
            found = found[-200:] + data
    return found


async def test_person_types_and_reads(port: int, guest: Guest) -> None:
    async with session(port, "alice") as person:
        await eventually(lambda: bool(guest.writers))
        guest.writers[0].write(b"login: ")
        assert await until(person, b"login: ") == b"login: "
        await person.write(b"root\n")
        await eventually(lambda: guest.got == b"root\n")
    await eventually(lambda: not guest.writers)


async def test_guest_that_ends_closes_with_that_reason(port: int, guest: Guest) -> None:
    async with session(port, "alice") as person:
        await eventually(lambda: bool(guest.writers))
        guest.writers[0].write(b"System halted")
        guest.writers[0].close()
        assert await until(person, b"\0") == b"System halted"
        assert person.reason == "source-ended"


async def test_flood_delays_no_reader_and_ends_no_session(port: int, guest: Guest) -> None:
    async with session(port, "alice") as person:
        await eventually(lambda: bool(guest.writers))
        for _ in range(64):  # the guest is never made to wait for a person that reads nothing
            guest.writers[0].write(b"x" * 2**20)
            async with asyncio.timeout(DEADLINE):
                await guest.writers[0].drain()
        guest.writers[0].write(b"the end")
        assert b"the end" in await until(person, b"the end")
        await person.write(b"still here")
        await eventually(lambda: guest.got == b"still here")


async def test_person_who_stops_the_output_for_long_keeps_the_session(
    stalled_after: float, port: int, guest: Guest
) -> None:
    async with session(port, "alice") as person:
        await eventually(lambda: bool(guest.writers))
        began = time.monotonic()
        while time.monotonic() - began < 5 * stalled_after:  # in which the person reads nothing
            guest.writers[0].write(b"x" * 2**20)
            async with asyncio.timeout(DEADLINE):
                await guest.writers[0].drain()
            assert guest.writers, "the session was ended"
            await asyncio.sleep(0.05)  # a guest that writes on and on, not as fast as it can
        guest.writers[0].write(b"the end")
        assert b"the end" in await until(person, b"the end")
        await person.write(b"still here")
        await eventually(lambda: guest.got == b"still here")


async def test_second_person_takes_over_and_the_first_sees_their_name(
    port: int, guest: Guest
) -> None:
    async with session(port, "alice") as first:
        await eventually(lambda: bool(guest.writers))
        async with session(port, "bob") as second:
            assert b"taken over by bob" in await until(first, b"\0")
            assert first.reason == "taken-over"
            await eventually(lambda: len(guest.writers) == 1)
            await second.write(b"mine")
            await eventually(lambda: guest.got == b"mine")


async def test_what_is_no_websocket_is_refused_and_ends_nothing(port: int, guest: Guest) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=no_check())
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    async with session(port, "alice") as person:
        await eventually(lambda: bool(guest.writers))
        person._writer.write(b"\xff" * 100)
        assert await until(person, b"\0") == b""
        assert "no such frame" in person.reason
    await eventually(lambda: not guest.writers)
