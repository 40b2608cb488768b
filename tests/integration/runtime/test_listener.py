"""Floods of connections on the pages of an agent: bounded memory, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.floods import ATTACKS, Attack, client_context, flood, resident_mib, status_of

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
    shell = f"ulimit {' '.join(limits) or '-c 0'} && exec \"$0\" -m tests.integration.runtime.pages"
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
        print(f"{before:.0f} {most:.0f} {after:.0f} MiB")
    assert most - before < GROWTH_MIB
    assert after - before < GROWTH_MIB / 2
