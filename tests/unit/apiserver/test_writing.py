"""Writes that wait for admission: they hold nothing, and see what changed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.decisions.verbs import Prepared
from hypercobalt.apiserver.errors import JSONObject, StatusError, forbidden
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.offload import Offload
from hypercobalt.apiserver.requests.bodies import MERGE_PATCH, Body
from hypercobalt.apiserver.requests.request import (
    SYSTEM_USER,
    Call,
    DeleteOptions,
    Request,
    User,
)
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import at
from hypercobalt.apiserver.writing import CHANGE_RETRIES, Writer

CONFIG_MAPS = Registry.load().find("", "v1", "configmaps")
SLOW = User("slow", groups=("system:masters",))


class Gate:
    """An admitter that keeps the writes of one user until they are let through."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()
        self.seen: list[Prepared] = []

    def concerns(self, call: Call) -> bool:
        return call.request.user == SLOW

    async def mutate(self, call: Call, write: Prepared) -> JSONObject | None:
        return None

    async def admit(self, call: Call, write: Prepared) -> None:
        self.seen.append(write)
        self.entered.set()
        await self.open.wait()
        if at(write.new, "data", "refused"):
            raise forbidden(call.subject, "not here")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def writer(store: Store, gate: Gate) -> Writer:
    writer = Writer(store, Offload(), gate)
    space: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    data = msgspec.json.encode(space)
    await store.write("ADDED", Key("namespaces", "", "a"), lambda _: data, None)
    for name in ("one", "two"):
        await writer.create(call("POST", name))
    return writer


def call(method: str, name: str, user: User = SYSTEM_USER, **data: str) -> Call:
    assert CONFIG_MAPS is not None
    value: JSONObject = {"data": dict(data)}
    if method == "POST":
        value["metadata"] = {"name": name}
    request = Request(method, "", {}, {"content-type": MERGE_PATCH}, user)
    shown = "" if method == "POST" else name
    return Call(request, CONFIG_MAPS, "a", shown, body=Body(value))


def data_of(store: Store, name: str) -> object:
    stored = store.get(Key("configmaps", "a", name))
    return None if stored is None else msgspec.json.decode(stored.data).get("data")


async def test_a_slow_admitter_blocks_no_other_write(
    store: Store, writer: Writer, gate: Gate
) -> None:
    waiting = asyncio.create_task(writer.patch(call("PATCH", "one", SLOW, slow="1")))
    await gate.entered.wait()

    async with asyncio.timeout(1):
        await writer.patch(call("PATCH", "one", quick="1"))
        await writer.patch(call("PATCH", "two", quick="1"))
        await writer.create(call("POST", "three"))
        await writer.delete(call("DELETE", "two"), DeleteOptions())

    assert not waiting.done()
    gate.open.set()
    await waiting
    assert data_of(store, "one") == {"quick": "1", "slow": "1"}


async def test_admission_sees_what_changed_while_it_was_awaited(writer: Writer, gate: Gate) -> None:
    waiting = asyncio.create_task(writer.patch(call("PATCH", "one", SLOW, slow="1")))
    await gate.entered.wait()
    await writer.patch(call("PATCH", "one", quick="1"))

    gate.open.set()
    await waiting

    assert [at(write.old, "data") for write in gate.seen] == [None, {"quick": "1"}]
    assert at(gate.seen[-1].new, "data") == {"quick": "1", "slow": "1"}


async def test_an_update_from_an_old_version_is_a_conflict_after_admission(
    store: Store, writer: Writer, gate: Gate
) -> None:
    stored = store.get(Key("configmaps", "a", "one"))
    assert stored is not None
    slow = call("PATCH", "one", SLOW, slow="1")
    assert isinstance(slow.body.value, dict)
    slow.body.value["metadata"] = {"resourceVersion": str(stored.revision)}
    waiting = asyncio.create_task(writer.patch(slow))
    await gate.entered.wait()
    await writer.patch(call("PATCH", "one", quick="1"))

    gate.open.set()
    with pytest.raises(StatusError) as refused:
        await waiting

    assert refused.value.code == 409
    assert data_of(store, "one") == {"quick": "1"}


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda w: w.patch(call("PATCH", "one", SLOW, slow="1")), id="patch"),
        pytest.param(lambda w: w.delete(call("DELETE", "one", SLOW), DeleteOptions()), id="delete"),
    ],
)
async def test_a_write_of_what_was_deleted_meanwhile_finds_nothing(
    writer: Writer, gate: Gate, write: Callable[[Writer], object]
) -> None:
    waiting = asyncio.ensure_future(write(writer))  # type: ignore[call-overload]
    await gate.entered.wait()
    await writer.delete(call("DELETE", "one"), DeleteOptions())

    gate.open.set()
    with pytest.raises(StatusError) as refused:
        await waiting

    assert refused.value.code == 404


async def test_a_name_that_was_taken_during_admission_already_exists(
    store: Store, writer: Writer, gate: Gate
) -> None:
    waiting = asyncio.create_task(writer.create(call("POST", "three", SLOW, slow="1")))
    await gate.entered.wait()
    await writer.create(call("POST", "three", quick="1"))

    gate.open.set()
    with pytest.raises(StatusError) as refused:
        await waiting

    assert refused.value.reason == "AlreadyExists"
    assert data_of(store, "three") == {"quick": "1"}


async def test_an_object_that_keeps_changing_is_a_conflict(writer: Writer, gate: Gate) -> None:
    async def meddle() -> None:
        for turn in range(CHANGE_RETRIES):
            await gate.entered.wait()
            gate.entered.clear()
            await writer.patch(call("PATCH", "one", turn=str(turn)))
            gate.open.set()
            gate.open.clear()  # whoever waits goes on, once

    with pytest.raises(StatusError) as refused:
        await asyncio.gather(writer.patch(call("PATCH", "one", SLOW, slow="1")), meddle())

    assert (refused.value.code, len(gate.seen)) == (409, CHANGE_RETRIES)


async def test_a_refused_write_changes_nothing(store: Store, writer: Writer, gate: Gate) -> None:
    gate.open.set()
    with pytest.raises(StatusError) as refused:
        await writer.patch(call("PATCH", "one", SLOW, refused="1"))
    assert refused.value.code == 403
    assert data_of(store, "one") is None
