"""What the kernel does about the peer of a session that lasts for hours."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hypercobalt.runtime import long_lived

PATIENCE = (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


@pytest.mark.parametrize("impatient", [True, False])
async def test_peer_may_read_late_and_its_machine_may_not_vanish(*, impatient: bool) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    found = writer.get_extra_info("socket")
    found.setsockopt(*PATIENCE, 1000 if impatient else 0)
    long_lived.keep(writer)
    assert found.getsockopt(*PATIENCE) == 0
    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == long_lived.IDLE_SECONDS
    writer.close()
    server.close()


async def test_socket_of_one_machine_is_left_as_it_is() -> None:
    left, right = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=left)
    long_lived.keep(writer)
    writer.close()
    right.close()
