"""A Node that stops reporting becomes Unknown and tainted, and is itself again when it reports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hypercobalt.apiserver.server import ServerOptions, serve

from .conftest import Client, Watch

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
GRACE = timedelta(seconds=0.3)
UNREACHABLE = "node.kubernetes.io/unreachable"

Object = dict[str, Any]


@pytest.fixture
async def api(options: ServerOptions) -> AsyncIterator[Client]:
    async with serve(replace(options, node_grace=GRACE)) as server, Client(server.url) as client:
        yield client


async def make_node(api: Client, name: str) -> None:
    assert (await api.post(NODES, json={"metadata": {"name": name}})).status_code == 201
    await post_status(api, name)


async def post_status(api: Client, name: str, beat: str = "2026-11-22T10:00:00Z") -> None:
    """Write the status that a kubelet writes."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": beat}
    body = {"status": {"conditions": [ready]}}
    kind = "strategic-merge-patch+json"
    answer = await api.patch_as(kind, f"{NODES}/{name}/status", body)
    assert answer.status_code == 200, answer.text


async def make_lease(api: Client, name: str) -> None:
    lease = {"metadata": {"name": name}, "spec": {"renewTime": "2026-11-22T10:00:00.000000Z"}}
    assert (await api.post(LEASES, json=lease)).status_code == 201


async def renew(api: Client, name: str, second: int) -> None:
    body = {"spec": {"renewTime": f"2026-11-22T10:00:{second:02}.000000Z"}}
    assert (await api.patch_as("merge-patch+json", f"{LEASES}/{name}", body)).status_code == 200


async def until(watch: Watch, ready: str, taints: int) -> Object:
    while True:
        _, node = await watch.next()
        conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
        if conditions.get("Ready") == ready and len(node["spec"].get("taints", [])) == taints:
            return node


async def test_a_node_whose_lease_is_not_renewed_is_unreachable_until_it_reports(
    api: Client,
) -> None:
    await make_node(api, "kvm-1")
    await make_lease(api, "kvm-1")
    async with api.watching(NODES, fieldSelector="metadata.name=kvm-1") as watch:
        lost = await until(watch, "Unknown", 2)
        taints = {(one["key"], one["effect"]) for one in lost["spec"]["taints"]}
        assert taints == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        reasons = {one["type"]: one["reason"] for one in lost["status"]["conditions"]}
        assert reasons["Ready"] == "NodeStatusUnknown"
        assert reasons["DiskPressure"] == "NodeStatusNeverUpdated"

        await renew(api, "kvm-1", 1)
        await post_status(api, "kvm-1", "2026-11-22T10:00:01Z")
        await until(watch, "True", 0)


async def test_a_node_without_a_lease_keeps_the_status_that_it_was_given(api: Client) -> None:
    await make_node(api, "by-hand")
    await make_node(api, "kvm-1")
    await make_lease(api, "kvm-1")
    async with api.watching(NODES, fieldSelector="metadata.name=kvm-1") as watch:
        await until(watch, "Unknown", 2)
    by_hand = (await api.get(f"{NODES}/by-hand")).json()
    assert [one["status"] for one in by_hand["status"]["conditions"]] == ["True"]
    assert "taints" not in by_hand["spec"]


async def test_a_lost_node_is_still_lost_after_a_restart_and_found_again(
    options: ServerOptions,
) -> None:
    short = replace(options, node_grace=GRACE)
    async with serve(short) as server, Client(server.url) as api:
        await make_node(api, "kvm-1")
        await make_lease(api, "kvm-1")
        async with api.watching(NODES) as watch:
            await until(watch, "Unknown", 2)
    async with serve(short) as server, Client(server.url) as api, api.watching(NODES) as watch:
        await until(watch, "Unknown", 2)
        await renew(api, "kvm-1", 1)
        await post_status(api, "kvm-1", "2026-11-22T10:00:01Z")
        await until(watch, "True", 0)


async def test_node_that_died_while_the_server_was_down_becomes_unknown(
    options: ServerOptions,
) -> None:
    async with serve(options) as server, Client(server.url) as api:
        await make_node(api, "kvm-1")
        await make_lease(api, "kvm-1")
    short = replace(options, node_grace=GRACE)
    async with serve(short) as server, Client(server.url) as api, api.watching(NODES) as watch:
        await until(watch, "Unknown", 2)
