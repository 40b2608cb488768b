"""Requests whose answers show an object to who may not read it: known ways, as data.

A patch is applied before any admission plugin sees it, and what it makes is decoded and validated
before that too: the message of an error shows values. Other answers show the whole object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from tests.conformance.hosts import Fleet
from tests.conformance.wire import Body, Json

_JSON, _MERGE = "application/json-patch+json", "application/merge-patch+json"
_STRATEGIC, _APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_PLAIN = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


class Echo(NamedTuple):
    """One request.

    Args:
        title: what is tried.
        method: of HTTP.
        query: of the URL, with its `?`.
        body: None for none.
        media: of the body.
        accept: of the answer.
        named: the object's own path; else that of its collection.
    """

    title: str
    method: str
    query: str = ""
    body: Json = None
    media: str = _PLAIN
    accept: str = _PLAIN
    named: bool = True

    def send(self, hosts: Fleet, node: str, collection: str, name: str) -> tuple[int, str]:
        """Send it with the token of a Node's agent, and return code and text of the answer."""
        path = f"{collection}/{name}" if self.named else collection
        media = {"Content-Type": self.media, "Accept": self.accept}
        return hosts.ask(node, self.method, path + self.query, self.body, media)


def echoes(present: Body, path: str, value: str) -> Iterator[Echo]:
    """Every known way to have an object shown.

    Args:
        present: the object as it is stored.
        path: JSON pointer to the field to read, which has a string.
        value: the string there.
    """
    meta, field = present["metadata"], path.strip("/").split("/")
    head: Body = {key: present[key] for key in ("apiVersion", "kind")}
    named: Body = {**head, "metadata": {"name": meta["name"], "namespace": meta["namespace"]}}
    wrong = _nested(field, 1)
    for target in ("/type", "/immutable", "/kind", "/metadata/labels", "/metadata/name"):
        for op in ("copy", "move"):
            patch = [{"op": op, "from": path, "path": target}]
            yield Echo(f"JSON patch, {op} to {target}", "PATCH", "", patch, _JSON)
    for guess in (value, "another"):
        patch = [{"op": "test", "path": path, "value": guess}]
        yield Echo("JSON patch, a test of the value", "PATCH", "", patch, _JSON)
    yield Echo("JSON patch without an effect", "PATCH", "", [], _JSON)
    for media in (_MERGE, _STRATEGIC):
        for changes in ({}, {"immutable": "x"}, wrong, {"metadata": {"labels": 1}}):
            yield Echo(f"{media}: {changes}", "PATCH", "", changes, media)
        conflict: Body = {"metadata": {"resourceVersion": "1"}}
        yield Echo(f"{media}: of another version", "PATCH", "", conflict, media)
    for query in ("?fieldManager=a", "?fieldManager=a&force=true"):
        for changes in ({}, {"immutable": "x"}, wrong):
            yield Echo("apply", "PATCH", query, {**named, **changes}, _APPLY)
    for query in ("?dryRun=All", "?fieldValidation=Strict", "?fieldValidation=Warn&pretty=true"):
        unknown: Body = {"unknown": {"a": 1}}
        yield Echo(f"merge {query}", "PATCH", query, unknown, _MERGE)
        yield Echo(f"PUT {query}", "PUT", query, {**named, **unknown})
        yield Echo(f"apply {query}", "PATCH", f"{query}&fieldManager=a", named, _APPLY)
    for accept in (TABLE, METADATA):
        for method, body in (("GET", None), ("PATCH", {}), ("PUT", named), ("DELETE", None)):
            media = _MERGE if method == "PATCH" else _PLAIN
            yield Echo(f"{method} as {accept}", method, "?dryRun=All", body, media, accept)
        yield Echo("list", "GET", "", None, _PLAIN, accept, named=False)
    yield Echo("PUT", "PUT", "", named)
    yield Echo("PUT of another version", "PUT", "", _with(named, resourceVersion="1"))
    yield Echo("PUT of another uid", "PUT", "", _with(named, uid="x"))
    yield Echo("DELETE", "DELETE", "?dryRun=All")
    options: Body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}}
    yield Echo("DELETE of another uid", "DELETE", "", options)
    yield Echo("DELETE of all", "DELETE", "?dryRun=All", named=False)
    yield Echo("POST of the name", "POST", "", named, named=False)
    generated: Body = {**head, "metadata": {"generateName": meta["name"]}}
    yield Echo("POST of a generated name", "POST", "?dryRun=All", generated, named=False)
    yield Echo("GET", "GET")
    selected = f"?fieldSelector=metadata.name={meta['name']}"
    for query in ("", "?watch=true&timeoutSeconds=1", selected):
        yield Echo(f"list {query}", "GET", query, named=False)


def shown(answer: str, *values: str) -> list[str]:
    """Return the values that an answer shows, as they are or inside a string of JSON."""
    return [one for one in values if one in answer or json.dumps(one)[1:-1] in answer]


def _nested(field: list[str], value: Json) -> Body:
    name, *rest = field
    return {name: _nested(rest, value) if rest else value}


def _with(body: Body, **meta: str) -> Body:
    return {**body, "metadata": {**body["metadata"], **meta}}
