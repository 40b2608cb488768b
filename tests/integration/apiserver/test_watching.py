"""Watches and lists as controllers use them: resumed, selected, bookmarked, paged, expired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from hypercobalt.apiserver.server import ServerOptions, serve

from .conftest import Client, Watch

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
Object = dict[str, Any]


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Client) -> AsyncIterator[Client]:
    yield shared
    assert (await shared.delete(CONFIG_MAPS)).status_code == 200


async def put(api: Client, name: str, labels: dict[str, str] | None = None, data: str = "") -> str:
    """Write an object; give its resourceVersion."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    body |= {"metadata": {"name": name, "labels": labels or {}}, "data": {"a": data}}
    answer = await api.post(CONFIG_MAPS, json=body)
    if answer.status_code == 409:
        answer = await api.put(f"{CONFIG_MAPS}/{name}", json=body)
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["metadata"]["resourceVersion"])


async def seen(watch: Watch, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(10):
        for _ in range(count):
            kind, obj = await watch.next()
            found.append((kind, obj["metadata"].get("name", "")))
    return found


async def test_a_watch_without_a_version_begins_with_all_there_is(api: Client) -> None:
    await put(api, "b")
    await put(api, "a")
    async with api.watching(CONFIG_MAPS) as watch:
        assert await seen(watch, 2) == [("ADDED", "a"), ("ADDED", "b")]
        await put(api, "a", data="x")
        assert await seen(watch, 1) == [("MODIFIED", "a")]


async def test_a_watch_resumes_at_the_given_version(api: Client) -> None:
    await put(api, "a")
    since = await put(api, "b")
    await put(api, "a", data="x")
    await api.delete(f"{CONFIG_MAPS}/b")
    await put(api, "b")
    async with api.watching(CONFIG_MAPS, resourceVersion=since) as watch:
        expected = [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "b")]
        assert await seen(watch, 3) == expected


async def test_versions_of_events_grow_and_name_their_objects(api: Client) -> None:
    since = await put(api, "a")
    written = [await put(api, "a", data=str(n)) for n in range(5)]
    async with api.watching(CONFIG_MAPS, resourceVersion=since) as watch:
        events = [await watch.next() for _ in written]
    assert [obj["metadata"]["resourceVersion"] for _, obj in events] == written
    assert sorted(written, key=int) == written


async def test_a_change_of_labels_moves_an_object_in_and_out(api: Client) -> None:
    since = await put(api, "a", {"colour": "red"})
    async with api.watching(
        CONFIG_MAPS, labelSelector="colour=red", resourceVersion=since
    ) as watch:
        await put(api, "a", {"colour": "red"}, "x")
        await put(api, "a", {"colour": "blue"})
        await put(api, "a", {"colour": "blue"}, "y")
        await put(api, "b", {"colour": "blue"})
        await put(api, "a", {"colour": "red"})
        await api.delete(f"{CONFIG_MAPS}/a")
        assert await seen(watch, 4) == [
            ("MODIFIED", "a"),
            ("DELETED", "a"),
            ("ADDED", "a"),
            ("DELETED", "a"),
        ]


async def test_a_recreated_object_is_added_even_after_a_restart(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        since = await put(api, "a", {"colour": "red"})
        await api.delete(f"{CONFIG_MAPS}/a")
        between = str(int(await put(api, "other")))
        await put(api, "a", {"colour": "red"})
    async with serve(options) as server, Client(server.url) as api:
        query = {"labelSelector": "colour=red", "resourceVersion": since}
        async with api.watching(CONFIG_MAPS, **query) as watch:
            assert await seen(watch, 2) == [("DELETED", "a"), ("ADDED", "a")]
        exact = {"resourceVersion": between, "resourceVersionMatch": "Exact"}
        listed = (await api.get(CONFIG_MAPS, params=exact)).json()["items"]
        assert [item["metadata"]["name"] for item in listed] == ["other"]


async def test_a_watch_of_one_name_sees_no_other(api: Client) -> None:
    await put(api, "a")
    await put(api, "b")
    async with api.watching(CONFIG_MAPS, fieldSelector="metadata.name=b") as watch:
        await put(api, "a", data="x")
        await put(api, "b", data="x")
        assert await seen(watch, 2) == [("ADDED", "b"), ("MODIFIED", "b")]


async def test_initial_events_end_with_a_marked_bookmark(api: Client) -> None:
    await put(api, "a")
    query = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with api.watching(CONFIG_MAPS, **query) as watch:
        assert (await watch.next())[0] == "ADDED"
        kind, bookmark = await watch.next()
    assert kind == "BOOKMARK"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0


async def test_bookmarks_come_in_between_and_are_resumed_from(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.watching.BOOKMARK_SECONDS", 0.05)
    async with serve(options) as server, Client(server.url) as api:
        await put(api, "a")
        query = {"allowWatchBookmarks": "true", "fieldSelector": "metadata.name=none"}
        async with api.watching(CONFIG_MAPS, **query) as watch:
            await watch.next()
            kind, bookmark = await watch.next()
        assert (kind, bookmark["kind"]) == ("BOOKMARK", "ConfigMap")
        await put(api, "b")
        since = bookmark["metadata"]["resourceVersion"]
        async with api.watching(CONFIG_MAPS, resourceVersion=since) as watch:
            assert await seen(watch, 1) == [("ADDED", "b")]


async def test_a_watch_ends_in_time_even_when_it_is_busy(api: Client) -> None:
    stop = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await put(api, "busy", data=str(number))

    writing = asyncio.create_task(write())
    count = 0
    try:
        async with asyncio.timeout(8), api.watching(CONFIG_MAPS, timeoutSeconds="1") as watch:
            while True:
                try:
                    await watch.next()
                except StopAsyncIteration:
                    break
                count += 1
    finally:
        stop.set()
        await writing
    assert count > 2


async def test_a_version_that_is_no_longer_kept_is_gone(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.storage.store.KEEP_EVENTS", 5)
    async with serve(options) as server, Client(server.url) as api:
        first = await put(api, "a")
        for number in range(20):
            await put(api, f"c{number:02}")
        async with api.watching(CONFIG_MAPS, resourceVersion=first) as watch:
            kind, error = await watch.next()
        assert (kind, error["code"], error["reason"]) == ("ERROR", 410, "Expired")
        exact = {"resourceVersion": first, "resourceVersionMatch": "Exact"}
        answer = await api.get(CONFIG_MAPS, params=exact)
        assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def names(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 11])
async def test_pages_show_one_moment_whatever_is_written_meanwhile(api: Client, limit: int) -> None:
    wanted = [f"c{number}" for number in range(10)]
    for name in wanted:
        await put(api, name)
    found: list[str] = []
    token, version, turn = "", "", 0
    while True:
        answer = await api.get(CONFIG_MAPS, params={"limit": str(limit), "continue": token})
        page, meta = names(answer), answer.json()["metadata"]
        found += page
        version = version or meta["resourceVersion"]
        assert meta["resourceVersion"] == version
        assert len(page) == limit or "continue" not in meta
        if "continue" not in meta:
            break
        assert meta["remainingItemCount"] == len(wanted) - len(found)
        token = meta["continue"]
        turn += 1
        await put(api, f"b{turn}")  # before what is still to come, and behind it
        await put(api, f"z{turn}")
        await put(api, "c9", data=str(turn))
        await api.delete(f"{CONFIG_MAPS}/c{turn % 10}")
    assert found == wanted


async def test_an_expired_page_gives_a_token_that_goes_on(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.storage.store.KEEP_EVENTS", 5)
    async with serve(options) as server, Client(server.url) as api:
        for number in range(6):
            await put(api, f"c{number}")
        answer = await api.get(CONFIG_MAPS, params={"limit": "2"})
        token = answer.json()["metadata"]["continue"]
        for number in range(10):
            await put(api, "x", data=str(number))
        expired = await api.get(CONFIG_MAPS, params={"limit": "2", "continue": token})
        body = expired.json()
        assert (expired.status_code, body["reason"]) == (410, "Expired")
        again = {"continue": body["metadata"]["continue"]}
        rest = await api.get(CONFIG_MAPS, params=again)
        assert names(rest) == ["c2", "c3", "c4", "c5", "x"]


async def test_a_table_of_a_watch_has_a_row_for_each_event(api: Client) -> None:
    await put(api, "a", data="x")
    params = {"watch": "true"}
    async with api.stream("GET", CONFIG_MAPS, params=params, headers=TABLE) as answer:
        watch = Watch(answer.status_code, answer.aiter_lines())
        kind, table = await watch.next()
    assert (kind, table["kind"]) == ("ADDED", "Table")
    assert table["rows"][0]["cells"][:2] == ["a", 1]


async def test_a_large_collection_is_watched_from_its_beginning_while_it_changes(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.watching.MAX_WAITING", 20)
    async with serve(options) as server, Client(server.url) as api:
        for number in range(60):
            await put(api, f"c{number:02}")
        async with api.watching(CONFIG_MAPS) as watch:
            await put(api, "later")
            found = await seen(watch, 61)
        assert found[-1] == ("ADDED", "later")
