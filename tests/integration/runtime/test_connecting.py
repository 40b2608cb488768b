"""A name with several addresses: the first that takes a connection is used, and no other kept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from hypercobalt.runtime.client.connecting import connected

pytestmark = pytest.mark.asyncio

NAME = "api.example"


class Listening:
    """A server on some addresses of the loopback interface."""

    def __init__(self, port: int) -> None:
        self.port = port

    def named(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        """Give the addresses to `NAME`."""
        loop = asyncio.get_running_loop()
        resolve = loop.getaddrinfo

        async def resolved(host: str, port: int, *, type: int) -> list[object]:
            assert host == NAME
            found = [await resolve(one, port, type=type) for one in addresses]
            return [one for some in found for one in some]

        monkeypatch.setattr(loop, "getaddrinfo", resolved)


@pytest.fixture
async def server() -> AsyncIterator[Listening]:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield Listening(listening.sockets[0].getsockname()[1])
    listening.close()


async def test_address_that_refuses_is_followed_by_the_next_at_once(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.named(monkeypatch, "127.0.0.2", "127.0.0.1")
    with await connected(NAME, server.port) as made:
        assert made.getpeername() == ("127.0.0.1", server.port)


async def test_address_that_stays_silent_holds_up_the_next_one_for_a_moment(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.2", server.port), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            server.named(monkeypatch, "127.0.0.2", "127.0.0.1")
            with await connected(NAME, server.port) as made:
                assert made.getpeername() == ("127.0.0.1", server.port)
        finally:
            for one in waiting:
                one.close()


async def test_name_of_which_no_address_takes_a_connection_is_an_error_with_all(
    server: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.named(monkeypatch, "127.0.0.2", "127.0.0.3")
    with pytest.raises(OSError, match=r"127\.0\.0\.2.*; .*127\.0\.0\.3"):
        await connected(NAME, server.port)
