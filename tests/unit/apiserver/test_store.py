"""The store against a dictionary, also after it was reopened and at old revisions."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hypercobalt.apiserver.storage.objects import CompactedError, Event, EventType, Key
from hypercobalt.apiserver.storage.store import Store

T = TypeVar("T")
Place = tuple[str, str]

# Names in which the order of places and the order of their texts differ.
SPACES = ("", "a", "a-b")
KEYS = (
    *(Key("things.example.com", space, "b") for space in SPACES),
    Key("things.example.com", "a", "b-c"),
    Key("pods", "a", "b"),
)


def by_text(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


class StoreMachine(RuleBasedStateMachine):
    """A real store in a temporary folder beside what it should hold, at every revision."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._directory = Path(tempfile.mkdtemp())
        self._store = self._run(Store.open(self._directory))
        self._now: dict[Key, bytes] = {}
        self._past: dict[int, dict[Key, bytes]] = {self._store.revision: {}}
        self._log: list[tuple[int, EventType, Key, bytes | None]] = []
        self._events: list[Event] = []
        self._store.listen(self._events.append)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def teardown(self) -> None:
        self._run(self._store.close())
        self._runner.close()
        shutil.rmtree(self._directory)

    async def _write(self, kind: EventType, key: Key) -> None:
        async with self._store.locked(key) as held:
            before = held.data if held else None
            assert before == self._now.get(key)
            done = await self._store.write(kind, key, lambda r: b'{"r":%d}' % r, before)
        assert done.data == b'{"r":%d}' % done.revision
        if kind == "DELETED":
            del self._now[key]
        else:
            self._now[key] = done.data
        self._past[done.revision] = dict(self._now)
        self._log.append((done.revision, kind, key, before))

    @rule(key=st.sampled_from(KEYS))
    def put(self, key: Key) -> None:
        self._run(self._write("MODIFIED" if key in self._now else "ADDED", key))

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: Key) -> None:
        if key in self._now:
            self._run(self._write("DELETED", key))

    @rule()
    def reopen(self) -> None:
        events = [event.revision for event in self._events]
        assert events == sorted(events)
        self._run(self._store.close())
        self._store = self._run(Store.open(self._directory))
        self._store.listen(self._events.append)
        self._check_events(min(self._past))

    @invariant()
    def holds_what_was_written(self) -> None:
        assert self._store.revision == max(self._past)
        for resource in ("pods", "things.example.com"):
            found = {key: stored.data for key, stored in self._store.scan(resource)}
            assert found == {k: d for k, d in self._now.items() if k.resource == resource}
            assert self._store.count(resource) == len(found)
            assert [by_text(k[1:]) for k in found] == sorted(by_text(k[1:]) for k in found)

    @rule(
        resource=st.sampled_from(sorted({key.resource for key in KEYS})),
        space=st.sampled_from(SPACES),
        after=st.none() | st.sampled_from([key[1:] for key in KEYS]),
    )
    def scan(self, resource: str, space: str, after: Place | None) -> None:
        inside = [k for k in self._now if (k.resource, k.namespace) == (resource, space)]
        for namespace, wanted in ((space, inside), (None, list(self._now))):
            expected = sorted(
                (k for k in wanted if k.resource == resource), key=lambda k: by_text(k[1:])
            )
            if after is not None:
                expected = [k for k in expected if by_text(k[1:]) > by_text(after)]
            if namespace is not None and after is not None and after[0] != namespace:
                continue  # no page of this list ends there
            found = [key for key, _ in self._store.scan(resource, namespace, after=after)]
            assert found == expected

    @rule(data=st.data())
    def remembers(self, data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from(sorted(self._past)))
        for resource in {key.resource for key in KEYS}:
            then = {k: d for k, d in self._past[revision].items() if k.resource == resource}
            assert {k: s.data for k, s in self._store.scan_at(revision, resource)} == then
        self._check_events(revision)

    def _check_events(self, revision: int) -> None:
        events = [
            (event.revision, event.type, event.key, event.previous)
            for event in self._store.events_after(revision)
        ]
        assert events == [entry for entry in self._log if entry[0] > revision]


StoreMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStore = StoreMachine.TestCase


@pytest.fixture
def key() -> Key:
    return Key("things", "", "a")


async def test_compacted_revisions_are_reported(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.storage.store.KEEP_EVENTS", 3)
    store = await Store.open(tmp_path)
    try:
        for _ in range(6):
            async with store.locked(key) as held:
                kind: EventType = "MODIFIED" if held else "ADDED"
                await store.write(kind, key, lambda r: b"%d" % r, held.data if held else None)
        assert len(list(store.events_after(store.compacted))) == 3
        with pytest.raises(CompactedError):
            store.events_after(store.compacted - 1)
        with pytest.raises(CompactedError):
            list(store.scan_at(store.compacted - 1, "things"))
        before = store.compacted
    finally:
        await store.close()
    store = await Store.open(tmp_path)
    assert before - 1 <= store.compacted <= before  # the last commit writes it to the file
    await store.close()


async def test_a_listener_that_fails_does_not_keep_others_waiting(tmp_path: Path, key: Key) -> None:
    store = await Store.open(tmp_path)
    events: list[Event] = []

    def fail(_event: Event) -> None:
        raise RuntimeError("a bug")

    store.listen(fail)
    store.listen(events.append)
    try:
        async with asyncio.timeout(5), store.locked(key):
            await store.write("ADDED", key, lambda _: b"{}", None)
    finally:
        await store.close()
    assert len(events) == 1


async def test_a_caller_that_goes_away_holds_its_key_until_the_write_is_decided(
    tmp_path: Path, key: Key
) -> None:
    store = await Store.open(tmp_path)

    async def write() -> None:
        async with store.locked(key):
            await store.write("ADDED", key, lambda _: b"{}", None)

    try:
        writing = asyncio.create_task(write())
        await asyncio.sleep(0)
        assert key in store.in_flight
        writing.cancel()
        async with asyncio.timeout(5), store.locked(key) as held:
            assert held is not None
        assert writing.cancelled() or writing.done()
        assert not store.in_flight
    finally:
        await store.close()
