"""Definitions are settled one by one: a write of one leaves the others of its group alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.decisions.verbs import Change
from hypercobalt.apiserver.definitions import Definitions
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry
from hypercobalt.apiserver.offload import Offload
from hypercobalt.apiserver.requests.bodies import MERGE_PATCH, Body
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Call, DeleteOptions, Request
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import objects_at
from hypercobalt.apiserver.writing import Writer, Written

GROUP = "many.example.com"


class Counting(Writer):
    """A writer that lists the definitions whose status is written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Offload())
        self.settled: list[str] = []

    async def change(self, call: Call, to: Change) -> Written:
        self.settled.append(call.name)
        return await super().change(call, to)


class Served:
    """A store with the definitions that are settled in it."""

    def __init__(self, store: Store) -> None:
        self.store, self.writer, self.registry = store, Counting(store), Registry.load()
        self.definitions = Definitions(store, self.registry, self.writer)

    def call(self, method: str, name: str, value: JSONObject) -> Call:
        resource = self.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        request = Request(method, "", {}, {"content-type": MERGE_PATCH}, SYSTEM_USER)
        return Call(request, resource, "", name, "", Body(value))

    async def create(self, plural: str, kind: str) -> None:
        version: JSONObject = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
        spec: JSONObject = {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        }
        body: JSONObject = {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}
        await self.writer.create(self.call("POST", "", body))
        await self.definitions.settle()

    async def label(self, plural: str) -> None:
        patch: JSONObject = {"metadata": {"labels": {"a": "b"}}}
        await self.writer.patch(self.call("PATCH", f"{plural}.{GROUP}", patch))
        await self.definitions.settle()

    async def delete(self, plural: str) -> None:
        call = self.call("DELETE", f"{plural}.{GROUP}", {})
        while self.store.get(call.key) is not None:  # first it is marked, then it goes
            await self.writer.delete(call, DeleteOptions())
            await self.writer.patch(
                self.call("PATCH", call.name, {"metadata": {"finalizers": None}})
            )
        await self.definitions.settle()

    def is_served(self, plural: str) -> bool:
        stored = self.store.get(Key(CRD_RESOURCE, "", f"{plural}.{GROUP}"))
        assert stored is not None
        conditions = objects_at(msgspec.json.decode(stored.data), "status", "conditions")
        shown = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
        assert shown == (self.registry.find(GROUP, "v1", plural) is not None)
        return shown


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    store = await Store.open(tmp_path)
    yield Served(store)
    await store.close()


async def test_a_write_of_one_definition_leaves_its_group_alone(served: Served) -> None:
    for number in range(8):
        await served.create(f"things{number}", f"Thing{number}")
    assert served.writer.settled == [f"things{number}.{GROUP}" for number in range(8)]
    await served.label("things3")
    assert len(served.writer.settled) == 8


async def test_definitions_are_found_settled_after_a_restart(served: Served) -> None:
    for number in range(3):
        await served.create(f"things{number}", f"Thing{number}")
    again = Served(served.store)
    await again.definitions.settle()
    assert again.writer.settled == []
    assert all(again.is_served(f"things{number}") for number in range(3))


async def test_a_name_that_is_freed_goes_to_who_waits_for_it(served: Served) -> None:
    for plural, kind in (("firsts", "Same"), ("seconds", "Same"), ("thirds", "Other")):
        await served.create(plural, kind)
    assert [served.is_served(plural) for plural in ("firsts", "seconds")] == [True, False]
    await served.delete("firsts")
    assert served.is_served("seconds")
    assert f"thirds.{GROUP}" not in served.writer.settled[3:]
