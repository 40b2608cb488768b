"""Server-side apply of what a schema leaves open: accepted, owned and pruned alike."""

from __future__ import annotations

from tests.conformance.samples import DEFINITIONS, definition
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json

OPEN = "x-kubernetes-preserve-unknown-fields"
CLOSED: Body = {"type": "object", "properties": {"a": {"type": "string"}}}
SPEC: Body = {
    "type": "object",
    "properties": {
        "free": {"type": "object", OPEN: True},
        "any": {OPEN: True},
        "half": {"type": "object", OPEN: True, "properties": {"known": CLOSED}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, OPEN: True},
        "map": {"type": "object", "additionalProperties": {"type": "object", OPEN: True}},
        "list": {"type": "array", "items": {OPEN: True}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                OPEN: True,
                "properties": {"id": {"type": "string"}, "inner": CLOSED},
            },
        },
        "set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic", OPEN: True},
        },
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", OPEN: True},
        "closed": CLOSED,
    },
}
POD: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
ACCEPTED: tuple[tuple[str, Json], ...] = (
    ("free", {"a": {"b": {"c": 1}}, "d": [{"e": 1}, {"e": 1}], "f": None}),
    ("free", {"": 1, "a.b/c": 2, "f:x": 3, ".": 4}),
    ("any", {"a": {}}),
    ("any", [1, "x", None, {"y": []}]),
    ("any", "text"),
    ("half", {"known": {"a": "x"}, "other": {"known": {"b": 1}}}),
    ("half", {"known": {"b": {"c": 1}}}),
    ("embedded", {**POD, "spec": {"x": [{"y": 1}]}}),
    ("map", {"a": {"b": {"c": 1}}, "d": {}}),
    ("list", [{"a": 1}, [1, [2]], None, "x"]),
    ("keyed", [{"id": "a", "z": {"y": 1}}, {"id": "b", "inner": {"a": "x", "b": 1}}]),
    ("atomic", {"a": {"b": 1}}),
)
REFUSED: tuple[tuple[str, Json], ...] = (
    *(("free", value) for value in (1, "x", [1], None)),
    *(("keyed", value) for value in ({"id": "a"}, [{"id": "a"}, {"id": "a"}], [{"id": None}])),
    *(("set", value) for value in ([{"a": 1}], [[1]], [None])),
    *(("closed", value) for value in ({"b": 1}, {"a": None}, {"a": 1})),
)


async def install(api: Api, *, open_root: bool) -> str:
    """Install a kind of this scenario's own, and give the path of an object."""
    group = f"{api.namespace}.example.com"
    body = definition("opens", "Open", SPEC, group=group)
    if open_root:
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"][OPEN] = True
    await api.request("POST", DEFINITIONS, body)
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/opens"
    await api.until(path, lambda answer: answer.status == 200)
    return f"{path}/one"


def opened(path: str, **spec: Json) -> Body:
    about = {"apiVersion": f"{path.split('/')[2]}/v1", "kind": "Open"}
    return {**about, "metadata": {"name": "one"}, "spec": spec}


@scenario
async def test_what_a_schema_leaves_open_is_applied(api: Api) -> None:
    one = await install(api, open_root=False)
    for name, value in ACCEPTED:
        await api.apply(one, opened(one, **{name: value}))
        await api.apply(one, opened(one, **{name: value}), "m2", force=True)
        await api.apply(one, opened(one))
        await api.delete(one)


@scenario
async def test_what_a_schema_closes_is_refused(api: Api) -> None:
    one = await install(api, open_root=False)
    for name, value in REFUSED:
        await api.apply(one, opened(one, **{name: value}))


@scenario
async def test_closed_parts_of_an_open_object_are_pruned(api: Api) -> None:
    one = await install(api, open_root=True)
    for value in ({"b": 1}, {"a": "x", "b": {"c": [1]}}):
        await api.apply(one, {**opened(one, closed=value), "more": {"x": 1}})
        await api.get(one)
        await api.delete(one)


@scenario
async def test_a_value_that_takes_the_place_of_an_object_is_owned_alone(api: Api) -> None:
    one = await install(api, open_root=False)
    for value in (1, "x", [1]):
        for manager in ("m1", "m2"):
            await api.apply(one, opened(one, any={"a": 1}), manager, force=True)
        await api.apply(one, opened(one, any=value), force=True)
        await api.apply(one, opened(one, any={"b": 1}), "m2", force=True)
        await api.delete(one)
