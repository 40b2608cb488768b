"""Where a daemon of Open vSwitch or OVN listens, and how a failed connection to it is reported.

Source: ovsdb(7), "Connection Methods"; connect(2).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.errors import ConfigurationError

_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)
_PORT: Final = re.compile("[0-9]{1,5}")
_LAST_PORT: Final = 65535
_SHOWN: Final = 200  # characters of a remote in a message


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a server listens: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`."""

    kind: str
    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.host}" + (f":{self.port}" if self.port else "")


def parse_remotes(text: str) -> tuple[Remote, ...]:
    """Read remotes as OVN's own commands take them, with commas between the servers of a cluster.

    Raises:
        ConfigurationError: one has another form.
    """
    return tuple(_remote(part.strip()) for part in text.split(","))


async def connect(
    remote: Remote,
    protocol: Callable[[], _Protocol],
    *,
    deadline: float,
    tls: ssl.SSLContext | None = None,
) -> tuple[asyncio.Transport, _Protocol]:
    """Connect to a server.

    Args:
        remote: of it.
        protocol: makes what handles the connection.
        deadline: seconds for the connection, TLS included.
        tls: for an `ssl` remote.

    Raises:
        SwitchError: SOCKET_MISSING, CONNECTION_REFUSED, NOT_PERMITTED, TIMEOUT, or CLOSED for any
            other cause.
    """
    try:
        async with asyncio.timeout(deadline):
            return await _connection(remote, protocol, tls)
    except BlockingIOError as exc:
        raise SwitchError(
            ProducerFault.TIMEOUT,
            f"{remote}: accepts no connection, and its queue is full",
        ) from exc
    except TimeoutError as exc:
        raise SwitchError(
            ProducerFault.TIMEOUT, f"{remote}: no connection within {deadline:g} s"
        ) from exc
    except OSError as exc:
        raise SwitchError(_fault(exc), f"{remote}: {exc.strerror or exc}") from exc
    except ValueError as exc:  # such as a name with two dots in a row
        raise SwitchError(
            ProducerFault.CLOSED, f"{remote}: no host can have this name: {exc}"
        ) from exc


async def _connection(
    remote: Remote, protocol: Callable[[], _Protocol], tls: ssl.SSLContext | None
) -> tuple[asyncio.Transport, _Protocol]:
    loop = asyncio.get_running_loop()
    if remote.kind == "unix":
        return await loop.create_unix_connection(protocol, sock=_unix_socket(remote.host))
    context = tls if remote.kind == "ssl" else None
    return await loop.create_connection(protocol, remote.host, remote.port, ssl=context)


def _unix_socket(path: str) -> socket.socket:
    """Connect without waiting: EAGAIN is a full queue, which asyncio takes for a connection."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def _fault(error: OSError) -> ProducerFault:
    if isinstance(error, FileNotFoundError):
        return ProducerFault.SOCKET_MISSING
    if isinstance(error, ConnectionRefusedError):
        return ProducerFault.CONNECTION_REFUSED
    if isinstance(error, PermissionError):
        return ProducerFault.NOT_PERMITTED
    return ProducerFault.CLOSED


def _remote(text: str) -> Remote:
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest.startswith("/"):
        return Remote(kind, rest)
    host, _, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if kind in {"tcp", "ssl"} and host and _PORT.fullmatch(port) and int(port) <= _LAST_PORT:
        return Remote(kind, host, int(port))
    raise ConfigurationError(
        f"OVN remote {text[:_SHOWN]!r} must look like unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT"
    )
