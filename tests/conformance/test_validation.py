"""Schemas, defaults, pruning and CEL rules of a custom kind; the modes of fieldValidation."""

from __future__ import annotations

from tests.conformance.samples import GROUP, config_map, gadget
from tests.conformance.script import YAML, Api, scenario

BAD_SPECS: dict[str, object] = {
    "nothing": {},
    "null": None,
    "wrong-type": "text",
    "size-text": {"size": "3"},
    "size-small": {"size": 0},
    "size-big": {"size": 11},
    "size-fraction": {"size": 1.5},
    "size-whole-float": {"size": 3.0},
    "size-null": {"size": None},
    "ratio-zero": {"size": 3, "ratio": 0},
    "ratio-int": {"size": 3, "ratio": 2},
    "odd": {"size": 3, "even": 3},
    "int32": {"size": 3, "even": 4294967296},
    "int64": {"size": 3, "huge": 9223372036854775807},
    "beyond-int64": {"size": 3, "huge": 9223372036854775808},
    "on-text": {"size": 3, "on": "true"},
    "name-long": {"size": 3, "name": "abcdefghi"},
    "name-pattern": {"size": 3, "name": "ABC"},
    "name-both": {"size": 3, "name": "ABCDEFGHIJ"},
    "name-unicode": {"size": 3, "name": "ééééé"},
    "short": {"size": 3, "short": "é"},
    "mode": {"size": 3, "mode": "often"},
    "mode-null": {"size": 3, "mode": None},
    "note-null": {"size": 3, "note": None},
    "name-null": {"size": 3, "name": None},
    "when": {"size": 3, "when": "yesterday"},
    "when-date": {"size": 3, "when": "2020-01-01"},
    "day": {"size": 3, "day": "2020-01-01T00:00:00Z"},
    "address": {"size": 3, "address": "300.1.1.1"},
    "key": {"size": 3, "key": "abc"},
    "blob": {"size": 3, "blob": "%%"},
    "wait": {"size": 3, "wait": "soon"},
    "wait-good": {"size": 3, "wait": "1h2m3s"},
    "port-text": {"size": 3, "port": "http"},
    "port-bool": {"size": 3, "port": True},
    "port-fraction": {"size": 3, "port": 1.5},
    "limit": {"size": 3, "limit": "5 Gi"},
    "limit-int": {"size": 3, "limit": 5},
    "free": {"size": 3, "free": {"a": {"b": [1, None, {"c": 2}]}}},
    "free-list": {"size": 3, "free": []},
    "half": {"size": 3, "half": {"known": {"a": "x", "b": "pruned"}, "other": {"b": 1}}},
    "inner": {"size": 3, "inner": {"depth": None, "extra": 1}},
    "inner-null": {"size": 3, "inner": None},
    "labels": {"size": 3, "labels": {"a": 1}},
    "labels-many": {"size": 3, "labels": {"a": "1", "b": "2", "c": "3", "d": "4"}},
    "labels-long": {"size": 3, "labels": {"a": "x" * 21}},
    "set": {"size": 3, "set": ["a", "b", "a"]},
    "set-many": {"size": 3, "set": ["a", "b", "c", "d", "e", "f"]},
    "plain-empty": {"size": 3, "plain": []},
    "plain-null": {"size": 3, "plain": [1, None]},
    "plain-text": {"size": 3, "plain": [1, "2"]},
    "parts": {"size": 3, "parts": [{"id": "a"}, {"id": "a", "zone": "there"}]},
    "parts-twice": {"size": 3, "parts": [{"id": "a"}, {"id": "a", "zone": "here"}]},
    "parts-no-key": {"size": 3, "parts": [{"zone": "here"}]},
    "parts-weight": {"size": 3, "parts": [{"id": "a", "weight": -1}]},
    "parts-text": {"size": 3, "parts": ["a"]},
    "parts-map": {"size": 3, "parts": {"id": "a"}},
    "choice-none": {"size": 3, "choice": {}},
    "choice-both": {"size": 3, "choice": {"left": 1, "right": 2}},
    "choice-one": {"size": 3, "choice": {"left": 1}},
    "template": {"size": 3, "template": {"a": 1}},
    "template-kind": {"size": 3, "template": {"apiVersion": "v1", "kind": "Pod", "x": 1}},
    "template-meta": {
        "size": 3,
        "template": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", "unknown": 1, "labels": {"a": "b"}},
        },
    },
    "template-bad-meta": {
        "size": 3,
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}},
    },
    "unknown": {"size": 3, "unknown": {"a": 1}},
    "rule-manual": {"size": 3, "mode": "manual"},
    "rule-count": {"size": 3, "count": 4},
    "rule-two": {"size": 3, "count": 4, "mode": "manual"},
    "rule-and-schema": {"size": 3, "count": -4, "mode": "manual"},
}


@scenario
async def test_custom_values_are_checked(api: Api) -> None:
    for name, spec in BAD_SPECS.items():
        await api.post(api.at("gadgets"), {**gadget(name), "spec": spec})


@scenario
async def test_many_faults_are_reported_at_once(api: Api) -> None:
    spec = {"size": 11, "mode": "x", "name": "A", "set": ["a", "a"], "port": [], "labels": {"a": 1}}
    await api.post(api.at("gadgets"), gadget("one", spec))
    await api.post(api.at("gadgets"), gadget("Bad_Name", spec, labels={"-": "-"}))
    await api.apply(api.at("gadgets", "one"), gadget("one", spec))


@scenario
async def test_custom_object_envelope_is_checked(api: Api) -> None:
    gadgets = api.at("gadgets")
    good = gadget("one")
    await api.post(gadgets, {**good, "kind": "Other"})
    await api.post(gadgets, {**good, "apiVersion": f"{GROUP}/v2"})
    await api.post(gadgets, {**good, "apiVersion": "v1"})
    await api.post(gadgets, {"metadata": {"name": "one"}, "spec": {"size": 3}})
    await api.post(gadgets, {**good, "apiVersion": ""})
    await api.post(gadgets, {**good, "metadata": "text"})
    await api.post(gadgets, {**good, "metadata": {"name": 1}})
    await api.post(gadgets, {**good, "metadata": {"name": "one", "labels": {"a": 1}}})
    await api.post(gadgets, {**good, "metadata": {"name": "one", "finalizers": "x"}})
    await api.post(gadgets, {**good, "metadata": {"name": "one", "unknown": 1}})
    await api.post(gadgets, {**gadget("two"), "extra": 1})
    await api.post(gadgets, {k: v for k, v in gadget("three").items() if k != "spec"})


@scenario
async def test_transition_rules_see_the_old_object(api: Api) -> None:
    one = api.at("gadgets", "one")
    await api.post(api.at("gadgets"), gadget("one", {"size": 5, "owner": "ann"}))
    await api.patch(one, {"spec": {"size": 4}})
    await api.patch(one, {"spec": {"owner": "bob"}})
    await api.patch(one, {"spec": {"owner": None}})
    await api.patch(one, {"spec": {"owner": "bob", "size": 3}})
    await api.patch(one, {"spec": {"size": 6, "mode": "manual"}})
    await api.patch(one, {"spec": {"size": 6, "mode": "manual", "name": "x"}})
    await api.patch(one, {"spec": {"count": 7}})
    await api.patch(f"{one}/status", {"status": {"phase": "Ready"}})
    await api.get(one)


@scenario
async def test_field_validation_of_a_built_in_kind_follows_its_mode(api: Api) -> None:
    body = b'{"metadata":{"name":"x","foo":1},"data":{"a":"b","a":"c"},"bar":1,"Data":{"q":"r"}}'
    yaml = b"metadata: {name: x, foo: 1}\ndata: {a: b, a: c}\nbar: 1\n"
    for mode in ("Strict", "Warn", "Ignore", "Often", ""):
        path = f"{api.at('configmaps')}?dryRun=All&fieldValidation={mode}"
        await api.post(path, body)
        await api.send("POST", path, yaml, content_type=YAML)
    deployment = (
        b'{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"app":"x"}},"replica":2,'
        b'"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c",'
        b'"image":"i","imag":"j"}],"nodename":"n"}}}}'
    )
    for mode in ("Strict", "Warn"):
        await api.post(f"{api.at('deployments')}?dryRun=All&fieldValidation={mode}", deployment)


@scenario
async def test_field_validation_of_a_custom_kind_follows_its_mode(api: Api) -> None:
    body = (
        b'{"apiVersion":"%b/v1","kind":"Gadget","metadata":{"name":"x","foo":1},"spec":{"size":3,'
        b'"size":4,"foo":{"bar":1},"inner":{"extra":1},"parts":[{"id":"a","odd":1}],'
        b'"template":{"apiVersion":"v1","kind":"Pod","metadata":{"odd":1}}},"bar":1}'
    ) % GROUP.encode()
    for mode in ("Strict", "Warn", "Ignore", "Often", ""):
        await api.post(f"{api.at('gadgets')}?dryRun=All&fieldValidation={mode}", body)


@scenario
async def test_field_validation_of_patches_follows_its_mode(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("one"))
    await api.post(api.at("gadgets"), gadget("one"))
    for mode in ("Strict", "Warn", "Ignore"):
        query = f"one?dryRun=All&fieldValidation={mode}"
        plain, custom = api.at("configmaps", query), api.at("gadgets", query)
        unknown = {"foo": 1, "metadata": {"odd": 1}}
        await api.patch(plain, unknown, "merge")
        await api.patch(plain, unknown, "strategic")
        await api.patch(plain, [{"op": "add", "path": "/foo", "value": 1}], "json")
        await api.patch(plain, b'{"data":{"a":"1","a":"2"}}', "merge")
        await api.patch(custom, {"spec": {"foo": 1}, "bar": 2, "metadata": {"odd": 1}}, "merge")
        await api.patch(custom, [{"op": "add", "path": "/spec/foo", "value": 1}], "json")
        await api.patch(custom, b'{"spec":{"size":4,"size":5}}', "merge")
        more = f"&dryRun=All&fieldValidation={mode}"
        body = {**config_map("one"), "foo": 1}
        await api.apply(api.at("configmaps", "one"), body, force=True, query=more)
        body = gadget("one", {"size": 3, "foo": 1})
        await api.apply(api.at("gadgets", "one"), body, force=True, query=more)
