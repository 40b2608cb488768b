"""Answers that nobody reads: bounded for each host, and ended after a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hypercobalt.apiserver.server import ServerOptions, serve

from .agents import agents_of
from .conftest import Client, resident_mib, start_server
from .connections import works
from .objects import CONFIG_MAPS
from .unread import REFUSED, TAKEN, unread

MIB = 2**20
WATCH = f"{CONFIG_MAPS}?watch=1&resourceVersion=0"
STORED, OBJECT = 12, 900_000  # bytes of an object; the kernel takes some MiB of an answer


async def fill(api: Client, headers: dict[str, str]) -> None:
    for number in range(STORED):
        body = {"metadata": {"name": f"big-{number}"}, "data": {"a": "x" * OBJECT}}
        assert (await api.post(CONFIG_MAPS, json=body, headers=headers)).status_code == 201


async def test_answers_that_one_host_does_not_read_take_bounded_memory(tmp_path: Path) -> None:
    async with start_server(tmp_path / "data") as server, Client(server.url) as admin:
        captured, other = await agents_of(admin, "kvm-a", "kvm-b")
        await fill(admin, captured)
        before = resident_mib(server.process.pid)
        async with (
            unread(admin, CONFIG_MAPS, captured, 16) as lists,
            unread(admin, WATCH, captured, 16) as watches,
        ):
            await works(admin)
            assert resident_mib(server.process.pid) - before < 60
            assert lists[0] == TAKEN
            assert {*lists[3:], *watches} == {REFUSED}
            answer = await admin.get(CONFIG_MAPS, headers=other)
            assert len(answer.json()["items"]) >= STORED


@pytest.mark.parametrize("path", [CONFIG_MAPS, WATCH])
async def test_answer_that_no_client_reads_ends_and_gives_its_room_back(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.transfer.UNREAD_SECONDS", 0.5)
    monkeypatch.setattr("hypercobalt.apiserver.inflight.ANSWER_BYTES_OF_A_HOST", 16 * MIB)
    async with serve(options) as server, Client(server.url) as admin:
        (captured,) = await agents_of(admin, "kvm-a")
        await fill(admin, captured)
        async with unread(admin, path, captured, 2) as lines, asyncio.timeout(10):
            assert lines == [TAKEN, REFUSED]
            while (await admin.get(CONFIG_MAPS, headers=captured)).status_code != 200:
                pass  # each turn is a request


@pytest.mark.parametrize("path", [CONFIG_MAPS, WATCH])
async def test_answer_whose_client_has_gone_gives_its_room_back(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.inflight.ANSWER_BYTES_OF_A_HOST", 16 * MIB)
    async with serve(options) as server, Client(server.url) as admin:
        (captured,) = await agents_of(admin, "kvm-a")
        await fill(admin, captured)
        async with unread(admin, path, captured, 2) as lines:
            assert lines == [TAKEN, REFUSED]
        async with asyncio.timeout(10):
            while (await admin.get(CONFIG_MAPS, headers=captured)).status_code != 200:
                pass  # each turn is a request


async def test_long_watch_begins_with_all_objects_and_goes_on(api: Client) -> None:
    (agent,) = await agents_of(api, "kvm-a")
    await fill(api, agent)
    query = {"resourceVersion": "0"}
    params = {"watch": "true", "allowWatchBookmarks": "true", **query}
    async with api.stream("GET", CONFIG_MAPS, params=params, headers=agent, timeout=10) as answer:
        lines = answer.aiter_lines()
        await works(api, "late")
        begun = [await anext(lines) for _ in range(STORED)]
        assert all(line.startswith('{"type":"ADDED"') for line in begun if "big-" in line)
        async with asyncio.timeout(10):
            while '"name":"late"' not in await anext(lines):
                pass
