"""Effects of a delete: dependents, finalizers, namespaces, definitions, Events, pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from hypercobalt.apiserver.collector import Collector
from hypercobalt.apiserver.definitions import Definitions
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.offload import Offload
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.writing import Writer

from .conftest import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HYPERVISORS = "/apis/kvm.cloud.sap/v1/hypervisors"

Object = dict[str, Any]


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Client) -> AsyncIterator[Client]:
    yield shared
    for path in (CONFIG_MAPS, SECRETS, PODS, HYPERVISORS):
        for item in (await shared.get(path)).json()["items"]:
            place = f"{path}/{item['metadata']['name']}"
            await shared.patch_as("merge-patch+json", place, {"metadata": {"finalizers": None}})
            await shared.request("DELETE", place, params={"gracePeriodSeconds": "0"})
    assert not (await shared.get(CONFIG_MAPS)).json()["items"]


async def create(api: Client, path: str, name: str, **metadata: object) -> Object:
    body: Object = {"metadata": {"name": name, **metadata}}
    if path == HYPERVISORS:
        body |= {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor"}
    if path == PODS:
        body["spec"] = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    answer = await api.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def owned_by(*owners: Object, block: bool = False) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]


async def delete(api: Client, path: str, policy: str = "") -> Object:
    options = {"propagationPolicy": policy} if policy else {}
    answer = await api.request("DELETE", path, params=options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def settled(api: Client, path: str) -> None:
    """Wait until the collector has looked at everything there was before: it takes turns."""
    owner = await create(api, SECRETS, "marker")
    await create(api, SECRETS, "marked", ownerReferences=owned_by(owner))
    await delete(api, f"{SECRETS}/marker")
    await api.until_gone(f"{SECRETS}/marked")
    assert (await api.get(path)).status_code == 200


async def test_dependents_go_after_their_owner_in_the_background(api: Client) -> None:
    owner = await create(api, HYPERVISORS, "kvm-a")
    first = await create(api, CONFIG_MAPS, "first", ownerReferences=owned_by(owner))
    await create(api, CONFIG_MAPS, "second", ownerReferences=owned_by(first))
    await delete(api, f"{HYPERVISORS}/kvm-a", "Background")
    assert (await api.get(f"{HYPERVISORS}/kvm-a")).status_code == 404
    await api.until_gone(f"{CONFIG_MAPS}/second")
    assert (await api.get(f"{CONFIG_MAPS}/first")).status_code == 404


async def test_a_pod_has_its_grace_if_there_is_a_node_whose_kubelet_ends_it(api: Client) -> None:
    await create(api, "/api/v1/nodes", "n")
    owner = await create(api, CONFIG_MAPS, "owner")
    await create(api, PODS, "runs", ownerReferences=owned_by(owner))
    async with api.watching(PODS) as watch:
        await delete(api, f"{CONFIG_MAPS}/owner")
        while not (pod := (await watch.next())[1])["metadata"].get("deletionTimestamp"):
            pass
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    await delete(api, "/api/v1/nodes/n")


async def test_a_pod_without_a_node_goes_at_once(api: Client) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    await create(api, PODS, "lost", ownerReferences=owned_by(owner))
    await delete(api, f"{CONFIG_MAPS}/owner")
    await api.until_gone(f"{PODS}/lost")


async def test_a_foreground_owner_waits_for_the_dependents_that_block_it(api: Client) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    references = owned_by(owner, block=True)
    await create(api, CONFIG_MAPS, "held", ownerReferences=references, finalizers=["e.com/x"])
    await create(api, CONFIG_MAPS, "free", ownerReferences=references)
    shown = await delete(api, f"{CONFIG_MAPS}/owner", "Foreground")
    assert shown["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.until_gone(f"{CONFIG_MAPS}/free")
    assert (await api.get(f"{CONFIG_MAPS}/owner")).status_code == 200
    held = (await api.get(f"{CONFIG_MAPS}/held")).json()
    assert held["metadata"]["deletionTimestamp"]
    release = {"metadata": {"finalizers": None}}
    await api.patch_as("merge-patch+json", f"{CONFIG_MAPS}/held", release)
    await api.until_gone(f"{CONFIG_MAPS}/owner")


async def test_a_foreground_owner_does_not_wait_for_other_dependents(api: Client) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    references = owned_by(owner)
    await create(api, CONFIG_MAPS, "held", ownerReferences=references, finalizers=["e.com/x"])
    await delete(api, f"{CONFIG_MAPS}/owner", "Foreground")
    await api.until_gone(f"{CONFIG_MAPS}/owner")
    assert (await api.get(f"{CONFIG_MAPS}/held")).json()["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_a_dependent_of_two_loses_the_owner_that_goes(api: Client, policy: str) -> None:
    one, two = await create(api, CONFIG_MAPS, "one"), await create(api, CONFIG_MAPS, "two")
    references = owned_by(one, two, block=True)
    await create(api, CONFIG_MAPS, "both", ownerReferences=references)
    await delete(api, f"{CONFIG_MAPS}/one", policy)
    await api.until_gone(f"{CONFIG_MAPS}/one")
    await settled(api, f"{CONFIG_MAPS}/both")
    left = (await api.get(f"{CONFIG_MAPS}/both")).json()["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["two"]
    await delete(api, f"{CONFIG_MAPS}/two", policy)
    await api.until_gone(f"{CONFIG_MAPS}/both")


async def test_orphans_stay_and_forget_their_owner(api: Client) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    await create(api, CONFIG_MAPS, "orphan", ownerReferences=owned_by(owner))
    await delete(api, f"{CONFIG_MAPS}/owner", "Orphan")
    await api.until_gone(f"{CONFIG_MAPS}/owner")
    await settled(api, f"{CONFIG_MAPS}/orphan")
    orphan = (await api.get(f"{CONFIG_MAPS}/orphan")).json()
    assert "ownerReferences" not in orphan["metadata"]


@pytest.mark.parametrize(
    ("changed", "stays"),
    [
        pytest.param({"uid": "never-was"}, False, id="another-uid"),
        pytest.param({"name": "never-was", "uid": "x"}, False, id="it-never-existed"),
        pytest.param({"kind": "Unheard", "uid": "x"}, True, id="its-kind-is-not-served"),
        pytest.param({"apiVersion": "a.com/v1", "uid": "x"}, True, id="its-group-is-not-served"),
    ],
)
async def test_a_dependent_of_an_absent_owner_goes_unless_the_kind_is_not_served(
    api: Client, changed: Object, *, stays: bool
) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    references = [{**owned_by(owner)[0], **changed}]
    await create(api, CONFIG_MAPS, "c", ownerReferences=references)
    if stays:
        await settled(api, f"{CONFIG_MAPS}/c")
    else:
        await api.until_gone(f"{CONFIG_MAPS}/c")


async def test_a_cluster_scoped_object_is_not_judged_by_a_namespaced_owner(api: Client) -> None:
    owner = await create(api, CONFIG_MAPS, "owner")
    await create(api, HYPERVISORS, "kvm-a", ownerReferences=owned_by(owner))
    await delete(api, f"{CONFIG_MAPS}/owner")
    await settled(api, f"{HYPERVISORS}/kvm-a")


async def test_finalizers_hold_an_object_until_the_last_is_taken(api: Client) -> None:
    await create(api, CONFIG_MAPS, "c", finalizers=["e.com/a", "e.com/b"])
    first = await delete(api, f"{CONFIG_MAPS}/c")
    again = await delete(api, f"{CONFIG_MAPS}/c")
    assert again["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    more = [{"op": "add", "path": "/metadata/finalizers/-", "value": "e.com/c"}]
    answer = await api.patch_as("json-patch+json", f"{CONFIG_MAPS}/c", more)
    assert answer.status_code == 422
    assert "no new finalizers can be added" in answer.json()["message"]
    one = {"metadata": {"finalizers": ["e.com/b"]}}
    answer = await api.patch_as("merge-patch+json", f"{CONFIG_MAPS}/c", one)
    assert answer.json()["metadata"]["finalizers"] == ["e.com/b"]
    none: Object = {"metadata": {"finalizers": []}}
    answer = await api.patch_as("merge-patch+json", f"{CONFIG_MAPS}/c", none)
    assert answer.status_code == 200
    assert (await api.get(f"{CONFIG_MAPS}/c")).status_code == 404


async def test_a_namespace_goes_after_its_contents(api: Client) -> None:
    await api.post(NAMESPACES, json={"metadata": {"name": "doomed"}})
    inside = f"{NAMESPACES}/doomed/configmaps"
    await create(api, inside, "free")
    await create(api, inside, "held", finalizers=["e.com/x"])
    await create(api, f"{NAMESPACES}/doomed/secrets", "free")
    await delete(api, f"{NAMESPACES}/doomed")
    await api.until_gone(f"{inside}/free")
    shown = (await api.get(f"{NAMESPACES}/doomed")).json()
    assert shown["status"]["phase"] == "Terminating"
    refused = await api.post(inside, json={"metadata": {"name": "late"}})
    assert refused.status_code == 403
    assert refused.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    release = {"metadata": {"finalizers": None}}
    await api.patch_as("merge-patch+json", f"{inside}/held", release)
    await api.until_gone(f"{NAMESPACES}/doomed")
    assert (await api.get("/api/v1/secrets")).json()["items"] == []


@pytest.mark.parametrize("method", ["PUT", "merge-patch", "apply-patch"])
async def test_finalizers_of_a_namespace_are_not_dropped_by_a_write(
    api: Client, method: str
) -> None:
    """Its spec.finalizers; as `kubectl replace` of a file with metadata only would."""
    space, inside = f"{NAMESPACES}/doomed", f"{NAMESPACES}/doomed/configmaps"
    bare: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}}

    async def drop() -> None:
        if method == "PUT":
            answer = await api.put(space, json=bare)
        elif method == "merge-patch":
            nothing = {"spec": {"finalizers": None}}
            answer = await api.patch_as("merge-patch+json", space, nothing)
        else:
            other = {**bare, "spec": {"finalizers": ["e.com/other"]}}
            query = {"fieldManager": "m", "force": "true"}
            answer = await api.patch_as("apply-patch+yaml", space, other, **query)
        assert answer.status_code == 200, answer.text
        assert answer.json()["spec"] == {"finalizers": ["kubernetes"]}

    await api.post(NAMESPACES, json=bare)
    await create(api, inside, "held", finalizers=["e.com/x"])
    await drop()
    await delete(api, space)
    await drop()
    assert (await api.get(space)).json()["status"]["phase"] == "Terminating"
    release = {"metadata": {"finalizers": None}}
    await api.patch_as("merge-patch+json", f"{inside}/held", release)
    await api.until_gone(space)
    assert (await api.get(f"{inside}/held")).status_code == 404


async def test_no_content_slips_into_a_namespace_that_goes(api: Client) -> None:
    await api.post(NAMESPACES, json={"metadata": {"name": "doomed"}})
    inside = f"{NAMESPACES}/doomed/configmaps"
    requests = [api.post(inside, json={"metadata": {"name": f"c{n}"}}) for n in range(40)]
    requests.insert(20, api.delete(f"{NAMESPACES}/doomed"))
    answers = await asyncio.gather(*requests)
    assert {answer.status_code for answer in answers} <= {200, 201, 403, 404}
    await api.until_gone(f"{NAMESPACES}/doomed")
    assert (await api.get(inside)).json()["items"] == []


def definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


async def test_a_definition_goes_after_its_objects(api: Client) -> None:
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing"}
    assert (await api.post(DEFINITIONS, json=definition())).status_code == 201
    held = {**thing, "metadata": {"name": "held", "finalizers": ["e.com/x"]}}
    assert (await api.post(things, json={**thing, "metadata": {"name": "a"}})).status_code == 201
    assert (await api.post(things, json=held)).status_code == 201
    await delete(api, f"{DEFINITIONS}/things.example.com")
    await api.until_gone(f"{things}/a")
    assert (await api.get(f"{things}/held")).status_code == 200
    release = {"metadata": {"finalizers": None}}
    await api.patch_as("merge-patch+json", f"{things}/held", release)
    await api.until_gone(f"{DEFINITIONS}/things.example.com")
    assert (await api.get(things)).status_code == 404


async def test_objects_go_with_their_definition_whose_stored_version_is_not_served(
    api: Client,
) -> None:
    body = definition()
    (stored,) = body["spec"]["versions"]
    served = {**stored, "name": "v2", "storage": False}
    body["spec"]["versions"] = [{**stored, "served": False}, served]
    things = "/apis/example.com/v2/namespaces/default/things"
    for left in (["a"], []):
        assert (await api.post(DEFINITIONS, json=body)).status_code == 201
        if left:
            thing = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}}
            assert (await api.post(things, json=thing)).status_code == 201
        listed = (await api.get(things)).json()["items"]
        assert [item["metadata"]["name"] for item in listed] == left
        await delete(api, f"{DEFINITIONS}/things.example.com")
        await api.until_gone(f"{DEFINITIONS}/things.example.com")


async def test_dependents_of_custom_objects_go_with_the_definition(api: Client) -> None:
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    assert (await api.post(DEFINITIONS, json=definition())).status_code == 201
    owner = (await api.post(things, json=thing)).json()
    other = await create(api, SECRETS, "other")
    await create(api, CONFIG_MAPS, "owned", ownerReferences=owned_by(owner))
    await create(api, CONFIG_MAPS, "shared", ownerReferences=owned_by(owner, other))
    await delete(api, f"{DEFINITIONS}/things.example.com")
    await api.until_gone(f"{DEFINITIONS}/things.example.com")
    assert (await api.get(f"{CONFIG_MAPS}/owned")).status_code == 404
    shared = (await api.get(f"{CONFIG_MAPS}/shared")).json()
    assert [left["name"] for left in shared["metadata"]["ownerReferences"]] == ["other"]


async def test_a_definition_that_its_own_object_owns_goes(api: Client) -> None:
    body = definition()
    body["spec"]["scope"] = "Cluster"
    path = f"{DEFINITIONS}/things.example.com"
    assert (await api.post(DEFINITIONS, json=body)).status_code == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    owner = (await api.post("/apis/example.com/v1/things", json=thing)).json()
    owned = {"metadata": {"ownerReferences": owned_by(owner, block=True)}}
    assert (await api.patch_as("merge-patch+json", path, owned)).status_code == 200
    await delete(api, path)
    await api.until_gone(path)


async def test_no_object_slips_into_a_definition_that_goes(api: Client) -> None:
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing"}
    assert (await api.post(DEFINITIONS, json=definition())).status_code == 201
    bodies = [{**thing, "metadata": {"name": f"t{n}"}} for n in range(40)]
    requests = [api.post(things, json=body) for body in bodies]
    requests.insert(20, api.delete(f"{DEFINITIONS}/things.example.com"))
    answers = await asyncio.gather(*requests)
    assert {answer.status_code for answer in answers} <= {200, 201, 403, 404}
    await api.until_gone(f"{DEFINITIONS}/things.example.com")
    assert (await api.post(DEFINITIONS, json=definition())).status_code == 201
    assert (await api.get(things)).json()["items"] == []
    await delete(api, f"{DEFINITIONS}/things.example.com")
    await api.until_gone(f"{DEFINITIONS}/things.example.com")


async def test_a_pod_that_runs_is_given_time(api: Client) -> None:
    await create(api, PODS, "p")
    before = datetime.now(UTC)
    answer = await api.request("DELETE", f"{PODS}/p", params={"gracePeriodSeconds": "40"})
    meta = answer.json()["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 40
    due = datetime.fromisoformat(meta["deletionTimestamp"])
    assert timedelta(seconds=38) < due - before < timedelta(seconds=42)
    answer = await api.request("DELETE", f"{PODS}/p", params={"gracePeriodSeconds": "0"})
    assert answer.status_code == 200
    assert (await api.get(f"{PODS}/p")).status_code == 404


@pytest.mark.parametrize("grace", ["-5", str(2**63 - 1), str(-(2**63))])
async def test_an_odd_grace_period_is_no_error(api: Client, grace: str) -> None:
    await create(api, PODS, "p")
    answer = await api.request("DELETE", f"{PODS}/p", params={"gracePeriodSeconds": grace})
    assert answer.status_code == 200, answer.text


# -- across restarts ---------------------------------------------------------------------------


def _encode(obj: Object, _revision: int) -> bytes:
    return msgspec.json.encode(obj)


async def test_collection_that_a_stop_interrupted_is_finished_after_the_restart(
    tmp_path: Path,
) -> None:
    """The store holds what a crash right after each write would leave behind."""
    old = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    stored: dict[tuple[str, str, str], Object] = {
        ("namespaces", "", "doomed"): {
            "metadata": {"name": "doomed", "uid": "n", "deletionTimestamp": old},
            "spec": {"finalizers": ["kubernetes"]},
        },
        ("namespaces", "", "default"): {"metadata": {"name": "default", "uid": "d"}},
        ("configmaps", "doomed", "left"): {
            "metadata": {"name": "left", "namespace": "doomed", "uid": "l"}
        },
        ("configmaps", "default", "dependent"): {
            "metadata": {
                "name": "dependent",
                "namespace": "default",
                "uid": "c",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "went", "uid": "w"}
                ],
            }
        },
        ("events", "default", "old"): {
            "metadata": {
                "name": "old",
                "namespace": "default",
                "uid": "e",
                "creationTimestamp": old,
            },
            "lastTimestamp": "9999-01-01T00:00:00Z",
        },
        ("events", "default", "renewed"): {
            "metadata": {
                "name": "renewed",
                "namespace": "default",
                "uid": "f",
                "creationTimestamp": old,
                "managedFields": [{"time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}],
            },
        },
    }
    kinds = {"namespaces": "Namespace", "configmaps": "ConfigMap", "events": "Event"}
    store = await Store.open(tmp_path)
    for place, body in stored.items():
        key = Key(*place)
        whole = {"apiVersion": "v1", "kind": kinds[key.resource], **body}
        async with store.locked(key):
            await store.write("ADDED", key, partial(_encode, whole), None)
    gone: set[Key] = set()
    done = asyncio.Event()

    def follow(event: Event) -> None:
        if event.type == "DELETED":
            gone.add(event.key)
            if len(gone) == 4:
                done.set()

    store.listen(follow)
    registry = Registry.load()
    writer = Writer(store, Offload())
    collector = Collector(store, registry, writer, Definitions(store, registry, writer))
    try:
        collector.start()
        async with asyncio.timeout(10):
            await done.wait()
    finally:
        await collector.stop()
        await store.close()
    assert {key.name for key in gone} == {"doomed", "left", "dependent", "old"}


async def test_deletions_go_on_after_a_restart(options: ServerOptions) -> None:
    async with serve(options) as server, Client(server.url) as api:
        owner = await create(api, CONFIG_MAPS, "owner")
        references = owned_by(owner, block=True)
        await create(api, CONFIG_MAPS, "held", ownerReferences=references, finalizers=["e.com/x"])
        await delete(api, f"{CONFIG_MAPS}/owner", "Foreground")
        await api.post(NAMESPACES, json={"metadata": {"name": "doomed"}})
        inside = f"{NAMESPACES}/doomed/configmaps"
        await create(api, inside, "held", finalizers=["e.com/x"])
        await delete(api, f"{NAMESPACES}/doomed")
    async with serve(replace(options)) as server, Client(server.url) as api:
        release = {"metadata": {"finalizers": None}}
        for path in (CONFIG_MAPS, inside):
            await api.patch_as("merge-patch+json", f"{path}/held", release)
        await api.until_gone(f"{CONFIG_MAPS}/owner")
        await api.until_gone(f"{NAMESPACES}/doomed")
