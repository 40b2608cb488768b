"""Connects to the first address of a host that takes a connection.

asyncio does that as well (`happy_eyeballs_delay`), but loses a connected socket when its caller is
cancelled just then: the socket stays open until the garbage collector finds it. Here whatever has
been opened is closed, but for the one that is returned.

Source: RFC 8305; `staggered_race` of Python 3.11 to 3.13.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

_OTHER_ADDRESS: Final = 0.25  # seconds until the next address of a name is tried as well


_Attempt: TypeAlias = "asyncio.Task[socket.socket]"


class _Address(NamedTuple):
    """As getaddrinfo returns it."""

    family: int
    type: int
    protocol: int
    name: str
    where: tuple[object, ...]


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to a host.

    Raises:
        OSError: the host has no address, or none takes a connection.
    """
    opened = list[socket.socket]()
    try:
        winner = await _first(await _addresses(host, port), opened)
        opened.remove(winner)
    finally:
        for one in opened:
            one.close()
    return winner


async def _addresses(host: str, port: int) -> Sequence[_Address]:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [_Address(*one) for one in found]
    family = socket.AF_INET if version == 4 else socket.AF_INET6  # noqa: PLR2004
    return [_Address(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


async def _first(addresses: Sequence[_Address], opened: list[socket.socket]) -> socket.socket:
    """Try one address after the other, each a moment after the one before."""
    waiting, errors = list(addresses), list[OSError]()
    running = set[_Attempt]()
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_attempt(waiting.pop(0), opened)))
            timeout = _OTHER_ADDRESS if waiting else None
            done, running = await asyncio.wait(
                running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if (found := next(_taken(done, errors), None)) is not None:
                return found
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    if len(errors) == 1:
        raise errors[0]
    raise OSError("; ".join(dict.fromkeys(map(str, errors))) or "it has no address")


def _taken(done: Iterable[_Attempt], errors: list[OSError]) -> Iterator[socket.socket]:
    for task in done:
        try:
            yield task.result()
        except OSError as error:
            errors.append(error)


async def _attempt(address: _Address, opened: list[socket.socket]) -> socket.socket:
    made = socket.socket(address.family, address.type, address.protocol)
    opened.append(made)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, address.where)
    return made
