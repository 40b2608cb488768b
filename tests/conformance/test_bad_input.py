"""Bodies that no client should send: each gets an error, and the server goes on."""

from __future__ import annotations

import json

from tests.conformance.samples import config_map, gadget, workload
from tests.conformance.script import YAML, Api, scenario


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


BAD_YAML = (b"a: b: c", b"{", b"\t", b"- a", b"a: &x [*x]", b"--- {}\n--- {}", b"!!python/x a")


@scenario
async def test_malformed_bodies_are_refused(api: Api) -> None:
    for resource in ("configmaps", "gadgets"):
        path = api.at(resource)
        for body in (
            b"",
            b"{",
            b'{"a":',
            b"[]",
            b'"text"',
            b"null",
            b"1",
            b"{}",
            b"{} {}",
            b"\x00",
            b'{"metadata":{"name":"x"},}',
            b"{'metadata':{}}",
            b"not json",
        ):
            await api.post(path, body)
        for text in (
            b"a: b: c",
            b"{",
            b"\t",
            b"- a",
            b"a: &x [*x]",
            b"--- {}\n--- {}",
            b"!!python/x a",
        ):
            await api.send("POST", path, text, content_type=YAML)


@scenario
async def test_wrong_types_are_refused(api: Api) -> None:
    await api.post(api.at("configmaps"), {**config_map("one"), "data": {"a": 1}})
    await api.post(api.at("configmaps"), {**config_map("one"), "data": "text"})
    await api.post(api.at("configmaps"), {"metadata": "text"})
    await api.post(api.at("configmaps"), {"metadata": {"name": "one", "labels": {"a": True}}})
    await api.post(api.at("configmaps"), {"metadata": {"name": ["one"]}})
    await api.post(api.at("configmaps"), {**config_map("one"), "immutable": "yes"})
    await api.post(api.at("pods"), {"metadata": {"name": "one"}, "spec": {"containers": "x"}})
    await api.post(api.at("pods"), {"metadata": {"name": "one"}, "spec": []})
    bad = workload("Deployment", "one")
    bad["spec"]["replicas"] = "three"
    await api.post(api.at("deployments"), bad)
    bad["spec"]["replicas"] = 1.5
    await api.post(api.at("deployments"), bad)
    bad["spec"]["replicas"] = 2**40
    await api.post(api.at("deployments"), bad)
    limits = {"limits": {"cpu": "lots"}}
    bad = workload("Deployment", "one")
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] = limits
    await api.post(api.at("deployments"), bad)


@scenario
async def test_wrong_types_are_not_applied(api: Api) -> None:
    one = api.at("secrets", "one")
    about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
    await api.apply(one, {**about, "data": {"a": "eA=="}})
    for wrong in ({"immutable": "x"}, {"data": "x"}, {"type": {"a": 1}}, {"unheard": 1}):
        await api.apply(one, {**about, **wrong}, force=True)
    await api.get(one)


@scenario
async def test_kind_and_version_must_fit_the_path(api: Api) -> None:
    maps = api.at("configmaps")
    await api.post(maps, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}})
    await api.post(maps, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}})
    await api.post(maps, {"kind": "ConfigMap", "metadata": {"name": "x"}})
    await api.post(maps, {"apiVersion": "v1", "metadata": {"name": "y"}})
    await api.post(maps, {"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "x"}})
    await api.post(maps, {"apiVersion": 1, "kind": "ConfigMap", "metadata": {"name": "x"}})
    await api.post(maps, {"apiVersion": "v1", "kind": "Unheard", "metadata": {"name": "x"}})
    await api.post(api.at("deployments"), {**workload("Deployment", "x"), "apiVersion": "v1"})


@scenario
async def test_deeply_nested_bodies_are_refused(api: Api) -> None:
    for depth in (100, 20000):
        tree = nested(depth)
        await api.post(api.at("configmaps"), b'{"metadata":{"name":"x"},"data":' + tree + b"}")
        head = b'{"apiVersion":"conformance.example.com/v1","kind":"Gadget",'
        rest = b'"metadata":{"name":"d%d"},"spec":{"size":3,"unknown":%b}}' % (depth, tree)
        await api.post(api.at("gadgets"), head + rest)
    lists = b"[" * 20000 + b"]" * 20000
    await api.post(api.at("configmaps"), b'{"metadata":{"name":"x"},"data":' + lists + b"}")


@scenario
async def test_oversized_bodies_are_refused(api: Api) -> None:
    big = json.dumps(config_map("big", {"a": "x" * 3_500_000})).encode()
    await api.post(api.at("configmaps"), big)
    await api.put(api.at("configmaps", "big"), big)
    await api.post(api.at("configmaps"), config_map("big", {"a": "x" * 1_100_000}))
    await api.post(api.at("gadgets"), gadget("big", {"size": 3, "free": {"a": "x" * 3_500_000}}))
    ops = [{"op": "add", "path": "/data/x", "value": "y"}] * 10_001
    await api.post(api.at("configmaps"), config_map("one"))
    await api.patch(api.at("configmaps", "one"), ops, "json")
    await api.get(api.at("configmaps", "one"))


@scenario
async def test_odd_text_is_answered_alike(api: Api) -> None:
    maps = api.at("configmaps")
    await api.post(maps, b'{"metadata":{"name":"utf"},"data":{"a":"\xff\xfe"}}')
    await api.post(maps, b'{"metadata":{"name":"surrogate"},"data":{"a":"\\ud800"}}')
    await api.post(maps, b'{"metadata":{"name":"zero"},"data":{"a":"a\\u0000b"}}')
    await api.post(maps, b'\xef\xbb\xbf{"metadata":{"name":"bom"},"data":{"a":"b"}}')
    await api.post(maps, {"metadata": {"name": "emoji"}, "data": {"a": "⚠️ < > & \u2028"}})
    await api.post(maps, b'{"metadata":{"name":"number"},"data":{"a":1e999}}')
    body = b'{"apiVersion":"conformance.example.com/v1","kind":"Gadget","metadata":{"name":"n"},'
    for number in (b"1e2", b"3e400", b"-0", b"03", b"3.0e0", b"NaN"):
        await api.post(f"{api.at('gadgets')}?dryRun=All", body + b'"spec":{"size":%b}}' % number)
    await api.get(maps)


@scenario
async def test_odd_queries_and_paths_are_answered_alike(api: Api) -> None:
    maps = api.at("configmaps")
    for query in ("unknown=1", "limit=1&limit=2", "labelSelector=%zz", "timeout=1s", "timeout=x"):
        await api.get(f"{maps}?{query}")
    await api.get(f"{maps}/")
    await api.get(maps.replace("/api/", "//api/"))
    await api.get(f"{maps}/a%2Fb")
    await api.get(f"{maps}/%00")
    await api.get(f"{maps}/{'x' * 3000}")
    await api.send("HEAD", maps)


@scenario
async def test_object_is_no_larger_than_etcd_takes(api: Api) -> None:
    """A body may be larger: 3 MiB."""
    for name, size in (("big", 1_400_000), ("bigger", 1_600_000)):
        spec = {"size": 3, "free": {"a": "x" * size}}
        await api.post(api.at("gadgets"), gadget(name, spec))
    await api.get(api.at("gadgets", "bigger"))
