"""Watchers without sockets: what they are sent of a change, and what a slow one costs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver import watching
from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.inflight import Limit, Share
from hypercobalt.apiserver.requests.request import PIECE
from hypercobalt.apiserver.requests.selection import Selection, View
from hypercobalt.apiserver.requests.selectors import parse_labels
from hypercobalt.apiserver.storage.objects import Event, EventType, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.watching import Hub, Watcher

KEY = Key("pods", "n", "p")


IN, OUT = b'{"metadata":{"labels":{"in":""}}}', b'{"metadata":{"labels":{"out":""}}}'


def watcher(*, selective: bool = False, name: str | None = None) -> Watcher:
    return Watcher(Selection("pods", "n", name, parse_labels("in" if selective else "")))


def event(kind: EventType, data: bytes, previous: bytes | None, key: Key = KEY) -> Event:
    return Event(5, kind, key, data, previous)


def sent(seer: Watcher, seen: Event) -> str | None:
    seer.offer(seen, watching.watch_line(seen.type, seen.data))
    lines = seer.take()
    return msgspec.json.decode(lines)["type"] if lines else None


@pytest.mark.parametrize(
    ("kind", "before", "after", "seen"),
    [
        ("ADDED", None, IN, "ADDED"),
        ("ADDED", None, OUT, None),
        ("MODIFIED", IN, IN, "MODIFIED"),
        ("MODIFIED", IN, OUT, "DELETED"),
        ("MODIFIED", OUT, IN, "ADDED"),
        ("MODIFIED", OUT, OUT, None),
        ("DELETED", IN, IN, "DELETED"),
        ("DELETED", OUT, OUT, None),
    ],
)
def test_a_selector_sees_objects_come_and_go(
    kind: EventType, before: bytes | None, after: bytes, seen: str | None
) -> None:
    assert sent(watcher(selective=True), event(kind, after, before)) == seen


def test_other_places_are_not_reported() -> None:
    added = event("ADDED", IN, None)
    assert sent(watcher(), added) == "ADDED"
    assert sent(watcher(name="p"), added) == "ADDED"
    assert sent(watcher(name="q"), added) is None
    for key in (Key("pods", "m", "p"), Key("nodes", "n", "p")):
        assert sent(watcher(), event("ADDED", IN, None, key)) is None


@pytest.mark.parametrize("limit", ["MAX_WAITING", "MAX_WAITING_BYTES"])
def test_a_watcher_that_lags_too_far_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(watching, limit, 3 if limit == "MAX_WAITING" else 200)
    slow = watcher()
    for _ in range(10):
        slow.offer(event("ADDED", IN, None), b"x" * 60)
    assert slow.cut
    assert not slow.waiting, "what it will not read is not kept"


def test_what_waits_is_handed_out_piece_by_piece_and_in_order() -> None:
    slow = watcher()
    slow.begin([b'{"n":%d,"x":"%s"}' % (number, b"x" * 1000) for number in range(200)])
    slow.put(b"last\n")
    pieces = list(iter(slow.take, b""))
    assert max(map(len, pieces)) < 2 * PIECE
    lines = b"".join(pieces).splitlines()
    assert [msgspec.json.decode(line)["object"]["n"] for line in lines[:-1]] == list(range(200))
    assert lines[-1] == b"last"


def test_watches_of_one_host_share_its_room_until_their_client_takes_what_waits() -> None:
    limit = Limit(1000, sure=0)
    one, two = watcher(), watcher()
    for each in (one, two):
        each.room = Share(limit, "kvm-a", 300)
    one.begin([b"x" * 150])
    with pytest.raises(StatusError):
        two.begin([b"x" * 150])
    two.put(b"x" * 150)
    assert two.cut
    one.take()
    assert limit.used > 0  # it is being sent
    assert not one.take()
    assert limit.used == 0
    one.put(b"x" * 150)
    assert not one.cut


async def test_a_bookmark_comes_after_all_that_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that comes back with its revision would miss what had not been sent."""
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.0)
    store = await Store.open(tmp_path)
    seer = watcher()
    seer.begin([b"x" * PIECE] * 3)
    stream = Hub(store).stream(seer, seconds=60, bookmark=lambda: b"mark\n")
    async with asyncio.timeout(5):
        seen = [await anext(stream) for _ in range(4)]
    assert [chunk == b"mark\n" for chunk in seen] == [False, False, False, True]
    await store.close()


async def test_watchers_with_one_selection_share_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Selection] = []
    accepts = Selection.accepts

    def counted(self: Selection, view: View) -> bool:
        checked.append(self)
        return accepts(self, view)

    monkeypatch.setattr(Selection, "accepts", counted)
    store = await Store.open(tmp_path)
    hub, crowd = Hub(store), [watcher(selective=True) for _ in range(200)]
    for one in crowd:
        hub.add(one)
    try:
        async with store.locked(KEY):
            await store.write("ADDED", KEY, lambda _: IN, None)
        assert all(one.take() for one in crowd)
        assert len(checked) == 1
        for one in crowd:
            hub.discard(one)
    finally:
        hub.close()
        await store.close()


async def test_a_stream_ends_when_its_watcher_is_cut_off(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    hub = Hub(store)
    seer = watcher()
    hub.add(seer)
    stream = hub.stream(seer, seconds=60, bookmark=None)
    seer.offer(event("ADDED", IN, None), b"line\n")
    async with asyncio.timeout(5):
        assert await anext(stream) == b"line\n"
        hub.close()
        assert [chunk async for chunk in stream] == []
    hub.close()
    await store.close()


async def test_a_stream_ends_in_time_with_a_last_bookmark(tmp_path: Path) -> None:
    store = await Store.open(tmp_path)
    seer = watcher()
    stream = Hub(store).stream(seer, seconds=0.05, bookmark=lambda: b"mark\n")
    async with asyncio.timeout(5):
        assert [chunk async for chunk in stream] == [b"mark\n"]
    await store.close()
