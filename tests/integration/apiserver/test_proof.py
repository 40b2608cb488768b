"""What docs/security.md claims of the embedded server.

Short as they stand; as long as you like with APISERVER_KILLS and APISERVER_FUZZ, figures with -s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.cost import grown

from .conftest import READY_SECONDS, Client, resident_mib, start_server, token_file
from .damage import OBJECTS, Damage, check, prepare, request
from .objects import CONFIG_MAPS, config_map

KILLS = int(os.environ.get("APISERVER_KILLS", "3"))  # 100 in the run whose figures are shown
REQUESTS = int(os.environ.get("APISERVER_FUZZ", "1500"))  # there 100,000
SEEDS = range(100, 104)
WRITERS = 8
NAMES = 10  # of each writer
LEAK_MIB = 10
TURN_MS = 250


class Storm:
    """Writers that count up, each in objects of its own, and remember what was answered."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self.answered = Counter[str]()
        self.tried = Counter[str]()

    async def until_killed(self, client: Client, writer: int, kill: asyncio.Event) -> None:
        with contextlib.suppress(httpx2.HTTPError):
            while True:
                name = f"c-{writer}-{self._random.randrange(NAMES)}"
                self.tried[name] += 1
                data = {"n": str(self.tried[name])}
                if self.answered[name]:
                    path = f"{CONFIG_MAPS}/{name}"
                    answer = await client.patch_as("merge-patch+json", path, {"data": data})
                else:
                    answer = await client.put(
                        f"{CONFIG_MAPS}/{name}", json=config_map(name, **data)
                    )
                    if answer.status_code == 404:
                        answer = await client.post(CONFIG_MAPS, json=config_map(name, **data))
                assert answer.status_code in (200, 201), answer.text
                self.answered[name] = self.tried[name]
                if self._random.random() < 0.02:
                    kill.set()

    async def check(self, client: Client) -> None:
        """Compare with what is stored: what was answered, or tried after it."""
        listed = (await client.get(CONFIG_MAPS)).json()["items"]
        found = {item["metadata"]["name"]: int(item["data"]["n"]) for item in listed}
        for name, count in self.answered.items():
            if count:
                assert count <= found.get(name, 0) <= self.tried[name], name
                self.tried[name] = found[name]


@pytest.mark.timeout(KILLS * 30)
async def test_no_answered_write_is_lost_by_kills_in_a_write_storm(tmp_path: Path) -> None:
    storm = Storm(seed=1)
    for _ in range(KILLS):
        async with start_server(tmp_path / "data") as server, Client(server.url) as client:
            client.timeout = httpx2.Timeout(READY_SECONDS)
            await storm.check(client)
            kill = asyncio.Event()
            storms = [
                asyncio.create_task(storm.until_killed(client, writer, kill))
                for writer in range(WRITERS)
            ]
            await asyncio.wait_for(kill.wait(), 120)
            await server.kill()
            await asyncio.gather(*storms)
    async with start_server(tmp_path / "data") as server, Client(server.url) as client:
        await storm.check(client)
    sys.stdout.write(f"{KILLS} kills, {sum(storm.answered.values())} writes answered, none lost\n")


@pytest.mark.timeout(120 + REQUESTS // 10)
async def test_fuzzed_requests_neither_end_nor_fill_nor_hold_the_server(tmp_path: Path) -> None:
    tokens = token_file(tmp_path)
    command = [sys.executable, str(Path(__file__).with_name("probed.py"))]
    process = await asyncio.create_subprocess_exec(
        *command, str(tmp_path / "data"), str(tokens), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        async with Client(line.decode().strip()) as api:
            api.timeout = httpx2.Timeout(READY_SECONDS)
            await prepare(api)
            resident: list[float] = []
            for tenth in range(10):
                each = REQUESTS // 10 // len(SEEDS)
                await asyncio.gather(*(fuzz(api, seed * 10 + tenth, each) for seed in SEEDS))
                await empty(api)
                resident.append(resident_mib(process.pid))
        process.terminate()
        longest_ms = float((await asyncio.wait_for(process.stdout.readline(), 20)).decode())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    growth = grown(resident)  # the history, of 8 MiB, is full by then
    figures = f"longest turn {longest_ms:.0f} ms, grown by {growth:.1f} MiB"
    sys.stdout.write(f"{REQUESTS} requests, {figures}\n")
    assert longest_ms < TURN_MS
    assert growth < LEAK_MIB, resident


async def fuzz(api: Client, seed: int, count: int) -> None:
    damage = Damage(seed)
    for number in range(count):
        method, path, rest = request(damage)
        answer = await api.request(method, path, **rest)
        assert (
            answer.status_code < 500
            or answer.status_code in (501, 504)
            or ("reason" not in answer.json())
        ), f"seed {seed}, request {number}: {method} {path} {rest} -> {answer.text[:400]}"


async def empty(api: Client) -> None:
    """Delete what the fuzzing left, after a look at all of it."""
    await check(api)
    for path in OBJECTS:
        if "customresourcedefinitions" not in path:
            await api.delete(path)
