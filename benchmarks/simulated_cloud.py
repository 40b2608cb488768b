"""A simulated OpenStack as a process of its own, for benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Cloud:
    """The address of the cloud and the calls to it."""

    url: str
    environment: Mapping[str, str]

    async def calls(self) -> dict[str, int]:
        """How often each kind of call came since `forget`."""
        async with httpx2.AsyncClient() as client:
            return dict((await client.get(f"{self.url}/simulated/calls")).json())

    async def first(self) -> float | None:
        """When the first call came since `forget`, by the machine's monotonic clock."""
        return min((await self.times()).values(), default=None)

    async def times(self) -> dict[str, float]:
        """When the first call of each kind came since `forget`, by that clock."""
        async with httpx2.AsyncClient() as client:
            return dict((await client.get(f"{self.url}/simulated/times")).json())

    async def forget(self) -> None:
        """Begin the counts again."""
        async with httpx2.AsyncClient() as client:
            await client.delete(f"{self.url}/simulated/calls")


@contextlib.asynccontextmanager
async def simulated_cloud(*flags: str) -> AsyncIterator[Cloud]:
    """Run one until the block is left; `flags` as its `--help` has them."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.simulated_openstack", *flags),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        shown = json.loads(await process.stdout.readline())
        environment = {
            "OS_AUTH_URL": shown["auth_url"],
            "OS_USERNAME": shown["user"],
            "OS_PASSWORD": shown["password"],
            "OS_PROJECT_NAME": shown["project"],
            "OS_USER_DOMAIN_NAME": "Default",
            "OS_PROJECT_DOMAIN_NAME": "Default",
            "OS_REGION_NAME": shown["region"],
        }
        yield Cloud(shown["url"], environment)
    finally:
        process.terminate()
        await process.wait()
