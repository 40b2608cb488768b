"""Admission by hooks: a server that mutates and validates the writes of one kind in its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import msgspec
import pytest

from hypercobalt.apiserver.errors import Cause, JSONObject, StatusError, Subject
from hypercobalt.apiserver.hooks import HookReview
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.apiserver.values import object_at, text_at

from .conftest import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"
ONE = f"{THINGS}/one"
APPLY = "apply-patch+yaml"
Object = dict[str, Any]


@dataclass
class Labeller:
    """Sets spec.seen, and refuses a size of 13, as a hook would; faults are chosen by spec.text."""

    kind: str = "things.example.com"
    mutated: list[HookReview] = field(default_factory=list[HookReview])
    validated: list[HookReview] = field(default_factory=list[HookReview])
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def mutate(self, review: HookReview) -> JSONObject:
        self.mutated.append(review)
        match text_at(review.object, "spec", "text"):
            case "fault":
                raise RuntimeError("a bug")
            case "wait":
                self.entered.set()
                await self.open.wait()
            case "other":
                return {**review.object, "spec": {"text": "other", "size": "no number", "more": 1}}
            case "thief":
                meta: JSONObject = {
                    "name": "other",
                    "uid": "x",
                    "managedFields": [],
                    "labels": {"a": "b"},
                }
                return {"metadata": meta, "spec": {"size": 1}, **kind_of(review.object)}
            case "revert" if review.old is not None:
                return {**review.object, "spec": object_at(review.old, "spec")}
        return {**review.object, "spec": {**object_at(review.object, "spec"), "seen": "yes"}}

    async def validate(self, review: HookReview) -> None:
        self.validated.append(review)
        if object_at(review.object, "spec").get("size") == 13:
            cause = Cause("spec.size", "FieldValueInvalid", "unlucky")
            details = Subject("", "").details([cause])
            text = 'admission webhook "sizes.example.com" denied the request: unlucky'
            raise StatusError(422, "Invalid", text, details=details)
        if text_at(review.object, "spec", "text") == "late fault":
            raise KeyError("late")


def kind_of(obj: JSONObject) -> JSONObject:
    return {name: obj[name] for name in ("apiVersion", "kind")}


def definition() -> Object:
    text = {"type": "string"}
    fields: Object = {"text": text, "seen": text, "size": {"type": "integer", "default": 3}}
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec, "status": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def thing(name: str = "one", **spec: object) -> Object:
    meta = {"name": name} if name else {"generateName": "made-"}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta, "spec": spec}


@pytest.fixture
def labeller() -> Labeller:
    return Labeller()


@pytest.fixture
async def hooked(options: ServerOptions, labeller: Labeller) -> AsyncIterator[Client]:
    hooked = replace(options, manifests=(), hooks=(labeller,))
    async with serve(hooked) as server, Client(server.url) as client:
        assert (await client.post(DEFINITIONS, json=definition())).status_code == 201
        yield client


async def spec_of(client: Client, path: str = ONE) -> Object:
    spec: Object = (await client.get(path)).json()["spec"]
    return spec


def owned(obj: Object) -> dict[str, Object]:
    """What each manager owns of the spec."""
    entries = obj["metadata"].get("managedFields", [])
    return {entry["manager"]: entry["fieldsV1"].get("f:spec", {}) for entry in entries}


async def merge(client: Client, spec: Object, **query: str) -> httpx2.Response:
    return await client.patch_as("merge-patch+json", ONE, {"spec": spec}, **query)


async def test_every_verb_is_mutated_then_defaulted_and_validated(
    hooked: Client, labeller: Labeller
) -> None:
    steps = [
        await hooked.post(THINGS, json=thing(text="a")),
        await merge(hooked, {"seen": None, "text": "b"}),
        await hooked.patch_as("json-patch+json", ONE, [{"op": "remove", "path": "/spec/seen"}]),
        await hooked.patch_as(APPLY, ONE, thing(text="c"), fieldManager="m", force="true"),
        await hooked.patch_as(APPLY, f"{THINGS}/two", thing("two", text="d"), fieldManager="m"),
    ]
    put = steps[3].json() | {"spec": {"text": "e"}}
    steps.append(await hooked.put(ONE, json=put))
    assert [answer.status_code for answer in steps] == [201, 200, 200, 200, 201, 200]
    for answer in steps:
        assert answer.json()["spec"]["seen"] == "yes"
        assert answer.json()["spec"]["size"] == 3
    assert [review.old is None for review in labeller.validated] == [
        *(True, False, False, False, True, False)
    ]
    assert all(object_at(review.object, "spec")["seen"] == "yes" for review in labeller.validated)
    assert {review.user.name for review in labeller.mutated} == {"admin"}


async def test_deletes_and_other_kinds_are_not_reviewed(hooked: Client, labeller: Labeller) -> None:
    await hooked.post(THINGS, json=thing())
    labeller.mutated.clear()
    labeller.validated.clear()
    body = {"metadata": {"name": "x"}}
    created = await hooked.post("/api/v1/namespaces/default/configmaps", json=body)
    deleted = await hooked.delete(ONE)
    assert (created.status_code, deleted.status_code) == (201, 200)
    assert (labeller.mutated, labeller.validated) == ([], [])


async def test_dry_run_is_reviewed_and_stores_nothing(hooked: Client, labeller: Labeller) -> None:
    answer = await hooked.post(THINGS, json=thing(), params={"dryRun": "All"})
    assert (answer.status_code, answer.json()["spec"]["seen"]) == (201, "yes")
    assert (await hooked.get(ONE)).status_code == 404
    await hooked.post(THINGS, json=thing(text="a"))
    answer = await merge(hooked, {"text": "b"}, dryRun="All")
    assert answer.json()["spec"]["text"] == "b"
    assert (await spec_of(hooked))["text"] == "a"
    assert [review.dry_run for review in labeller.validated] == [True, False, True]


async def test_second_apply_rests(hooked: Client) -> None:
    first = await hooked.patch_as(APPLY, ONE, thing(text="a"), fieldManager="m")
    second = await hooked.patch_as(APPLY, ONE, thing(text="a"), fieldManager="m")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert owned(second.json()) == {"m": {"f:text": {}}}


async def test_mutated_fields_have_no_owner_until_a_manager_writes_them(hooked: Client) -> None:
    created = await hooked.post(THINGS, json=thing(text="a"), params={"fieldManager": "maker"})
    assert owned(created.json()) == {"maker": {".": {}, "f:size": {}, "f:text": {}}}
    applied = await hooked.patch_as(APPLY, ONE, thing(seen="yes"), fieldManager="m")
    assert owned(applied.json())["m"] == {"f:seen": {}}


async def test_create_with_a_generated_name_is_mutated(hooked: Client) -> None:
    answer = await hooked.post(THINGS, json=thing(""))
    assert answer.status_code == 201
    assert answer.json()["metadata"]["name"].startswith("made-")
    assert answer.json()["spec"]["seen"] == "yes"


async def test_hook_changes_neither_identity_nor_owners(hooked: Client) -> None:
    answer = await hooked.post(THINGS, json=thing(text="thief"), params={"fieldManager": "m"})
    meta = answer.json()["metadata"]
    assert (meta["name"], len(meta["uid"]), meta["generation"]) == ("one", 36, 1)
    assert meta["labels"] == {"a": "b"}
    assert owned(answer.json()) == {"m": {".": {}, "f:size": {}, "f:text": {}}}
    assert answer.json()["spec"] == {"size": 1}


async def test_what_a_hook_makes_invalid_is_refused_by_the_schema(
    hooked: Client, labeller: Labeller
) -> None:
    answer = await hooked.post(THINGS, json=thing(text="other"))
    assert answer.status_code == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["spec.size"]
    assert labeller.validated == []
    assert (await hooked.get(ONE)).status_code == 404


async def test_reverted_change_keeps_generation_and_spec(hooked: Client) -> None:
    before = (await hooked.post(THINGS, json=thing(text="a"))).json()
    after = (await merge(hooked, {"text": "revert"})).json()
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == 1


async def test_refusal_reaches_the_client_and_stores_nothing(hooked: Client) -> None:
    answer = await hooked.post(THINGS, json=thing(size=13))
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert answer.json()["message"].startswith('admission webhook "sizes.example.com" denied')
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["spec.size"]
    assert (await hooked.get(ONE)).status_code == 404
    await hooked.post(THINGS, json=thing())
    assert (await merge(hooked, {"size": 13})).status_code == 422
    assert (await spec_of(hooked))["size"] == 3


@pytest.mark.parametrize("text", ["fault", "late fault"])
async def test_hook_that_raises_answers_500_and_stores_nothing(hooked: Client, text: str) -> None:
    await hooked.post(THINGS, json=thing("old"))
    created = await hooked.post(THINGS, json=thing(text=text))
    patched = await hooked.patch_as("merge-patch+json", f"{THINGS}/old", {"spec": {"text": text}})
    for answer in (created, patched):
        assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
        assert "failed calling admission of things.example.com" in answer.json()["message"]
    assert (await hooked.get(ONE)).status_code == 404
    assert "text" not in await spec_of(hooked, f"{THINGS}/old")


@pytest.mark.parametrize(
    "quick",
    [
        pytest.param(lambda c: merge(c, {"size": 7}), id="patch"),
        pytest.param(
            lambda c: c.patch_as(APPLY, ONE, thing(size=7), fieldManager="q", force="true"),
            id="apply",
        ),
    ],
)
async def test_no_lock_is_held_while_a_hook_works(
    hooked: Client, labeller: Labeller, quick: Callable[[Client], Any]
) -> None:
    await hooked.post(THINGS, json=thing())
    slow = asyncio.create_task(merge(hooked, {"text": "wait"}))
    await labeller.entered.wait()

    async with asyncio.timeout(5):
        assert (await quick(hooked)).status_code == 200
        assert (await hooked.post(THINGS, json=thing("two"))).status_code == 201

    assert not slow.done()
    labeller.open.set()
    assert (await slow).json()["spec"] == {"size": 7, "text": "wait", "seen": "yes"}
    olds = [object_at(r.old, "spec").get("size") for r in labeller.mutated if is_slow(r)]
    assert olds == [3, 7]  # it was mutated again, on the object as it is


def is_slow(review: HookReview) -> bool:
    return text_at(review.object, "spec", "text") == "wait"


async def test_large_objects_are_mutated_too(hooked: Client) -> None:
    answer = await hooked.post(THINGS, content=msgspec.json.encode(thing(text="x" * 900_000)))
    assert answer.status_code == 201
    assert (await spec_of(hooked))["seen"] == "yes"


async def test_warning_is_about_what_is_stored(hooked: Client, labeller: Labeller) -> None:
    """A finalizer that the hook replaces is not warned of; one that stays is, once."""
    bare = thing(text="a")
    bare["metadata"]["finalizers"] = ["bare"]
    warned = await hooked.post(THINGS, json=bare)
    assert len(warned.headers.get_list("warning")) == 1
    bare["metadata"]["name"], bare["spec"] = "two", {"text": "thief"}
    assert "warning" not in (await hooked.post(THINGS, json=bare)).headers
    assert len(labeller.validated) == 2
