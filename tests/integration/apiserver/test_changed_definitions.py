"""What a definition that has changed once costs the server from then on."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from hypercobalt.apiserver.storage.store import KEEP_BYTES

from .conftest import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"
LARGE = 600_000
Object = dict[str, Any]


def definition(**defaulted: str) -> Object:
    fields = {name: {"type": "string", "default": value} for name, value in defaulted.items()}
    spec = {"type": "object", "properties": {"text": {"type": "string"}, **fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


def thing(name: str) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"text": "x" * LARGE},
    }


@pytest.mark.parametrize("end", ["changed", "deleted"])
async def test_states_that_are_gone_are_not_kept(api: Client, end: str) -> None:
    """But for the history: each state has been read and watched."""
    assert (await api.post(DEFINITIONS, json=definition())).status_code == 201
    assert (await api.post(THINGS, json=thing("old"))).status_code == 201
    changed = {"spec": definition(more="x")["spec"]}
    path = f"{DEFINITIONS}/things.example.com"
    assert (await api.patch_as("merge-patch+json", path, changed)).status_code == 200
    assert (await api.get(f"{THINGS}/old")).json()["spec"]["more"] == "x"
    assert (await api.delete(THINGS)).status_code == 200
    tracemalloc.start()
    try:
        async with api.watching(THINGS) as watch:
            for number in range(3 * KEEP_BYTES // LARGE):
                name = f"a{number}" if end == "deleted" else "a"
                path = f"{THINGS}/{name}"
                if end == "deleted" or number == 0:
                    await api.post(THINGS, json=thing(name))
                else:
                    await api.patch_as("merge-patch+json", path, {"spec": {"more": str(number)}})
                assert (await watch.next())[1]["spec"]["more"]
                assert (await api.get(path)).status_code == 200
                if end == "deleted":
                    await api.delete(path)
                    assert (await watch.next())[0] == "DELETED"
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 * KEEP_BYTES, held_bytes
