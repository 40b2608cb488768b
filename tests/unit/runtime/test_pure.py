"""The pure parts: retry rule, watch frames, keys, clocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.api.core import ConfigMap, Node
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.runtime import (
    Backoff,
    Change,
    ConnectionFailedError,
    DeadlineExceededError,
    FakeClock,
    GoneError,
    SystemClock,
    WatchClosedError,
    WatchEvent,
    join_key,
    split_key,
)
from hypercobalt.runtime.client.errors import Status, StatusDetails, from_status
from hypercobalt.runtime.client.requests import make_call
from hypercobalt.runtime.client.retry import NotSentError, read_retry_after, retry_wait
from hypercobalt.runtime.client.watch import read_events

BACKOFF = Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=5), jitter=lambda c: c)


def refused(code: int, retry_after: float | None = None) -> HypercobaltError:
    wait = None if retry_after is None else timedelta(seconds=retry_after)
    return from_status("get X", Status(code=code), retry_after=wait)


@pytest.mark.parametrize(
    ("error", "idempotent", "wait"),
    [
        pytest.param(refused(500), True, 4, id="fault-of-an-idempotent-call"),
        pytest.param(refused(500), False, None, id="fault-of-another"),
        pytest.param(refused(429), False, 4, id="429-is-never-done"),
        pytest.param(refused(429, 7), False, 8, id="retry-after-with-jitter"),
        pytest.param(refused(503, 7), True, 8, id="503-retry-after"),
        pytest.param(refused(409), True, None, id="conflict"),
        pytest.param(refused(404), True, None, id="absent"),
        pytest.param(NotSentError("x"), False, 4, id="not-sent"),
        pytest.param(ConnectionFailedError("x"), True, 4, id="broken"),
        pytest.param(ConnectionFailedError("x"), False, None, id="broken-and-not-idempotent"),
        pytest.param(DeadlineExceededError("x"), True, 4, id="slow"),
    ],
)
def test_retry_wait_follows_from_error_and_idempotence(
    error: HypercobaltError, idempotent: bool, wait: float | None
) -> None:
    assert retry_wait(error, idempotent=idempotent, attempt=2, backoff=BACKOFF) == wait


def test_backoff_has_a_cap_and_full_jitter() -> None:
    assert [BACKOFF.wait(attempt) for attempt in (0, 1, 2, 3, 1000)] == [1, 2, 4, 5, 5]
    assert all(0 <= Backoff().wait(9) <= 5 for _ in range(100))


@pytest.mark.parametrize(("seconds", "wait"), [(7, 7), (10**30, 300), (-(10**30), 0)])
def test_the_wait_of_a_status_is_bounded(seconds: int, wait: int) -> None:
    status = Status(code=429, details=StatusDetails(retryAfterSeconds=seconds))
    assert from_status("get X", status).retry_after == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("12", 12),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0),
        ("Thu, 01 Jan 2026 09:00:00 GMT", 300),
        ("9" * 5000, 300),
        ("\u00b2", None),
        ("Thu, 01 Jan 99999999999 00:00:00 GMT", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_header_is_read_in_both_forms(header: str | None, seconds: int | None) -> None:
    found = read_retry_after(header, FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
    assert found == (None if seconds is None else timedelta(seconds=seconds))


def frame(kind: str, **obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


async def events(data: bytes, size: int) -> list[WatchEvent[Node]]:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    return [event async for event in read_events(chunks(), Node, "watch Node")]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
async def test_frames_survive_any_cut(size: int) -> None:
    data = (
        frame("ADDED", metadata={"name": "a", "resourceVersion": "1"})
        + b"\n"
        + frame("MODIFIED", metadata={"name": "ä", "resourceVersion": "2"})
        + frame("BOOKMARK", metadata={"resourceVersion": "3"})
        + frame("DELETED", metadata={"name": "a", "resourceVersion": "4"})
    )
    found = await events(data + b'{"type": "ADD', size)
    assert [(e.change, e.key, e.resource_version) for e in found] == [
        (Change.ADDED, "a", "1"),
        (Change.MODIFIED, "ä", "2"),
        (Change.BOOKMARK, "", "3"),
        (Change.DELETED, "a", "4"),
    ]


async def test_error_frames_are_raised() -> None:
    with pytest.raises(GoneError, match="too old"):
        await events(frame("ERROR", code=410, reason="Expired", message="too old"), 100)


@pytest.mark.parametrize("line", [b"<html>\n", b'{"type": "NEW", "object": {}}\n', b"[]\n"])
async def test_line_that_is_no_frame_closes_the_watch(line: bytes) -> None:
    with pytest.raises(WatchClosedError, match="not a watch frame"):
        await events(line, 100)


async def test_a_line_without_end_closes_the_watch() -> None:
    with pytest.raises(WatchClosedError, match="a line of over"):
        await events(b" " * (17 * 2**20), 2**20)


async def test_unreadable_object_is_an_event_without_object() -> None:
    (event,) = await events(frame("ADDED", metadata={"name": "a"}, spec={"podCIDR": 5}), 100)
    assert (event.key, event.object) == ("a", None)
    assert "podCIDR" in event.problem


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("kvm-a.example", "kvm-a.example"),
        ("system:node", "system:node"),
        ("a?dryRun=All", "a%3FdryRun%3DAll"),
        ("a#b", "a%23b"),
        ("a b\n", "a%20b%0A"),
        ("\u00fc\udcff", "%C3%BC%3F"),
    ],
)
def test_a_name_is_one_part_of_the_path(name: str, segment: str) -> None:
    call = make_call("get", "GET", ConfigMap, (name, name))
    assert call.path == f"/api/v1/namespaces/{segment}/configmaps/{segment}"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/x", "%2e%2e"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    for key in ((name, "a"), ("ns", name)):
        with pytest.raises(ConfigurationError, match="ConfigMap"):
            make_call("get", "GET", ConfigMap, key)


@pytest.mark.parametrize(("key", "parts"), [("a", (None, "a")), ("ns/a", ("ns", "a"))])
def test_key_is_split_and_joined(key: str, parts: tuple[str | None, str]) -> None:
    assert split_key(key) == parts
    assert join_key(parts[0] or "", parts[1]) == key


async def test_fake_clock_steps_only_its_wall() -> None:
    clock = FakeClock(source=asyncio.get_running_loop().time)
    before, wall = clock.monotonic(), clock.now()
    clock.step(timedelta(hours=-3))
    assert clock.now() < wall
    assert 0 <= clock.monotonic() - before < 1


def test_system_clock_is_aware() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
