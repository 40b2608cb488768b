"""What a cluster leaves to kube-controller-manager and the embedded server does itself.

A bare kube-apiserver has no garbage collector and no namespace controller, so these scenarios run
on the embedded server alone and hold it against what the Kubernetes documentation promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.conformance.real import Server
from tests.conformance.samples import config_map, gadget
from tests.conformance.script import Answer, Api
from tests.conformance.targets import client_of
from tests.conformance.wire import Body

WAIT_SECONDS = 30


@pytest.fixture
async def api(embedded: Server, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    async with client_of(embedded) as client:
        name = request.node.name.replace("_", "-")[5:45].strip("-")
        api = Api(embedded, client, name)
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        yield api


async def status_of(api: Api, path: str) -> int:
    return (await api.request("GET", path)).status


async def gone(api: Api, path: str) -> bool:
    """Wait until `path` is not found; False when it stays."""
    for _ in range(WAIT_SECONDS * 20):
        if await status_of(api, path) == httpx2.codes.NOT_FOUND:
            return True
        await asyncio.sleep(0.05)
    return False


async def make(api: Api, resource: str, body: Body) -> Answer:
    made = await api.request("POST", api.at(resource), body)
    assert made.status == httpx2.codes.CREATED, made.body
    return made


def owned_by(owner: Answer, *, blocking: bool = False) -> Body:
    reference = {
        **{key: owner[key] for key in ("apiVersion", "kind")},
        "name": owner["metadata"]["name"],
        "uid": owner.uid,
        **({"blockOwnerDeletion": True} if blocking else {}),
    }
    return {"ownerReferences": [reference]}


async def test_dependents_follow_their_owner_in_the_background(api: Api) -> None:
    owner = await make(api, "gadgets", gadget("owner"))
    child = await make(api, "configmaps", config_map("child", **owned_by(owner)))
    await make(api, "configmaps", config_map("grandchild", **owned_by(child)))
    await make(api, "configmaps", config_map("stranger"))
    await api.request("DELETE", api.at("gadgets", "owner"))
    assert await gone(api, api.at("configmaps", "child"))
    assert await gone(api, api.at("configmaps", "grandchild"))
    assert await status_of(api, api.at("configmaps", "stranger")) == 200


async def test_foreground_deletion_waits_for_blocking_dependents(api: Api) -> None:
    owner = await make(api, "gadgets", gadget("owner"))
    held = config_map("child", finalizers=["a.b/c"], **owned_by(owner, blocking=True))
    await make(api, "configmaps", held)
    answer = await api.request(
        "DELETE", api.at("gadgets", "owner"), {"propagationPolicy": "Foreground"}
    )
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.until(api.at("configmaps", "child"), lambda a: "deletionTimestamp" in a["metadata"])
    assert await status_of(api, api.at("gadgets", "owner")) == 200
    await api.patch(api.at("configmaps", "child"), {"metadata": {"finalizers": None}})
    assert await gone(api, api.at("gadgets", "owner"))


async def test_orphaned_dependents_stay_and_lose_the_reference(api: Api) -> None:
    owner = await make(api, "gadgets", gadget("owner"))
    await make(api, "configmaps", config_map("child", **owned_by(owner)))
    await api.request("DELETE", api.at("gadgets", "owner"), {"propagationPolicy": "Orphan"})
    assert await gone(api, api.at("gadgets", "owner"))
    child = await api.request("GET", api.at("configmaps", "child"))
    assert child.status == 200
    assert not child["metadata"].get("ownerReferences")


async def test_dependent_with_another_owner_stays(api: Api) -> None:
    first = await make(api, "gadgets", gadget("first"))
    second = await make(api, "gadgets", gadget("second"))
    both = owned_by(first)["ownerReferences"] + owned_by(second)["ownerReferences"]
    await make(api, "configmaps", config_map("child", ownerReferences=both))
    await api.request("DELETE", api.at("gadgets", "first"))
    assert await gone(api, api.at("gadgets", "first"))
    await asyncio.sleep(0.5)
    assert await status_of(api, api.at("configmaps", "child")) == 200
    await api.request("DELETE", api.at("gadgets", "second"))
    assert await gone(api, api.at("configmaps", "child"))


async def test_dependent_without_owners_is_collected(api: Api) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such-uid"}
    await make(api, "configmaps", config_map("child", ownerReferences=[ghost]))
    assert await gone(api, api.at("configmaps", "child"))


async def test_deleted_namespace_takes_its_content_along(api: Api) -> None:
    name = f"{api.namespace}-b"
    path = f"/api/v1/namespaces/{name}"
    await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    await api.request("POST", api.at("gadgets", ns=name), gadget("one"))
    held = config_map("held", finalizers=["a.b/c"])
    await api.request("POST", api.at("configmaps", ns=name), held)
    deleted = await api.request("DELETE", path)
    assert deleted["status"]["phase"] == "Terminating"
    assert await gone(api, api.at("gadgets", "one", ns=name))
    assert await status_of(api, path) == 200  # an object with a finalizer is left
    await api.patch(api.at("configmaps", "held", ns=name), {"metadata": {"finalizers": None}})
    assert await gone(api, path)
    again = await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert again.status == httpx2.codes.CREATED


async def test_bookmarks_are_sent_to_clients_that_request_them(api: Api) -> None:
    path = f"{api.at('configmaps')}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3"
    answer = await api.request("GET", path)
    assert '"type":"BOOKMARK"' in str(answer.body).replace(" ", "").replace("'", '"')
