"""Attempts to connect that get no answer."""

from __future__ import annotations

import asyncio

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Disconnected
from hypercobalt.adapters.libvirt.reconnect import ConnectionPace


async def test_an_attempt_that_is_never_answered_is_given_up_and_followed_by_another() -> None:
    attempts: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempts.put_nowait(writer)  # and never answer, as a machine that is gone

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pace = ConnectionPace(patience=0.05, patience_to_connect=0.1, longest_attempt=0.2)
    uri = f"qemu+tcp://127.0.0.1:{port}/system"
    async with server, connect(uri, pace=pace) as subject, asyncio.timeout(10):
        events = subject.events()
        first = await attempts.get()
        assert await anext(events) == Disconnected("libvirt has not answered for 0.1 s")
        second = await attempts.get()
        await events.aclose()
        for writer in (first, second):
            writer.close()


async def test_a_closed_port_is_reported_with_libvirts_message() -> None:
    async with connect("qemu+tcp://127.0.0.1:1/system") as subject, asyncio.timeout(10):
        events = subject.events()
        lost = await anext(events)
        await events.aclose()

    assert isinstance(lost, Disconnected)
    assert "unable to connect to server at '127.0.0.1:1'" in lost.reason
