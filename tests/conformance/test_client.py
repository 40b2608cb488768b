"""The runtime's client against both servers: the same calls, the same outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.conformance.compaction import compact
from tests.conformance.real import Server
from tests.conformance.targets import client_of

from hypercobalt.api.core import ConfigMap, Namespace
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import (
    AlreadyExistsError,
    Backoff,
    Change,
    ConflictError,
    Deletion,
    GoneError,
    Informer,
    InvalidError,
    Kube,
    Metrics,
    NotFoundError,
    Operation,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection

BOTH = pytest.mark.parametrize("kube", ["real", "ours"], indirect=True)
pytestmark = BOTH
RETRY = Backoff(base=timedelta(milliseconds=5), cap=timedelta(milliseconds=50))


@pytest.fixture
async def kube(
    servers: tuple[Server, Server], request: pytest.FixtureRequest
) -> AsyncIterator[Kube]:
    server = servers[request.param == "ours"]
    async with Kube(load_connection(server.kubeconfig)) as made:
        yield made


@pytest.fixture
async def space(kube: Kube, request: pytest.FixtureRequest) -> str:
    """Make a namespace of this test's own."""
    name = f"client-{abs(hash(request.node.name)):x}"
    await kube.create(Namespace(metadata=ObjectMeta(name=name)))
    return name


def config_map(space: str, name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=space), data=data)


async def test_an_object_is_created_read_and_deleted(kube: Kube, space: str) -> None:
    assert await kube.get(ConfigMap, "a", space) is None
    made = await kube.create(config_map(space, "a", k="v"))
    assert await kube.get(ConfigMap, "a", space) == made
    with pytest.raises(AlreadyExistsError):
        await kube.create(config_map(space, "a"))
    generated = ObjectMeta(generateName="b-", namespace=space)
    assert (await kube.create(ConfigMap(metadata=generated))).metadata.name.startswith("b-")
    assert await kube.delete(ConfigMap, "a", space) is Deletion.GONE
    assert await kube.delete(ConfigMap, "a", space) is Deletion.ABSENT


async def test_lists_come_in_pages(kube: Kube, space: str) -> None:
    made = [await kube.create(config_map(space, f"m{number}")) for number in range(7)]
    found = await kube.list(ConfigMap, space, limit=3)
    assert [obj.metadata for obj in found.items] == [obj.metadata for obj in made]
    assert not found.unreadable
    selected = await kube.list(ConfigMap, space, fields="metadata.name=m3", limit=3)
    assert [obj.metadata for obj in selected.items] == [made[3].metadata]


async def test_a_watch_sends_every_change_and_bookmarks(kube: Kube, space: str) -> None:
    began = await kube.list(ConfigMap, space)
    made = await kube.create(config_map(space, "a", k="1"))
    changed = await kube.merge_patch(ConfigMap, "a", {"data": {"k": "2"}}, space)
    await kube.delete(ConfigMap, "a", space)
    seen: list[tuple[Change, object]] = []
    async with kube.watch(ConfigMap, space, resource_version=began.resource_version) as events:
        async with asyncio.timeout(10):
            async for event in events:
                if event.change is not Change.BOOKMARK:
                    seen.append((event.change, event.object and event.object.data))
                if event.change is Change.DELETED:
                    break
    expected = [(Change.ADDED, made.data), (Change.MODIFIED, changed.data)]
    assert seen == [*expected, (Change.DELETED, changed.data)]


async def test_a_watch_ends_in_good_order_when_its_time_is_over(kube: Kube, space: str) -> None:
    began = await kube.list(ConfigMap, space)
    second = timedelta(seconds=1)
    async with (
        asyncio.timeout(10),
        kube.watch(
            ConfigMap, space, resource_version=began.resource_version, length=second
        ) as events,
    ):
        versions = [event.resource_version async for event in events]
    assert all(int(version) >= int(began.resource_version) for version in versions)


async def test_apply_owns_fields_and_conflicts(kube: Kube, space: str) -> None:
    first, second = kube.as_manager("first"), kube.as_manager("second")
    await first.apply(config_map(space, "a", k="1", mine="x"))
    await second.apply(config_map(space, "a", theirs="y"))
    with pytest.raises(ConflictError) as refused:
        await second.apply(config_map(space, "a", k="2"))
    assert [cause.field for cause in refused.value.causes] == [".data.k"]
    await second.apply(config_map(space, "a", k="2"), force=True)
    left = await first.apply(config_map(space, "a", mine="x"))
    assert left.data == {"k": "2", "mine": "x"}


async def test_patches_of_an_old_version_conflict(kube: Kube, space: str) -> None:
    old = await kube.create(config_map(space, "a", k="1", gone="x"))
    version = old.metadata.resourceVersion
    new = await kube.patch(old, replace(old, data={"k": "2"}))
    assert new.data == {"k": "2"}
    with pytest.raises(ConflictError):
        await kube.patch(old, replace(old, data={"k": "3"}))
    with pytest.raises(ConflictError):
        await kube.merge_patch(
            ConfigMap, "a", {"data": {"k": "4"}}, space, resource_version=version
        )
    operation: Operation = {"op": "test", "path": "/data/k", "value": "nope"}
    with pytest.raises(InvalidError):
        await kube.json_patch(ConfigMap, "a", [operation], space)
    with pytest.raises(NotFoundError):
        await kube.merge_patch(ConfigMap, "absent", {"data": {}}, space)
    kept = await kube.modify(ConfigMap, "a", lambda now: replace(now, data={"k": "5"}), space)
    assert kept is not None
    assert kept.data == {"k": "5"}


async def test_hypervisor_has_a_status_subresource_and_rules(kube: Kube) -> None:
    name = f"host-{id(kube):x}"
    made = await kube.create(Hypervisor(metadata=ObjectMeta(name=name)))
    status = replace(made.status, hypervisorId="abc")
    received = await kube.patch_status(made, status)
    assert received.status.hypervisorId == "abc"
    assert received.metadata.generation == made.metadata.generation
    with pytest.raises(ConflictError):
        await kube.patch_status(made, replace(status, hypervisorId="def"))
    with pytest.raises(InvalidError):
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "nonsense"}})
    assert await kube.delete(Hypervisor, name) is Deletion.GONE


async def test_deletes_check_their_preconditions(kube: Kube, space: str) -> None:
    made = await kube.create(config_map(space, "a"))
    meta = made.metadata
    await kube.merge_patch(ConfigMap, "a", {"metadata": {"finalizers": ["example.com/x"]}}, space)
    with pytest.raises(ConflictError):
        await kube.delete(ConfigMap, "a", space, resource_version=meta.resourceVersion)
    with pytest.raises(ConflictError):
        await kube.delete(ConfigMap, "a", space, uid="00000000-0000-0000-0000-000000000000")
    assert await kube.delete(ConfigMap, "a", space, uid=meta.uid) is Deletion.TERMINATING
    await kube.merge_patch(ConfigMap, "a", {"metadata": {"finalizers": None}}, space)
    assert await kube.get(ConfigMap, "a", space) is None


class Witness:
    """Keeps what an informer reports."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []
        self.grown = asyncio.Event()

    def _note(self, change: str, obj: ConfigMap) -> None:
        self.received.append((change, obj.metadata.name))
        self.grown.set()

    def on_add(self, obj: ConfigMap) -> None:
        self._note("add", obj)

    def on_update(self, _old: ConfigMap, new: ConfigMap) -> None:
        self._note("update", new)

    def on_delete(self, obj: ConfigMap) -> None:
        self._note("delete", obj)

    async def until(self, count: int) -> list[tuple[str, str]]:
        """Wait for so many changes; return them in order of name."""
        async with asyncio.timeout(20):
            while len(self.received) < count:
                self.grown.clear()
                await self.grown.wait()
        return sorted(self.received)


async def follow(client: Kube, space: str, version: str) -> None:
    async with client.watch(ConfigMap, space, resource_version=version) as events:
        async for _ in events:
            pass


async def test_an_informer_lists_again_when_its_version_is_gone(
    forgetful: tuple[Server, Server], kube: Kube, request: pytest.FixtureRequest
) -> None:
    server = forgetful[request.node.callspec.params["kube"] == "ours"]
    metrics, witness, space = Metrics(), Witness(), f"relist-{id(kube):x}"
    async with Kube(load_connection(server.kubeconfig)) as client:
        await client.create(Namespace(metadata=ObjectMeta(name=space)))
        for name in ("changes", "goes", "stays"):
            await client.create(config_map(space, name, k="1"))
        old = await client.list(ConfigMap, space)
        await client.merge_patch(ConfigMap, "changes", {"data": {"k": "2"}}, space)
        await client.delete(ConfigMap, "goes", space)
        await client.create(config_map(space, "comes"))
        await client.create(config_map("default", f"last-{space}"))
        async with client_of(server) as raw:
            await compact(server, raw)
        with pytest.raises(GoneError):
            await follow(client, space, old.resource_version)
        informer = Informer(client, Selection(ConfigMap, space), metrics=metrics, retry=RETRY)
        informer.load(old)
        informer.add_handler(witness)
        assert len(await witness.until(3)) == 3
        witness.received.clear()
        task = asyncio.create_task(informer.run(), name="informer")
        try:
            changes = [("add", "comes"), ("delete", "goes"), ("update", "changes")]
            assert await witness.until(3) == changes
            now = await client.list(ConfigMap, space)
            assert sorted(o.metadata.name for o in informer.cache) == [
                o.metadata.name for o in now.items
            ]
            await client.create(config_map(space, "later"))
            assert ("add", "later") in await witness.until(4)
        finally:
            task.cancel()
            await asyncio.wait({task})
