"""Rules of metadata: names, generated names, labels, annotations, owners, finalizers."""

from __future__ import annotations

from tests.conformance.samples import config_map, gadget
from tests.conformance.script import Api, scenario

NAMES = (
    "a",
    "a-b",
    "a.b",
    "A",
    "a_b",
    "-a",
    "a-",
    "a..b",
    "",
    "a/b",
    "a b",
    "é",
    "x" * 253,
    "y" * 254,
)
PATH_NAMES = ("%41", ".", "..", "a%b")


@scenario
async def test_names_are_checked(api: Api) -> None:
    for name in (*NAMES, *PATH_NAMES):
        await api.post(f"{api.at('configmaps')}?dryRun=All", config_map(name))
        await api.post(f"{api.at('gadgets')}?dryRun=All", gadget(name))
    for resource in ("services", "serviceaccounts", "roles"):
        for name in ("a.b", "1a", "A", "system:x"):
            body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}}
            await api.post(f"{api.at(resource)}?dryRun=All", body)
    await api.get(api.at("configmaps", "A_b"))
    await api.apply(api.at("configmaps", "A_b"), config_map("A_b"))


@scenario
async def test_generated_names_get_a_suffix(api: Api) -> None:
    for resource, body in (("configmaps", config_map("")), ("gadgets", gadget(""))):
        path = api.at(resource)
        await api.post(path, {**body, "metadata": {"generateName": "gen-"}})
        await api.post(path, {**body, "metadata": {"generateName": "gen-", "name": "given"}})
        await api.post(path, {**body, "metadata": {"generateName": "gen-", "labels": {"-": ""}}})
        await api.post(path, {**body, "metadata": {"generateName": ""}})
    long = await api.request(
        "POST", api.at("configmaps"), {"metadata": {"generateName": "x" * 300}}
    )
    name = str(long["metadata"]["name"])
    api.record("length of a long generated name", [len(name), set(name[:-5]) == {"x"}])


@scenario
async def test_labels_and_annotations_are_checked(api: Api) -> None:
    for labels in (
        {"a": ""},
        {"example.com/a": "b"},
        {"a/b/c": "x"},
        {"/a": "x"},
        {"": "x"},
        {"a": "-x"},
        {"a": "x" * 64},
        {"a" * 64: "x"},
        {"UPPER.example.com/a": "x"},
        {"a": None},
    ):
        meta = {"name": "one", "labels": labels}
        for resource, body in (("configmaps", config_map("")), ("gadgets", gadget(""))):
            await api.post(f"{api.at(resource)}?dryRun=All", {**body, "metadata": meta})
    for notes in ({"a b": "x"}, {"a": "any / thing"}, {"a": "x" * 262200}, {"A.b/c": "x"}):
        meta = {"name": "one", "annotations": notes}
        for resource, body in (("configmaps", config_map("")), ("gadgets", gadget(""))):
            await api.post(f"{api.at(resource)}?dryRun=All", {**body, "metadata": meta})


@scenario
async def test_owner_references_are_checked(api: Api) -> None:
    good = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"}
    for owners in (
        [good],
        [{"name": "x"}],
        [{**good, "controller": True}, {**good, "uid": "u-2", "controller": True}],
        [good, good],
        [{**good, "apiVersion": "a/b/c"}],
        [{**good, "kind": "Event"}],
        [{**good, "blockOwnerDeletion": True}],
    ):
        for resource, body in (("configmaps", config_map("one")), ("gadgets", gadget("one"))):
            meta = {"name": "one", "ownerReferences": owners}
            await api.post(f"{api.at(resource)}?dryRun=All", {**body, "metadata": meta})


@scenario
async def test_finalizers_are_checked(api: Api) -> None:
    for finalizers in (
        ["a.b/c"],
        ["noslash"],
        ["bad finalizer"],
        ["a.b/c", "a.b/c"],
        [""],
        ["orphan"],
    ):
        for resource, body in (("configmaps", config_map("one")), ("gadgets", gadget("one"))):
            meta = {"name": "one", "finalizers": finalizers}
            await api.post(f"{api.at(resource)}?dryRun=All", {**body, "metadata": meta})
