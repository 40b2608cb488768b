"""Numbers, however they are written: each verb stores the same, so writers come to rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tests.conformance.samples import DEFINITIONS, GROUP, definition, gadget
from tests.conformance.script import YAML, Api, scenario
from tests.conformance.wire import Body

NUMBERS = (
    *("1", "1.0", "-1.0", "1e3", "1E3", "1.50", "0.1", "0", "-0", "1e-7", "1.5e300"),
    *("1e20", "1e21", "1e22", "123456789012345678901", "1234567890123456789012"),
    *("9007199254740993.0", "9223372036854775808"),
    *(
        "-9223372036854775809",
        "18446744073709551616",
        "3e9",
        "0.30000000000000004",
    ),
    *(
        "9223372036854775807.0",
        "1e15",
        "1e16",
        "1e17",
        "1e18",
        "1e19",
        "5e-324",
        "1.7976931348623157e308",
    ),
)
# Keys of items that the real server writes in other ways than their values.
ODD_KEYS = ("9223372036854775807", "-9223372036854775808", "9007199254740993", "-0.0")
WEIGHT: Body = {
    "type": "object",
    "properties": {
        "factor": {"type": "number"},
        "count": {"type": "integer"},
        "mixed": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {"type": "array", "items": {"type": "number"}},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
        "set": {
            "type": "array",
            "items": {"type": "number"},
            "x-kubernetes-list-type": "set",
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "number"}, "zone": {"type": "string"}},
            },
        },
    },
}
BEYOND_INT64 = "9223372036854775808"
EXACT = ("1.0", "1e3", "-0.0", "1.50", "9007199254740993.0", "9223372036854775808", "1e20", "1e22")


async def weights(api: Api) -> str:
    """Install a kind of this scenario's own, and give the path of its objects."""
    group = f"{api.namespace}.example.com"
    await api.request("POST", DEFINITIONS, definition("weights", "Weight", WEIGHT, group=group))
    await api.until(f"/apis/{group}/v1", lambda answer: answer.status == 200)
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/weights"
    await api.until(path, lambda answer: answer.status == 200)
    return path


def anywhere(number: str) -> str:
    """A spec with a number wherever any number may stand."""
    return (
        f'{{"factor":{number},"any":{number},"free":{{"a":{number},"b":[{number}]}},'
        f'"list":[{number}],"map":{{"a":{number}}},"set":[{number}],'
        f'"parts":[{{"id":{number},"zone":"z"}}]}}'
    )


def counted(number: str) -> str:
    """A spec with a number where only integers may stand."""
    return f'{{"count":{number},"mixed":{number}}}'


async def emptied(api: Api, path: str) -> Body:
    """An object without its spec's fields: the real server counts each write of a whole float."""
    held = await api.request("GET", path)
    return {**held.body, "spec": {}}


async def try_writes(api: Api, shape: Callable[[str], str], numbers: Iterable[str]) -> None:
    """Write each number by each verb."""
    path = await weights(api)
    one, group = f"{path}/w", path.split("/")[2]
    for number in numbers:
        spec = shape(number)
        head = f'"apiVersion":"{group}/v1","kind":"Weight","metadata":{{"name":"w"}}'
        body = f'{{{head},"spec":{spec}}}'.encode()
        text = body.decode().replace(":", ": ").replace(",", ", ").encode()  # YAML, too
        await api.post(path, body)
        await api.delete(one)
        await api.send("POST", path, text, content_type=YAML)
        await api.delete(one)
        await api.apply(one, body)
        await api.apply(one, b"# YAML\n" + text, "m2")
        await api.delete(one)
        await api.request("POST", path, f'{{{head},"spec":{{}}}}'.encode())
        await api.patch(one, f'{{"spec":{spec}}}'.encode())
        await api.request("PUT", one, await emptied(api, one))
        await api.patch(one, f'[{{"op":"add","path":"/spec","value":{spec}}}]'.encode(), "json")
        await api.delete(one)


@scenario
async def test_numbers_are_stored_alike_by_every_verb(api: Api) -> None:
    await try_writes(api, anywhere, NUMBERS)


@scenario
async def test_integers_are_judged_alike_by_every_verb(api: Api) -> None:
    await try_writes(api, counted, (*NUMBERS, *ODD_KEYS))


@scenario
async def test_writers_of_one_number_come_to_rest(api: Api) -> None:
    path = await weights(api)
    one, group = f"{path}/w", path.split("/")[2]
    for number in EXACT:
        head = f'"apiVersion":"{group}/v1","kind":"Weight","metadata":{{"name":"w"}}'
        body = f'{{{head},"spec":{anywhere(number)}}}'.encode()
        for manager in ("m1", "m2", "m1", "m2"):
            await api.apply(one, body, manager)
            fresh = await api.get(one)
            await api.put(one, fresh.body)
        await api.delete(one)


@scenario
async def test_numbers_of_a_built_in_kind_are_stored_alike(api: Api) -> None:
    one = api.at("deployments", "one")
    for number in ("2.0", "2e0", "2", "2.5", BEYOND_INT64):
        main = '{"name":"main","image":"i"}'
        spec = (
            f'{{"replicas":{number},"selector":{{"matchLabels":{{"a":"b"}}}},'
            f'"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{main}]}}}}}}'
        )
        head = '"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"one"}'
        body = f'{{{head},"spec":{spec}}}'.encode()
        await api.post(api.at("deployments"), body)
        await api.delete(one)
        if number != BEYOND_INT64:  # of which the real server's apply makes 0
            await api.apply(one, body)
            await api.delete(one)


@scenario
async def test_numbers_within_a_definition_are_stored_alike(api: Api) -> None:
    group = f"{api.namespace}.example.com"
    schema = (
        b'{"type":"object","properties":{"a":{"type":"number","minimum":1.0,"maximum":1e3,'
        b'"default":2.0,"enum":[2.0,3e0]},"b":{"type":"integer","default":5.0,"multipleOf":5.0}}}'
    )
    body = json.dumps(definition("weights", "Weight", {"type": "SCHEMA"}, group=group)).encode()
    body = body.replace(b'{"type": "SCHEMA"}', schema)
    name = f"{DEFINITIONS}/weights.{group}"
    await api.post(DEFINITIONS, body)
    await api.until(f"/apis/{group}/v1", lambda answer: answer.status == 200)
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/weights"
    await api.until(path, lambda answer: answer.status == 200)
    about = {"apiVersion": f"{group}/v1", "kind": "Weight", "metadata": {"name": "w"}}
    await api.apply(f"{path}/w", {**about, "spec": {}})
    await api.apply(f"{path}/w", {**about, "spec": {"a": 3.0}})
    await api.put(f"{path}/w", (await api.get(f"{path}/w")).body)
    await api.apply(name, body, force=True)
    await api.delete(name)


@scenario
async def test_numbers_of_yaml_are_read_alike(api: Api) -> None:
    for text in (
        *("1e3", "+1", "0x1F", "0b11", "017", "0o17", "1_000", "1_0.5", ".5", "5.", "1e400"),
        *("1e+3", "-1e-3", ".inf", ".NaN", "08", "1:30", "+.5", "1e", "e3", "0x", "-0", "1.e3"),
    ):
        spec = f"spec: {{size: 3, free: {{a: {text}}}}}"
        head = f"apiVersion: {GROUP}/v1\nkind: Gadget\nmetadata: {{name: one}}\n"
        await api.send("POST", api.at("gadgets"), f"{head}{spec}".encode(), content_type=YAML)
        await api.delete(api.at("gadgets", "one"))
        await api.apply(api.at("gadgets", "one"), f"{head}{spec}".encode())
        await api.delete(api.at("gadgets", "one"))


@scenario
async def test_numbers_beyond_floats_are_refused(api: Api) -> None:
    one = api.at("gadgets", "one")
    for number in ("1e400", "-1e400", "1" * 310, "1" * 400, "1" * 5000):
        head = f'"apiVersion":"{GROUP}/v1","kind":"Gadget","metadata":{{"name":"one"}}'
        body = f'{{{head},"spec":{{"size":3,"free":{{"a":{number}}}}}}}'.encode()
        await api.post(api.at("gadgets"), body)
        await api.request("POST", api.at("gadgets"), gadget("one"))
        await api.patch(one, f'{{"spec":{{"free":{{"a":{number}}}}}}}'.encode())
        await api.delete(one)
        await api.apply(one, body)
        await api.delete(one)
