"""Stored definitions that could not be made today, and those that a full disk left half way."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.storage import checksums
from hypercobalt.apiserver.storage.objects import Key

from .conftest import Client, token_file

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]


def definition(plural: str, spec: Object, **version: Any) -> Object:  # noqa: ANN401  # JSON
    kind = plural.capitalize()
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    **version,
                }
            ],
        },
    }


def thing(plural: str, spec: object) -> Object:
    kind = plural.capitalize()
    return {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec,
    }


def rewrite_stored(database: Path, old: str, new: str) -> None:
    """Change the stored objects in the file, as an older version would have written them."""
    with contextlib.closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE objects SET data = CAST(replace(data, ?, ?) AS BLOB)", (old, new))
        db.create_function("of", 5, lambda *row: checksums.of_object(Key(*row[:3]), *row[3:]))
        db.execute("UPDATE objects SET checksum = of(resource, namespace, name, revision, data)")


async def test_a_stored_definition_that_would_be_refused_today_is_served_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    options = ServerOptions(tmp_path / "data", port=0, token_auth_file=token_file(tmp_path))
    text = {"type": "string", "pattern": "^PATTERN$"}
    ruled = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'RULE'"}]}
    column = {"name": "C", "type": "string", "jsonPath": ".spec.COLUMN"}
    async with serve(options) as server, Client(server.url) as client:
        for body in (
            definition("texts", text),
            definition("rules", ruled),
            definition("columns", {"type": "string"}, additionalPrinterColumns=[column]),
        ):
            assert (await client.post(DEFINITIONS, json=body)).status_code == 201
    rewrite_stored(options.data / "cobalt.db", "^PATTERN$", "(?=a)")
    rewrite_stored(options.data / "cobalt.db", "self != 'RULE'", "self !=")
    rewrite_stored(options.data / "cobalt.db", ".spec.COLUMN", ".spec[")

    async with serve(options) as server, Client(server.url) as client:
        messages: dict[str, str] = {}
        for plural in ("texts", "rules"):
            path = f"/apis/example.com/v1/{plural}"
            answer = await client.post(path, json=thing(plural, "b"))
            assert answer.status_code == 422, answer.text
            messages[plural] = answer.json()["message"]
            # What does not meet the fault is taken.
            body = thing(plural, None)
            del body["spec"]
            assert (await client.post(path, json=body)).status_code == 201
            # Its definition can still be changed, where that is not about the fault.
            patch = {"metadata": {"labels": {"a": "b"}}}
            path = f"{DEFINITIONS}/{plural}.example.com"
            assert (await client.patch_as("merge-patch+json", path, patch)).status_code == 200
        path = "/apis/example.com/v1/columns"
        assert (await client.post(path, json=thing("columns", "b"))).status_code == 201
        table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        shown = (await client.get(path, headers=table)).json()
    assert "but pattern is invalid: error parsing regexp" in messages["texts"]
    assert "rule compile error: compilation failed" in messages["rules"]
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Age"]


async def test_a_definition_whose_status_found_no_space_is_served_when_there_is_some(
    small_disk: Path,
) -> None:
    options = ServerOptions(
        small_disk / "data", port=0, token_auth_file=token_file(small_disk.parent)
    )
    body = definition("things", {"type": "string", "description": "x" * 100_000})
    created = f"{DEFINITIONS}/{body['metadata']['name']}"
    async with serve(options) as server, Client(server.url) as client:
        filler = small_disk / "filler"
        left = os.statvfs(small_disk)
        filler.write_bytes(bytes(left.f_bavail * left.f_frsize))
        answer = await client.post(DEFINITIONS, json=body)
        while answer.status_code != 201:
            assert answer.status_code == 507, answer.text
            os.truncate(filler, filler.stat().st_size - 32 * 1024)
            answer = await client.post(DEFINITIONS, json=body)
        assert not (await client.get(created)).json()["status"]["conditions"]
        assert (await client.get("/apis/example.com/v1/things")).status_code == 404
        since = answer.json()["metadata"]["resourceVersion"]
        async with client.watching(DEFINITIONS, resourceVersion=since) as watch:
            filler.unlink()
            _, obj = await watch.next()
        assert {c["type"]: c["status"] for c in obj["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        answer = await client.post("/apis/example.com/v1/things", json=thing("things", "a"))
        assert answer.status_code == 201, answer.text
