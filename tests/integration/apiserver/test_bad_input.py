"""Bad requests are answered with a Status, and the server goes on for other clients."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from hypercobalt.apiserver.requests.bodies import MAX_BODY

from .conftest import Client

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ONE = f"{CONFIG_MAPS}/c"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
HYPERVISORS = "/apis/kvm.cloud.sap/v1/hypervisors"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = {"content-type": "application/json"}
YAML = {"content-type": "application/yaml"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

Object = dict[str, Any]
pytestmark = pytest.mark.asyncio(loop_scope="module")


def config_map(name: str = "c", **metadata: Any) -> Object:  # noqa: ANN401  # any bad value
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def definition(plural: str, schema: Object, **version: object) -> Object:
    served = {"name": "v1", "served": True, "storage": True, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def refused(answer: httpx2.Response, code: int) -> str:
    """Check that an answer is a Status of this code; give its message."""
    body = answer.json()
    assert (answer.status_code, body["kind"], body["code"]) == (code, "Status", code), body
    assert body["status"] == "Failure"
    return str(body["message"])


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Client) -> AsyncIterator[Client]:
    """A client; whatever a test sent, the server still serves and writes other objects."""
    api = shared
    assert (await api.post(CONFIG_MAPS, json=config_map("before"))).status_code == 201
    yield api
    assert (await api.get(f"{CONFIG_MAPS}/before")).status_code == 200
    queries: tuple[dict[str, str], ...] = (
        {},
        {"labelSelector": "a!=b"},
        {"fieldSelector": "metadata.name!=x"},
    )
    for query in queries:
        assert (await api.get(CONFIG_MAPS, params=query)).status_code == 200
    assert (await api.get(CONFIG_MAPS, headers=TABLE)).status_code == 200
    assert (await api.post(CONFIG_MAPS, json=config_map("after"))).status_code == 201
    assert (await api.delete(CONFIG_MAPS)).status_code == 200
    await api.delete(f"{DEFINITIONS}/things.example.com")
    await api.until_gone(f"{DEFINITIONS}/things.example.com")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="cut-short"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"7", id="a-number"),
        pytest.param(b'{"kind": "ConfigMap"} x', id="something-behind"),
        pytest.param(b'{"metadata": {"name": "\xff"}}', id="not-utf-8"),
        pytest.param(b'{"metadata": {"name": "\\ud800"}}', id="half-a-surrogate-pair"),
        pytest.param(b"\x00" * 10, id="zeros"),
        pytest.param(b'{"a":' * 300 + b"1" + b"}" * 300, id="300-levels"),
        pytest.param(b"[" * 100_000, id="100000-lists"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="a-number-of-5000-digits"),
        pytest.param(b'{"a": 1e999}', id="a-number-beyond-doubles"),
    ],
)
@pytest.mark.parametrize("path", [CONFIG_MAPS, HYPERVISORS], ids=["built-in", "custom"])
async def test_malformed_json_is_refused(api: Client, path: str, body: bytes) -> None:
    refused(await api.post(path, content=body, headers=JSON), 400)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"a: b: c", id="not-yaml"),
        pytest.param(b"\t", id="a-tab"),
        pytest.param(b"- a", id="a-list"),
        pytest.param(b"a: &x [1]\nb: *x", id="an-alias"),
        pytest.param(b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", id="a-billion-laughs"),
        pytest.param(b"[" * 300_000, id="300000-lists"),
        pytest.param(b"{a: " * 300_000, id="300000-maps"),
        pytest.param(b"- " * 300_000, id="300000-dashes"),
        pytest.param(b"? " * 300_000, id="300000-keys-of-keys"),
        pytest.param(b"a: .nan", id="not-a-number"),
        pytest.param(b"a: -.inf", id="minus-infinity"),
        pytest.param(b"a: !!python/object/apply:os.getpid []", id="a-python-object"),
        pytest.param(b"--- {}\n--- {}", id="two-documents"),
        pytest.param(b"\xff\xfe\x00", id="not-utf-8"),
        pytest.param(b"? [a]\n: b", id="a-list-as-a-key"),
    ],
)
async def test_malformed_yaml_is_refused(api: Client, body: bytes) -> None:
    refused(await api.post(CONFIG_MAPS, content=body, headers=YAML), 400)


async def test_yaml_is_read_as_kubernetes_reads_it(api: Client) -> None:
    text = b"""
apiVersion: v1
kind: ConfigMap
metadata: {name: c, annotations: {time: 2026-01-01T00:00:00Z, day: 2026-01-01, ratio: 12:30}}
"""
    answer = await api.post(CONFIG_MAPS, content=text, headers=YAML)
    assert answer.json()["metadata"]["annotations"] == {
        "time": "2026-01-01T00:00:00Z",
        "day": "2026-01-01",
        "ratio": "12:30",
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CONFIG_MAPS, {"metadata": 5}, id="metadata-is-a-number"),
        pytest.param(CONFIG_MAPS, {"metadata": []}, id="metadata-is-a-list"),
        pytest.param(CONFIG_MAPS, {"metadata": {"name": 5}}, id="name-is-a-number"),
        pytest.param(CONFIG_MAPS, config_map(labels=["a"]), id="labels-are-a-list"),
        pytest.param(CONFIG_MAPS, config_map(labels={"a": 5}), id="label-is-a-number"),
        pytest.param(CONFIG_MAPS, config_map(annotations={"a": True}), id="annotation-is-true"),
        pytest.param(CONFIG_MAPS, config_map(finalizers={"a": 1}), id="finalizers-are-a-map"),
        pytest.param(CONFIG_MAPS, config_map(ownerReferences="x"), id="owners-are-text"),
        pytest.param(CONFIG_MAPS, config_map(ownerReferences=["x"]), id="owner-is-text"),
        pytest.param(CONFIG_MAPS, config_map(managedFields=[5]), id="manager-is-a-number"),
        pytest.param(CONFIG_MAPS, {**config_map(), "data": []}, id="data-is-a-list"),
        pytest.param(CONFIG_MAPS, {**config_map(), "data": {"a": {}}}, id="value-is-a-map"),
        pytest.param(CONFIG_MAPS, {**config_map(), "immutable": "yes"}, id="flag-is-text"),
        pytest.param(CONFIG_MAPS, {**config_map(), "immutable": 2**70}, id="flag-is-huge"),
        pytest.param(CONFIG_MAPS, {**config_map(), "kind": {}}, id="kind-is-a-map"),
        pytest.param(CONFIG_MAPS, {**config_map(), "apiVersion": 1}, id="version-is-a-number"),
        pytest.param(CONFIG_MAPS, {**config_map(), "kind": "Secret"}, id="another-kind"),
        pytest.param(PODS, {"metadata": {"name": "p"}, "spec": []}, id="spec-is-a-list"),
        pytest.param(
            DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"replicas": 1.5}}, id="a-fraction"
        ),
        pytest.param(
            DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"replicas": 2**31}}, id="33-bits"
        ),
    ],
)
async def test_wrong_types_are_refused(api: Client, path: str, body: Object) -> None:
    refused(await api.post(path, json=body), 400)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"finalizers": [None]}, id="finalizer"),
        pytest.param({"ownerReferences": [None]}, id="owner"),
        pytest.param({"generateName": None, "name": None}, id="name"),
    ],
)
async def test_null_where_a_value_is_needed_is_refused(api: Client, metadata: Object) -> None:
    refused(await api.post(CONFIG_MAPS, json={"metadata": {"name": "c", **metadata}}), 422)


@pytest.mark.parametrize(
    ("field", "sent", "stored"),
    [
        pytest.param("labels", None, None, id="no-labels"),
        pytest.param("labels", {"a": None}, {"a": ""}, id="an-empty-label"),
        pytest.param("annotations", {"a": None}, {"a": ""}, id="an-empty-annotation"),
        pytest.param("ownerReferences", None, None, id="no-owners"),
        pytest.param(
            "ownerReferences",
            [{"apiVersion": "x/v1", "kind": "K", "name": "n", "uid": "u", "controller": None}],
            [{"apiVersion": "x/v1", "kind": "K", "name": "n", "uid": "u"}],
            id="no-controller",
        ),
        pytest.param("managedFields", None, None, id="no-managers"),
        pytest.param("deletionTimestamp", None, None, id="not-deleted"),
    ],
)
@pytest.mark.parametrize("verb", ["create", "patch", "apply"])
async def test_null_is_read_as_absent_or_empty(
    api: Client,
    verb: str,
    field: str,
    sent: Any,  # noqa: ANN401
    stored: object,
) -> None:
    path = f"{CONFIG_MAPS}/c"
    if verb == "create":
        answer = await api.post(CONFIG_MAPS, json=config_map(**{field: sent}))
    elif verb == "apply":
        answer = await api.patch_as(
            "apply-patch+yaml", path, config_map(**{field: sent}), fieldManager="m"
        )
    else:
        await api.post(CONFIG_MAPS, json=config_map())
        change = [{"op": "add", "path": f"/metadata/{field}", "value": sent}]
        answer = await api.patch_as("json-patch+json", path, change)
    assert answer.status_code in (200, 201), answer.text
    if field != "managedFields":
        assert answer.json()["metadata"].get(field) == stored
    assert (await api.delete(path)).status_code == 200


@pytest.mark.parametrize("streamed", [False, True], ids=["with-its-length", "in-chunks"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_bodies_beyond_the_limit_are_refused(
    api: Client, method: str, *, streamed: bool
) -> None:
    body = b'{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}'

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/before"
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.request(
        method, path, content=chunks() if streamed else body, headers={"content-type": kind}
    )
    assert refused(answer, 413) == "Request entity too large: limit is 3145728"


def costly_to_read() -> bytes:
    return b"metadata: {name: c}\ndata:\n" + b"".join(b" k%d: v\n" % n for n in range(30_000))


def costly_to_judge() -> bytes:
    """A body with many containers that lack all required fields."""
    return b'{"metadata":{"name":"p"},"spec":{"containers":[%s{}]}}' % (b"{}," * 30_000)


def costly_to_check() -> bytes:
    """A definition with the rules of 100 objects, for each of which the checker learns types."""
    ruled: Object = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 5}},
        "x-kubernetes-validations": [{"rule": "self.a != 'b'"}],
    }
    schema = {"type": "object", "properties": {f"o{number}": ruled for number in range(100)}}
    return msgspec.json.encode(definition("things", schema))


def costly_to_apply() -> bytes:
    """A body with as many items of a set as fit."""
    names = [f"e.com/{number}" for number in range(150_000)]
    return msgspec.json.encode(config_map(finalizers=names))


@pytest.mark.parametrize(
    ("body", "kind", "path", "code"),
    [
        pytest.param(costly_to_read(), "yaml", CONFIG_MAPS, 201, id="costly-to-read"),
        pytest.param(costly_to_judge(), "json", PODS, 422, id="costly-to-judge"),
        pytest.param(costly_to_check(), "json", DEFINITIONS, 201, id="costly-to-check"),
        pytest.param(costly_to_apply(), "apply-patch+yaml", ONE, 413, id="costly-to-apply"),
    ],
)
async def test_other_clients_are_answered_while_a_costly_body_is_handled(
    api: Client, body: bytes, kind: str, path: str, code: int
) -> None:
    headers = {"content-type": f"application/{kind}"}
    method = "PATCH" if path == ONE else "POST"
    loop = asyncio.get_running_loop()
    begin = loop.time()
    sending = asyncio.create_task(
        api.request(
            method, path, params={"fieldManager": "m"}, content=body, headers=headers, timeout=60
        )
    )
    slowest = 0.0
    while not sending.done():
        begun = loop.time()
        assert (await api.get("/readyz")).status_code == 200
        slowest = max(slowest, loop.time() - begun)
    assert (await sending).status_code == code, sending.result().text[:500]
    assert slowest < (loop.time() - begin) / 2
    assert len(sending.result().content) < MAX_BODY, "not every cause is reported"


async def test_objects_do_not_grow_beyond_the_limit_by_patches(api: Client) -> None:
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    await api.post(events, json={"metadata": {"name": "e"}, "involvedObject": about})
    for field in ("message", "reason"):
        patch = {field: "x" * 2_000_000}
        answer = await api.patch_as("merge-patch+json", f"{events}/e", patch)
    assert "too large" in refused(answer, 413)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v2/pods", 404, id="unknown-version"),
        pytest.param("GET", "/apis/example.com/v1/things", 404, id="unknown-group"),
        pytest.param("GET", "/api/v1/namespaces/default/things", 404, id="unknown-kind"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, id="a-node-in-a-namespace"),
        pytest.param("GET", f"{HYPERVISORS}/a/b/c/d", 404, id="too-long"),
        pytest.param("GET", f"{HYPERVISORS}/a/scale", 404, id="unknown-subresource"),
        pytest.param("GET", f"{PODS}/p/log", 501, id="a-subresource-we-refuse-by-name"),
        pytest.param("GET", f"{CONFIG_MAPS}/a%00b", 404, id="zero-byte-in-a-name"),
        pytest.param("GET", f"{CONFIG_MAPS}/%ff", 404, id="bad-utf-8-in-a-name"),
        pytest.param("GET", f"{CONFIG_MAPS}/a%252Fb", 404, id="slash-escaped-twice"),
        pytest.param("GET", "//api/v1/pods", 404, id="two-slashes"),
        pytest.param("GET", f"{CONFIG_MAPS}/{'a' * 60_000}", 404, id="a-name-of-60000-letters"),
        pytest.param("POST", f"{CONFIG_MAPS}/before", 405, id="post-to-an-object"),
        pytest.param("PUT", CONFIG_MAPS, 405, id="put-to-a-collection"),
        pytest.param("PATCH", CONFIG_MAPS, 405, id="patch-a-collection"),
        pytest.param("POST", "/api/v1/pods", 405, id="post-across-namespaces"),
        pytest.param("OPTIONS", CONFIG_MAPS, 405, id="options"),
        pytest.param("TRACE", CONFIG_MAPS, 405, id="trace"),
    ],
)
async def test_unserved_paths_and_methods_are_refused(
    api: Client, method: str, path: str, code: int
) -> None:
    answer = await api.request(method, path)
    if answer.text == "404 page not found\n":  # of Go's HTTP server
        assert answer.status_code == code
    else:
        refused(answer, code)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("limit", "abc", id="limit-is-text"),
        pytest.param("limit", "1_0", id="limit-has-an-underscore"),
        pytest.param("limit", "٣", id="limit-in-arabic-digits"),
        pytest.param("limit", "9" * 30, id="limit-beyond-64-bits"),
        pytest.param("timeoutSeconds", "9" * 400, id="timeout-beyond-doubles"),
        pytest.param("timeoutSeconds", "1.5", id="timeout-is-a-fraction"),
        pytest.param("resourceVersion", "abc", id="version-is-text"),
        pytest.param("resourceVersion", "-1", id="version-is-negative"),
        pytest.param("resourceVersion", "9" * 30, id="version-beyond-64-bits"),
        pytest.param("continue", "abc", id="token-is-text"),
        pytest.param("continue", "\x00", id="token-is-a-zero"),
        pytest.param("continue", "e30", id="token-is-empty"),
        pytest.param("labelSelector", "a=b,", id="labels-end-with-a-comma"),
        pytest.param("labelSelector", "a in (x", id="labels-lack-a-bracket"),
        pytest.param("labelSelector", "a in (x y)", id="labels-lack-a-comma"),
        pytest.param("labelSelector", "a>x", id="labels-compare-with-text"),
        pytest.param("labelSelector", "a>1_0", id="labels-compare-with-an-underscore"),
        pytest.param("labelSelector", "_=b", id="labels-have-a-bad-key"),
        pytest.param("labelSelector", "(" * 10_000, id="labels-are-brackets"),
        pytest.param("fieldSelector", "a", id="fields-lack-an-operator"),
        pytest.param("fieldSelector", "spec.nodeName=a", id="field-is-not-selectable"),
        pytest.param("fieldSelector", "metadata.name=a\\b", id="fields-have-a-bad-escape"),
        pytest.param("fieldSelector", "metadata.name=a=b", id="fields-have-a-bare-equals"),
    ],
)
async def test_bad_query_parameters_are_refused(api: Client, name: str, value: str) -> None:
    for watch in ({}, {"watch": "true", "timeoutSeconds": "1"}):
        if name in ("continue", "limit") and watch:
            continue  # a watch has no pages
        params = {**watch, name: value}
        if name == "resourceVersion" and watch:
            continue  # answered as kube-apiserver does, with a 500 of its own kind
        if name == "timeoutSeconds":
            params["watch"] = "true"
        refused(await api.get(CONFIG_MAPS, params=params), 400)


async def test_a_forged_continue_token_cannot_name_the_future(api: Client) -> None:
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": 10**9, "start": "/"})
    text = base64.urlsafe_b64encode(token).decode().rstrip("=")
    refused(await api.get(CONFIG_MAPS, params={"continue": text}), 400)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("dryRun", "Some", id="dry-run"),
        pytest.param("fieldValidation", "Perhaps", id="field-validation"),
        pytest.param("fieldManager", "x" * 129, id="a-long-manager"),
        pytest.param("fieldManager", "a\nb", id="a-manager-of-two-lines"),
    ],
)
async def test_bad_write_options_are_refused(api: Client, name: str, value: str) -> None:
    refused(await api.post(CONFIG_MAPS, json=config_map(), params={name: value}), 422)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param({"dryRun": ["Some"]}, 422, id="dry-run"),
        pytest.param({"propagationPolicy": "Sideways"}, 422, id="policy"),
        pytest.param(
            {"propagationPolicy": "Orphan", "orphanDependents": True}, 422, id="two-policies"
        ),
        pytest.param({"gracePeriodSeconds": "x"}, 400, id="grace-is-text"),
        pytest.param({"gracePeriodSeconds": 2**63}, 400, id="grace-beyond-64-bits"),
        pytest.param({"preconditions": 5}, 400, id="preconditions-are-a-number"),
        pytest.param([], 400, id="a-list"),
    ],
)
async def test_bad_delete_options_delete_nothing(api: Client, options: object, code: int) -> None:
    answer = await api.request(
        "DELETE", f"{CONFIG_MAPS}/before", content=msgspec.json.encode(options), headers=JSON
    )
    refused(answer, code)


@pytest.mark.parametrize(
    ("method", "kind", "accept", "code"),
    [
        pytest.param("POST", "text/plain", "*/*", 415, id="text"),
        pytest.param("POST", "application/merge-patch+json", "*/*", 415, id="a-patch-to-create"),
        pytest.param("PUT", "application/merge-patch+json", "*/*", 415, id="a-patch-to-replace"),
        pytest.param("PATCH", "application/json", "*/*", 415, id="json-as-a-patch"),
        pytest.param("PATCH", "", "*/*", 415, id="a-patch-of-no-type"),
        pytest.param("POST", "application/json", "text/html", 406, id="html-wanted"),
        pytest.param("POST", "application/json", ";;;,", 406, id="nonsense-wanted"),
    ],
)
async def test_unknown_media_types_are_refused(
    api: Client, method: str, kind: str, accept: str, code: int
) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/before"
    headers = {"content-type": kind, "accept": accept}
    body = msgspec.json.encode(config_map("before"))
    refused(await api.request(method, path, content=body, headers=headers), code)


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param({"a": 1}, 400, id="a-map"),
        pytest.param([1], 400, id="a-number-as-an-operation"),
        pytest.param([{"op": "test", "path": "/data/a", "value": 1}], 422, id="a-failed-test"),
        pytest.param([{"op": "remove", "path": "/data/x"}], 422, id="a-missing-path"),
        pytest.param([{"op": "dance", "path": "/data"}], 422, id="an-unknown-operation"),
        pytest.param([{"op": "add"}], 422, id="no-path"),
        pytest.param([{"op": "add", "path": 5, "value": 1}], 422, id="path-is-a-number"),
        pytest.param([{"op": "add", "path": "data", "value": {}}], 422, id="path-without-slash"),
        pytest.param([{"op": "add", "path": "", "value": []}], 400, id="the-whole-as-a-list"),
        pytest.param([{"op": "copy", "path": "/data"}], 422, id="a-copy-from-nowhere"),
        pytest.param([{"op": "move", "from": "/metadata", "path": "/metadata/a"}], 422, id="cycle"),
    ],
)
async def test_bad_json_patches_are_refused(api: Client, patch: object, code: int) -> None:
    refused(await api.patch_as("json-patch+json", f"{CONFIG_MAPS}/before", patch), code)


async def test_a_json_patch_cannot_double_an_object_without_end(api: Client) -> None:
    start = {"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 1000}}
    names = ["annotations", *(f"x{number}" for number in range(40))]
    patch: list[Object] = [start]
    for number in range(40):
        held, path = f"/metadata/{names[number]}", f"/metadata/{names[number + 1]}"
        patch += [
            {"op": "add", "path": path, "value": {}},
            {"op": "copy", "from": held, "path": f"{path}/l"},
            {"op": "copy", "from": held, "path": f"{path}/r"},
        ]
    answer = await api.patch_as("json-patch+json", f"{CONFIG_MAPS}/before", patch)
    assert "copied" in refused(answer, 413)


async def test_a_json_patch_cannot_nest_beyond_the_limit(api: Client) -> None:
    patch: list[Object] = [{"op": "add", "path": "/metadata/x", "value": {"a": {}}}]
    path = "/metadata/x"
    for _ in range(12):  # each turn doubles the depth
        patch.append({"op": "copy", "from": "/metadata/x", "path": path + "/b"})
        path += "/b"
    deepest = "/metadata/x" + "/a" * 250
    patch += [{"op": "add", "path": "/metadata/x" + "/a" * n, "value": {}} for n in range(1, 250)]
    patch.append({"op": "add", "path": deepest, "value": 1})
    answer = await api.patch_as("json-patch+json", f"{CONFIG_MAPS}/before", patch)
    assert "deeper" in refused(answer, 400)


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param([], 400, id="a-list"),
        pytest.param({"metadata": 5}, 422, id="metadata-is-a-number"),
        pytest.param({"data": {"a": 5}}, 422, id="value-is-a-number"),
        pytest.param({"kind": "Secret"}, 422, id="another-kind"),
        pytest.param({"metadata": {"name": "other"}}, 400, id="another-name"),
        pytest.param({"metadata": {"resourceVersion": "1"}}, 409, id="another-version"),
        pytest.param({"metadata": {"uid": "x"}}, 422, id="another-uid"),
        pytest.param({"$patch": "dance"}, 400, id="an-unknown-directive"),
        pytest.param({"metadata": {"finalizers": [5]}}, 422, id="finalizer-is-a-number"),
        pytest.param({"metadata": {"ownerReferences": [{}]}}, 400, id="owner-without-its-key"),
    ],
)
async def test_bad_strategic_patches_are_refused(api: Client, patch: object, code: int) -> None:
    answer = await api.patch_as("strategic-merge-patch+json", f"{CONFIG_MAPS}/before", patch)
    refused(answer, code)


async def test_field_names_cannot_break_out_of_the_warning_header(api: Client) -> None:
    body = {**config_map(), 'bad\r\nx-evil: "1': 1, "é": 2, "del\x7f": 3}
    answer = await api.post(CONFIG_MAPS, json=body)
    assert answer.status_code == 201
    assert "x-evil" not in answer.headers
    assert len(answer.headers.get_list("warning")) == 3


async def test_warnings_are_cut_where_headers_would_grow_too_long(api: Client) -> None:
    body = {**config_map(), **{f"field-{number}": 1 for number in range(5000)}}
    answer = await api.post(CONFIG_MAPS, json=body)
    assert answer.status_code == 201
    assert sum(map(len, answer.headers.get_list("warning"))) < 8192


async def test_malformed_managed_fields_are_forgotten(api: Client) -> None:
    for element in ("k:{bad", "k:[1]", "v:{", "x:y", "nonsense"):
        entry = {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {element: {}, "f:a": {}}},
        }
        body = {**config_map(managedFields=[entry]), "data": {"a": "b"}}
        assert (await api.post(CONFIG_MAPS, json=body)).status_code == 201
        config = {**config_map(), "data": {"a": "c"}}
        path = f"{CONFIG_MAPS}/c"
        answer = await api.patch_as("apply-patch+yaml", path, config, fieldManager="x")
        assert answer.status_code in (200, 409), answer.text
        await api.delete(path)


def nested(levels: int, key: str) -> Object:
    schema: Object = {"type": "string"} if key == "items" else {"minItems": 1}
    for _ in range(levels):
        schema = {"type": "array", "items": schema} if key == "items" else {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": None}}, id="a-property-is-null"),
        pytest.param({"properties": {"a": {"type": "string", "pattern": "("}}}, id="bad-pattern"),
        pytest.param({"properties": {"a": {"type": "text"}}}, id="unknown-type"),
        pytest.param({"properties": {"a": {}}}, id="no-type"),
        pytest.param({"$ref": "#/x"}, id="a-reference"),
        pytest.param(
            {
                "properties": {
                    "a": {
                        "type": "object",
                        "default": {"x": "y"},
                        "properties": {
                            "x": {
                                "type": "string",
                                "x-kubernetes-validations": [{"rule": "self +"}],
                            }
                        },
                    }
                }
            },
            id="a-bad-rule-meets-a-default",
        ),
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "1 +"}]},
            id="a-bad-message-expression",
        ),
        pytest.param({"x-kubernetes-validations": [{"rule": "1 + 1"}]}, id="a-rule-is-a-number"),
        pytest.param({"x-kubernetes-validations": [{"rule": "self.x"}]}, id="undeclared-field"),
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "true" + " && true" * 2000}]}, id="a-long-rule"
        ),
    ],
)
async def test_bad_schemas_are_refused(api: Client, schema: Object) -> None:
    body = definition("things", {"type": "object", **schema})
    refused(await api.post(DEFINITIONS, json=body), 422)


@pytest.mark.parametrize("key", ["items", "not"])
async def test_schemas_as_deep_as_a_body_may_be_are_served(api: Client, key: str) -> None:
    levels = 80
    deep = {"items": {"type": "string"}, **nested(levels, key), "type": "array"}
    schema = {"type": "object", "properties": {"a": deep}}
    answer = await api.post(DEFINITIONS, json=definition("things", schema))
    assert answer.status_code == 201, answer.text
    value: object = "x"
    for _ in range(levels):
        value = [value]
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "t"}}
    path = "/apis/example.com/v1/namespaces/default/things"
    answer = await api.post(path, json={**thing, "a": value})
    assert answer.status_code in (201, 422), answer.text
    assert (await api.get("/openapi/v3/apis/example.com/v1")).status_code == 200


async def test_a_rule_that_fails_to_evaluate_fails(api: Client) -> None:
    rules: dict[str, tuple[str, str, object]] = {
        "total": ("array", "self.sum() > 3", ["x"]),
        "found": ("string", "self.find('(') == 'a'", "x"),
        "divided": ("integer", "1 / self == 1", 0),
        "large": ("integer", "self + 9223372036854775807 > 0", 2**62),
        "huge": ("integer", "self > 3", 2**80),
    }
    properties: Object = {}
    for name, (kind, rule, _) in rules.items():
        properties[name] = {"type": kind, "x-kubernetes-validations": [{"rule": rule}]}
    properties["total"] |= {"items": {"type": "string", "maxLength": 5}, "maxItems": 5}
    schema = {"type": "object", "properties": properties}
    assert (await api.post(DEFINITIONS, json=definition("things", schema))).status_code == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "t"}}
    for name, (_, _, value) in rules.items():
        body = msgspec.json.encode({**thing, name: 0}).replace(b":0", f":{value}".encode())
        if not isinstance(value, int):
            body = msgspec.json.encode({**thing, name: value})
        path = "/apis/example.com/v1/namespaces/default/things"
        refused(await api.post(path, content=body, headers=JSON), 422)


async def test_a_factor_of_zero_refuses_nothing(api: Client) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 0}}}
    assert (await api.post(DEFINITIONS, json=definition("things", schema))).status_code == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "t"}, "a": 3}
    path = "/apis/example.com/v1/namespaces/default/things"
    assert (await api.post(path, json=thing)).status_code == 201


async def test_true_is_not_taken_for_one(api: Client) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"free": free, "n": {"type": "integer"}}}
    assert (await api.post(DEFINITIONS, json=definition("things", schema))).status_code == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": "t"}}
    path = "/apis/example.com/v1/namespaces/default/things"
    await api.post(path, json={**thing, "free": {"x": {"y": 1}}, "n": 1})
    answer = await api.patch_as("merge-patch+json", f"{path}/t", {"free": {"x": {"y": True}}})
    assert answer.json()["free"] == {"x": {"y": True}}
    assert answer.json()["metadata"]["generation"] == 2
    refused(await api.patch_as("merge-patch+json", f"{path}/t", {"n": True}), 422)
