"""The embedded server with VirtualMachineInstances, as `cobalt apiserver --virt` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.apiserver.conftest import Client, fresh

from hypercobalt import pki
from hypercobalt.api.kubevirt import definition
from hypercobalt.apiserver.server import serve
from hypercobalt.cli.vmi_hook import VMIHook
from hypercobalt.virt.api.verdicts import VMIAdmission
from hypercobalt.vmi.cluster import ClusterConfig

INSTANCES = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
ONE = f"{INSTANCES}/one"
Object = dict[str, Any]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Client]:
    pki.prepare(tmp_path / "pki", "127.0.0.1")
    options = replace(
        fresh(tmp_path, tmp_path / "pki"),
        manifests=(msgspec.json.encode(definition.manifest()),),
        hooks=(VMIHook(VMIAdmission(ClusterConfig())),),
    )
    async with serve(options) as server, Client(server.url) as client:
        yield client


def instance(**domain: object) -> Object:
    spec = {"domain": {"devices": {}, "memory": {"guest": "128Mi"}, **domain}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "one"},
        "spec": spec,
    }


async def test_instance_is_defaulted_refused_and_kept(api: Client) -> None:
    made = await api.post(INSTANCES, json=instance())
    assert made.status_code == 201
    assert made.json()["status"]["phase"] == "Pending"
    assert made.json()["metadata"]["finalizers"] == ["kubevirt.io/foregroundDeleteVirtualMachine"]
    refused = await api.post(INSTANCES, json=instance(machine={"type": "none"}))
    assert refused.status_code == 422
    (cause,) = refused.json()["details"]["causes"]
    assert cause["field"] == "spec.domain.machine.type"
    changed = await api.patch_as("merge-patch+json", ONE, {"status": {"phase": "Running"}})
    assert changed.json()["status"]["phase"] == "Pending"
    (listed,) = (await api.get(INSTANCES)).json()["items"]
    assert listed["spec"] == made.json()["spec"]


async def test_old_version_is_admitted_as_the_new_one(api: Client) -> None:
    old = {**instance(), "apiVersion": "kubevirt.io/v1alpha3"}
    made = await api.post(INSTANCES.replace("/v1/", "/v1alpha3/"), json=old)
    assert made.status_code == 201
    assert "deprecated" in made.headers["warning"]
    assert (await api.get(ONE)).json()["status"]["phase"] == "Pending"


def many_disks(count: int) -> bytes:
    names = [f"d{number}" for number in range(count)]
    body = instance(devices={"disks": [{"name": name, "disk": {}} for name in names]})
    body["spec"]["volumes"] = [{"name": n, "containerDisk": {"image": "i"}} for n in names]
    return msgspec.json.encode(body)


def nested(depth: int) -> bytes:
    body = msgspec.json.encode(instance(clock="deep"))
    return body.replace(b'"deep"', b'{"a":' * depth + b"1" + b"}" * depth)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(many_disks(10_000), id="ten-thousand-disks"),
        pytest.param(nested(150), id="deep"),
        pytest.param(nested(100_000), id="too-deep"),
        pytest.param(msgspec.json.encode(instance(cpu={"model": "x" * (2**20)})), id="long-text"),
        pytest.param(msgspec.json.encode({**instance(), "spec": []}), id="list"),
        pytest.param(msgspec.json.encode({**instance(), "spec": {"domain": 7}}), id="number"),
        pytest.param(msgspec.json.encode({**instance(), "status": "x"}), id="status-of-text"),
    ],
)
async def test_instance_that_is_none_harms_nobody(api: Client, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    sent = asyncio.create_task(api.post(INSTANCES, content=body, headers=headers, timeout=60))
    while not sent.done():
        async with asyncio.timeout(10):
            assert (await api.get("/readyz")).status_code == 200
        await asyncio.sleep(0.05)
    assert (await sent).status_code < 500
    await api.delete(ONE)
    assert (await api.get(INSTANCES)).status_code == 200
