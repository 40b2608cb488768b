"""Sets of fields that nest without end: no client loses another object.

kube-apiserver keeps what a writer puts into `metadata.managedFields`, thousands of levels deep, and
shows it to whoever lists or watches: the operator. A write of a status changes nothing of it, and
the agents' policy refuses the rest (`test_managed_fields`); but not every writer is an agent. The
embedded server refuses it for all.
"""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.conformance.hosts import BY_NAME, PATCHES, Fleet
from tests.conformance.own_host import OTHER, OWN, hosts, objects
from tests.conformance.real import TOKEN
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.coordination import LeaseGlance
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Informer, Kube, Metrics, load_connection
from hypercobalt.runtime.client.requests import Selection

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

LEVELS = 3000
FIELDS = b'{"f:a":' * LEVELS + b"{}" + b"}" * LEVELS
CHANGED = "example.com/changed"


def writes(hosts: Fleet, path: str, api_version: str, token: str) -> int:
    """Put such a set into an object; returns the code of the answer."""
    body = (
        b'{"metadata":{"managedFields":[{"manager":"x","operation":"Update","apiVersion":"%s",'
        b'"time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":%s}]}}'
    ) % (api_version.encode(), FIELDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": PATCHES["merge"]}
    return hosts.client.request("PATCH", path, content=body, headers=headers).status_code


def is_deep(hosts: Fleet, path: str) -> bool:
    answer = hosts.client.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    return FIELDS in answer.content.replace(b" ", b"")


def clear(hosts: Fleet, path: str) -> None:
    body = b'{"metadata":{"managedFields":[{}]}}'
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": PATCHES["merge"]}
    hosts.client.request("PATCH", path, content=body, headers=headers)


@pytest.mark.parametrize(
    ("group", "plural", "subresource", "type_"),
    [
        ("coordination.k8s.io", "leases", "", LeaseGlance),
        ("kvm.cloud.sap", "hypervisors", "status", Hypervisor),
    ],
)
async def test_deep_object_of_one_host_hides_no_other(
    hosts: Fleet,
    group: str,
    plural: str,
    subresource: str,
    type_: type[LeaseGlance] | type[Hypervisor],
) -> None:
    kind = BY_NAME[group, plural]
    space = kind.space if kind.namespaced else None
    async with Kube(load_connection(hosts.server.kubeconfig), field_manager="person") as kube:
        informer = Informer(kube, Selection(type_, space), metrics=Metrics())
        following = asyncio.create_task(informer.run())
        try:
            await informer.wait_synced()
            path = kind.path(OWN, subresource)
            version, real = f"{group}/{kind.version}", hosts.server.name == "real"
            code = await asyncio.to_thread(writes, hosts, path, version, hosts._token(OWN))
            assert code == (400 if not real else 200 if subresource else 403)
            await asyncio.to_thread(writes, hosts, path, version, TOKEN)
            deep = await asyncio.to_thread(is_deep, hosts, kind.path(OWN))
            assert deep == (real and plural == "leases")
            at = str(time.monotonic_ns())
            change = {"metadata": {"annotations": {CHANGED: at}}}
            await kube.merge_patch(type_, kind.name(OTHER), change, space)

            def is_seen() -> bool:
                assert not following.done()
                seen = informer.cache.get(kind.name(OTHER), space)
                return seen is not None and seen.metadata.annotations.get(CHANGED) == at

            await eventually(is_seen, seconds=45)
            assert informer.breaks == 0
            listed = await kube.list(type_, space)
            names = {one.metadata.name for one in listed.items}
            assert {kind.name(OWN), kind.name(OTHER)} <= names
        finally:
            following.cancel()
            await asyncio.to_thread(clear, hosts, kind.path(OWN))
