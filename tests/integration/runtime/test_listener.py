"""Floods of connections on the pages of an agent: bounded memory, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.floods import ATTACKS, Attack, client_context, flood, resident_mib, silent, status_of

from hypercobalt.api.address import Address
from hypercobalt.runtime.endpoints import Endpoints
from hypercobalt.runtime.listener import Bounds
from hypercobalt.runtime.routes import Answer, Request, Route

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer jane\r\n\r\n"
COUNT = 400
ATTACKER, OTHER = "127.0.0.66", "127.0.0.7"
GROWTH_MIB = 12
"""With a buffer each, so many connections take 120 MiB."""


@dataclass
class Pages:
    """A process with the pages of an agent."""

    process: asyncio.subprocess.Process
    plain: int
    guarded: int

    @property
    def resident_mib(self) -> float:
        return resident_mib(self.process.pid)


@contextlib.asynccontextmanager
async def serving(*limits: str) -> AsyncIterator[Pages]:
    """Run `pages.py`, under limits of `ulimit`."""
    shell = f'ulimit {" ".join(limits) or "-c 0"} && exec "$0" -m tests.integration.runtime.pages'
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", shell, sys.executable),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        plain, guarded = (await asyncio.wait_for(process.stdout.readline(), 30)).split()
        yield Pages(process, int(plain), int(guarded))
    finally:
        process.stdin.close()
        async with asyncio.timeout(10):
            await process.wait()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_flood_takes_little_memory_and_gives_it_back_while_others_are_served(
    attack: Attack,
) -> None:
    tls = client_context()
    async with serving() as pages:
        assert await status_of(pages.guarded, HEALTH, OTHER, tls) == b"HTTP/1.1 200 OK\r\n"
        before = pages.resident_mib
        async with flood(pages.guarded, attack, COUNT, ATTACKER), asyncio.timeout(5):
            most = pages.resident_mib
            for source in (OTHER, ATTACKER):
                answer = await status_of(pages.guarded, HEALTH, source, tls)
                assert answer == b"HTTP/1.1 200 OK\r\n", source
            assert await status_of(pages.plain, HEALTH, OTHER) == b"HTTP/1.1 200 OK\r\n"
            most = max(most, pages.resident_mib)
        assert await status_of(pages.guarded, HEALTH, OTHER, tls) == b"HTTP/1.1 200 OK\r\n"
        after = pages.resident_mib
    assert most - before < GROWTH_MIB
    assert after - before < GROWTH_MIB / 2


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_without_descriptors_the_process_neither_ends_nor_spins() -> None:
    async with serving("-n", "40") as pages:
        begun, before = time.monotonic(), cpu_seconds(pages.process.pid)
        async with flood(pages.plain, silent, 200, ATTACKER), asyncio.timeout(20):
            answer = b""
            while answer != b"HTTP/1.1 200 OK\r\n":  # once some that wait are given up
                with contextlib.suppress(OSError):
                    answer = await status_of(pages.plain, HEALTH, OTHER)
            used = cpu_seconds(pages.process.pid) - before
        assert used < (time.monotonic() - begun) / 2
        assert await status_of(pages.plain, HEALTH, OTHER) == b"HTTP/1.1 200 OK\r\n"
        assert pages.process.returncode is None


async def large(_: Request) -> Answer:
    return Answer(200, b"x" * 20_000_000)


async def test_client_that_takes_no_answer_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hypercobalt.runtime.endpoints._SECONDS", 0.3)
    pages = Endpoints(Address(port=0), routes=(Route("/large", large),), bounds=Bounds(places=2))
    port = (await pages.start()).port
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(10):
                answer = b""
                while not answer:  # one of two places is all that one address may have
                    with contextlib.suppress(OSError):
                        answer = await status_of(port, HEALTH, "127.0.0.1")
        assert answer == b"HTTP/1.1 404 Not Found\r\n"
    finally:
        await pages.stop()


async def test_half_a_head_byte_by_byte_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypercobalt.runtime.endpoints._SECONDS", 0.3)
    pages = Endpoints(Address(port=0), healthy={})
    port = (await pages.start()).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(10):
            ended = asyncio.create_task(reader.read())
            while not ended.done():
                writer.write(b"x")
                await asyncio.wait({ended}, timeout=0.02)
    finally:
        writer.transport.abort()
        await asyncio.gather(ended, return_exceptions=True)
        await pages.stop()
    assert not ended.exception() or isinstance(ended.exception(), OSError)


async def test_connection_at_work_is_kept_and_an_idle_one_makes_room() -> None:
    """One address may have one of two places; another one finds the second."""
    began, working = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Answer:
        began.set()
        await working.wait()
        return Answer(200, b"done")

    routes = (Route("/slow", slow, seconds=10.0),)
    pages = Endpoints(Address(port=0), healthy={}, routes=routes, bounds=Bounds(places=2))
    port = (await pages.start()).port
    request = b"GET /slow HTTP/1.1\r\n\r\n"
    try:
        at_work = asyncio.create_task(status_of(port, request, ATTACKER))
        await began.wait()
        idle = await asyncio.open_connection("127.0.0.1", port, local_addr=(OTHER, 0))
        idle[1].write(b"GET")
        async with asyncio.timeout(10):
            answer = await status_of(port, HEALTH, "127.0.0.8")
            assert answer == b"HTTP/1.1 200 OK\r\n"
            working.set()
            assert await at_work == b"HTTP/1.1 200 OK\r\n"
        idle[1].transport.abort()
    finally:
        working.set()
        await pages.stop()
