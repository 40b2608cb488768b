"""A socket where the system bus should be, with something else behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.host.port import HostError
from hypercobalt.adapters.host.shutdown import LogindShutdown
from hypercobalt.adapters.host.units import SystemdUnits

UNIT = "libvirtd.service"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"REJECTED EXTERNAL\r\n")


async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"\xff\xfe\x00 nonsense\r\n" * 9)


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"x" * 1_000_000)


async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def after_authentication(answer: bytes) -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if b"AUTH" in line:
                writer.write(b"OK 0123456789abcdef0123456789abcdef\r\n")
            elif b"NEGOTIATE" in line:
                writer.write(b"AGREE_UNIX_FD\r\n")
            elif line.startswith(b"BEGIN"):
                break
        await reader.read(16)
        writer.write(answer)
        if not answer:
            writer.close()
        await reader.read()

    return behave


@asynccontextmanager
async def listening(path: Path, behave: Behaviour) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield f"unix:path={path}"
    finally:
        server.close()


ODD = [
    close,
    refuse,
    babble,
    flood,
    keep_silent,
    after_authentication(b""),
    after_authentication(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20),
    after_authentication(bytes(400)),
    after_authentication(b"l\x02\x00\x01" + b"\xff" * 400),
    after_authentication(b"l\x02\x00\x01" + bytes(range(256)) * 2),
]


@pytest.mark.parametrize("behave", ODD)
async def test_odd_bus_is_an_error_within_the_deadline(
    tmp_path: Path, behave: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.adapters.host.bus.CALL_DEADLINE", timedelta(seconds=0.3))
    async with listening(tmp_path / "bus", behave) as address:
        begun = time.monotonic()
        with pytest.raises(HostError):
            await SystemdUnits(address).state(UNIT)
        with pytest.raises(HostError):
            async with LogindShutdown(address).delay(who="us", why="because"):
                pytest.fail("entered")
        async with aclosing(SystemdUnits(address, grace=timedelta(0)).watch([UNIT])) as news:
            assert isinstance(await anext(news), HostError)
        assert time.monotonic() - begun < 5
