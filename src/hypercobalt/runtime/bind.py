"""Sockets that listen on an address of this machine.

Source: asyncio's `create_server`, which takes every address of a host; tcp(7).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from hypercobalt.errors import ConfigurationError

_BACKLOG: Final = 1024
STALLED_SECONDS: Final = 60  # a client whose system confirms nothing for so long is gone
_NOT_HERE: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


async def listening(host: str, port: int) -> tuple[socket.socket, ...]:
    """Sockets that listen on every address of a host, on one port.

    Args:
        host: a name or an address; "" means all addresses.
        port: of TCP; 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    sockets = list[socket.socket]()
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            taken = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(_listening(family, (address[0], taken, *address[2:])))
            except OSError as error:  # of a family that this machine has switched off
                if error.errno not in _NOT_HERE or len(found) == 1:
                    raise
    except (OSError, OverflowError) as error:
        for one in sockets:
            one.close()
        raise _not_had(host, port, error) from error
    if not sockets:
        raise ConfigurationError(f"cannot listen on {host}:{port}: no such address here")
    return tuple(sockets)


def _not_had(host: str, port: int, error: OSError | OverflowError) -> ConfigurationError:
    number = error.errno or 0 if isinstance(error, OSError) else 0
    why = os.strerror(number) if number > 0 else str(error)
    return ConfigurationError(f"cannot listen on {host}:{port}: {why}")


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # for TCP_NODELAY
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these: clients that vanish or never read are cut off.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, STALLED_SECONDS)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(address)
        taken.listen(_BACKLOG)
    except BaseException:
        taken.close()
        raise
    return taken
