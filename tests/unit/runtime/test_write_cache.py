"""The newest known state, between a write and its event."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from tests.unit.operator.samples import hypervisor

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Connection, Informer, Kube, ListResult, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.client.watch import Change, WatchEvent
from hypercobalt.runtime.write_cache import Latest, WriteCache


def at(version: int, uid: str = "a") -> Hypervisor:
    plain = hypervisor()
    meta = replace(plain.metadata, resourceVersion=str(version), uid=uid)
    return replace(plain, metadata=meta)


async def loaded(*versions: Hypervisor) -> tuple[Informer[Hypervisor], WriteCache[Hypervisor]]:
    kube = Kube(Connection("http://127.0.0.1:1"))
    informer = Informer(kube, Selection(Hypervisor), metrics=Metrics())
    found = WriteCache(informer)
    informer.load(ListResult(list(versions), "1"))
    return informer, found


def version(found: Hypervisor | None) -> str:
    return found.metadata.resourceVersion if found else ""


async def test_written_object_is_read_before_its_event() -> None:
    informer, hypervisors = await loaded(at(5))
    hypervisors.wrote(at(7))
    assert version(hypervisors.get("kvm-a")) == "7"
    informer.load(ListResult([at(6)], "6"))
    assert version(hypervisors.get("kvm-a")) == "7"
    informer.load(ListResult([at(8)], "8"))
    assert version(hypervisors.get("kvm-a")) == "8"


async def test_created_object_is_read_before_its_event() -> None:
    _, hypervisors = await loaded()
    hypervisors.added(at(7))
    assert version(hypervisors.get("kvm-a")) == "7"


async def test_deleted_object_is_gone_whatever_was_written() -> None:
    informer, hypervisors = await loaded(at(5))
    hypervisors.wrote(at(7))
    informer.load(ListResult([], "9"))
    assert hypervisors.get("kvm-a") is None


async def test_object_that_leaves_during_a_write_stays_away() -> None:
    informer, hypervisors = await loaded(at(5))
    informer.load(ListResult([], "6"))
    hypervisors.wrote(at(7))
    assert hypervisors.get("kvm-a") is None


async def test_late_answer_does_not_hide_a_newer_object() -> None:
    _, hypervisors = await loaded(at(9))
    hypervisors.wrote(at(7))
    assert version(hypervisors.get("kvm-a")) == "9"


async def test_waiter_gets_what_was_written_before_the_watch_reports_it() -> None:
    informer = (await loaded(at(5)))[0]
    own = Latest(informer)
    before = own.value
    waiter = asyncio.create_task(own.changed(before))
    await asyncio.sleep(0)
    own.wrote(at(7))
    assert version(await asyncio.wait_for(waiter, 1)) == "7"
    informer.load(ListResult([at(6)], "6"))
    assert version(own.value) == "7"
    informer.load(ListResult([], "9"))
    assert own.value is None


async def test_object_that_cannot_be_read_is_there_with_its_last_readable_state() -> None:
    informer = (await loaded())[0]
    own = Latest(informer)

    def event(change: Change, problem: str = "") -> None:
        read = None if problem else at(7)
        informer.take(WatchEvent(change, "kvm-a", "7", read, problem))

    assert (own.value, own.problem) == (None, "")
    waiter = asyncio.create_task(own.problem_changed(""))
    await asyncio.sleep(0)
    event(Change.ADDED, "no")
    assert await asyncio.wait_for(waiter, 1) == "no"
    assert own.value is None
    event(Change.MODIFIED)
    assert (version(own.value), own.problem) == ("7", "")
    event(Change.MODIFIED, "again")
    assert (version(own.value), own.problem) == ("7", "again")
    informer.load(ListResult([], "8", {"kvm-a": "still"}))
    assert (version(own.value), own.problem) == ("7", "still")
    event(Change.DELETED, "still")
    assert (own.value, own.problem) == (None, "")
