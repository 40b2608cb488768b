"""Answered writes survive failures of the process, the disk and the file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx2
import pytest

from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.storage.file import APPLICATION_ID, SCHEMA_VERSION
from hypercobalt.apiserver.storage.objects import CompactedError, Event, Key, StoreError
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.errors import ConfigurationError

from .conftest import Client, start_server, token_file
from .objects import CONFIG_MAPS, config_map

KEY = Key("things", "", "a")


async def test_every_answered_write_survives_a_kill_in_a_write_storm(tmp_path: Path) -> None:
    answered: set[str] = set()
    enough = asyncio.Event()

    async def storm(client: Client, writer: int) -> None:
        with contextlib.suppress(httpx2.HTTPError):
            for number in range(10_000):
                name = f"c-{writer}-{number}"
                answer = await client.post(CONFIG_MAPS, json=config_map(name, n=str(number)))
                assert answer.status_code == 201, answer.text
                answered.add(name)
                if len(answered) >= 200:
                    enough.set()

    async with start_server(tmp_path / "data") as server, Client(server.url) as client:
        storms = [asyncio.create_task(storm(client, writer)) for writer in range(8)]
        await asyncio.wait_for(enough.wait(), 30)
        await server.kill()
        await asyncio.gather(*storms)

    async with start_server(tmp_path / "data") as server, Client(server.url) as client:
        listed = (await client.get(CONFIG_MAPS)).json()["items"]
    found = {item["metadata"]["name"]: item["data"]["n"] for item in listed}
    assert answered <= found.keys()
    assert all(name.rpartition("-")[2] == value for name, value in found.items())


async def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    async with start_server(tmp_path / "data") as server, Client(server.url) as client:
        first = (await client.post(CONFIG_MAPS, json=config_map("a"))).json()
        await client.post(CONFIG_MAPS, json=config_map("b"))
        await client.delete(f"{CONFIG_MAPS}/a")
        assert await server.terminate() == 0
    async with start_server(tmp_path / "data") as server, Client(server.url) as client:
        since = first["metadata"]["resourceVersion"]
        async with client.watching(CONFIG_MAPS, resourceVersion=since) as watch:
            seen = [await watch.next() for _ in range(2)]
    assert [(kind, obj["metadata"]["name"]) for kind, obj in seen] == [
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    options = ServerOptions(tmp_path / "data", port=0)
    async with serve(options):
        with pytest.raises(ConfigurationError, match=f"in use by process {os.getpid()}"):
            async with serve(options):
                pass


async def test_an_impossible_port_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot listen on .*:99999"):
        async with serve(ServerOptions(tmp_path / "data", port=99999)):
            pass


async def test_a_corrupt_file_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ServerOptions(data, port=0, token_auth_file=token_file(tmp_path))
    async with serve(options) as server, Client(server.url) as client:
        for number in range(50):
            await client.post(CONFIG_MAPS, json=config_map(f"c{number}", text="x" * 500))
    file = data / "cobalt.db"
    damaged = bytearray(file.read_bytes())
    damaged[8192:12288] = b"\xff" * 4096
    file.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"damaged .* left as it is"):
        await Store.open(data)
    assert file.read_bytes() == bytes(damaged)


async def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "cobalt.db"
    file.write_bytes(b"not a database, but data of another program" * 100)
    with pytest.raises(StoreError, match="left as it is"):
        await Store.open(tmp_path)
    assert file.read_bytes().startswith(b"not a database")


@pytest.mark.parametrize(("version", "age"), [(99, "newer"), (0, "older")])
async def test_a_file_of_another_version_is_refused_and_left_as_it_is(
    tmp_path: Path, version: int, age: str
) -> None:
    await (await Store.open(tmp_path)).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "cobalt.db")) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=rf"{age} cobalt \(format {version}, .*left as it is"):
        await Store.open(tmp_path)


@pytest.mark.parametrize(
    "done",
    [
        pytest.param("", id="empty"),
        pytest.param("PRAGMA journal_mode = WAL;", id="without-a-table"),
        pytest.param(f"PRAGMA application_id = {APPLICATION_ID};", id="with-an-id-only"),
        pytest.param(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};",
            id="with-id-and-version-only",
        ),
    ],
)
async def test_a_first_start_that_was_cut_short_is_made_up_for(tmp_path: Path, done: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "cobalt.db")) as db:
        db.executescript(done)
    store = await Store.open(tmp_path)
    async with store.locked(KEY):
        await store.write("ADDED", KEY, partial(_constant, b'{"metadata":{}}'), None)
    await store.close()
    store = await Store.open(tmp_path)
    assert store.get(KEY)
    await store.close()


async def test_an_empty_file_beside_a_log_is_reported_and_both_are_left_as_they_are(
    tmp_path: Path,
) -> None:
    """SQLite itself takes such a file for a new one, and deletes the log."""
    store = await Store.open(tmp_path)
    async with store.locked(KEY):
        await store.write("ADDED", KEY, partial(_constant, b'{"metadata":{}}'), None)
    log = (tmp_path / "cobalt.db-wal").read_bytes()
    await store.close()
    for content in (b"", None):
        (tmp_path / "cobalt.db-wal").write_bytes(log)
        if content is None:
            (tmp_path / "cobalt.db").unlink()
        else:
            (tmp_path / "cobalt.db").write_bytes(content)
        with pytest.raises(StoreError, match=r"empty, but cobalt.db-wal is not.*left as it is"):
            await Store.open(tmp_path)
        assert (tmp_path / "cobalt.db-wal").read_bytes() == log


async def test_a_file_whose_tables_are_not_ours_is_refused(tmp_path: Path) -> None:
    await (await Store.open(tmp_path)).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "cobalt.db")) as db:
        db.execute("DROP TABLE horizon")
    for _ in range(2):  # the directory is free again
        with pytest.raises(StoreError, match="no such table: horizon"):
            await Store.open(tmp_path)


async def test_a_full_disk_is_a_clear_status_and_keeps_what_is_stored(small_disk: Path) -> None:
    options = ServerOptions(
        small_disk / "data", port=0, token_auth_file=token_file(small_disk.parent)
    )
    stored: list[str] = []
    refused = None
    async with serve(options) as server, Client(server.url) as client:
        for number in range(200):
            body = config_map(f"c{number}", text="x" * 50_000)
            answer = await client.post(CONFIG_MAPS, json=body)
            if answer.status_code != 201:
                refused = answer.json()
                break
            stored.append(f"c{number}")
        listed = (await client.get(CONFIG_MAPS)).json()["items"]
        port = int(server.url.rpartition(":")[2])
    assert refused is not None
    assert (refused["code"], refused["reason"]) == (507, "InsufficientStorage")
    assert "no space left" in refused["message"]
    assert sorted(item["metadata"]["name"] for item in listed) == sorted(stored)
    async with serve(replace(options, port=port)) as server, Client(server.url) as client:
        again = (await client.get(CONFIG_MAPS)).json()["items"]
    assert sorted(item["metadata"]["name"] for item in again) == sorted(stored)


async def test_the_state_at_an_old_revision_is_served_until_it_is_compacted(
    tmp_path: Path,
) -> None:
    store = await Store.open(tmp_path)
    try:
        key = Key("things", "", "a")
        revisions: list[int] = []
        previous: bytes | None = None
        for number in range(3):
            async with store.locked(key):
                text = b'{"metadata":{"n":%d}}' % number
                stored = await store.write(
                    "MODIFIED" if previous else "ADDED", key, partial(_constant, text), previous
                )
            previous = stored.data
            revisions.append(stored.revision)
        for number, revision in enumerate(revisions):
            ((_, then),) = store.scan_at(revision, "things")
            assert then.data == b'{"metadata":{"n":%d}}' % number
        assert list(store.scan_at(revisions[0] - 1, "things")) == []
        store._compacted = revisions[1]
        with pytest.raises(CompactedError):
            list(store.scan_at(revisions[0], "things"))
    finally:
        await store.close()


async def test_events_are_published_in_order_and_only_once_durable(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    seen: list[Event] = []
    store.listen(seen.append)

    async def put(number: int) -> None:
        key = Key("things", "", f"t{number}")
        async with store.locked(key):
            await store.write("ADDED", key, lambda revision: b'{"r":%d}' % revision, None)

    try:
        await asyncio.gather(*(put(number) for number in range(300)))
    finally:
        await store.close()
    assert [event.revision for event in seen] == sorted(event.revision for event in seen)
    assert len(seen) == 300
    assert all(event.data == b'{"r":%d}' % event.revision for event in seen)


def _constant(text: bytes, _revision: int) -> bytes:
    return text


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("cobalt")), "apiserver", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "--token-auth-file" in shown

    async def run() -> None:
        async with serve(ServerOptions(tmp_path / "data", port=0)):
            secret = ["cobalt.db", "kubeconfig", "pki/ca.key", "pki/server.key", "pki/admin.key"]
            modes = {name: (tmp_path / "data" / name).stat().st_mode & 0o777 for name in secret}
            assert set(modes.values()) == {0o600}, modes

    asyncio.run(run())
