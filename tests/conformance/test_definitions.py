"""The life of a CustomResourceDefinition: validation, names, discovery, versions, deletion."""

from __future__ import annotations

from tests.conformance.definitions import OPEN, established, group_of, install
from tests.conformance.samples import DEFINITIONS, column, definition, text
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json


@scenario
async def test_definition_is_created_changed_and_deleted(api: Api) -> None:
    group = group_of(api)
    columns = [column("Size", "integer", ".spec.size")]
    body = definition("things", "Thing", OPEN, group=group, columns=columns, status=OPEN)
    path = await install(api, body)
    await api.get(path)
    await api.get(f"/apis/{group}")
    await api.get(f"/apis/{group}/v1")
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    await api.post(things, {**thing, "spec": {"size": 1}})
    await api.post(DEFINITIONS, body)
    await api.delete(path)
    await api.until(path, lambda answer: answer.status == 404)
    await api.until(f"/apis/{group}/v1", lambda answer: answer.status == 404)
    await api.get(f"{things}/one")
    await api.get(things)
    await api.get(f"/apis/{group}")
    await install(api, body)  # the objects of the first one are gone
    await api.get(things)


@scenario
async def test_updated_definition_changes_what_is_served(api: Api) -> None:
    group = group_of(api)
    body = definition("things", "Thing", {"type": "object"}, group=group)
    path = await install(api, body)
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing: Body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    await api.post(things, {**thing, "spec": {"a": 1, "b": 2}})
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 5}}}
    changed = definition("things", "Thing", schema, group=group)
    replace = [{"op": "replace", "path": "/spec/versions", "value": changed["spec"]["versions"]}]
    await api.patch(path, replace, "json")
    await api.until(f"{things}/one", lambda answer: answer["spec"].get("a") == 5)
    await api.get(f"{things}/one")
    await api.patch(f"{things}/one", {"spec": {"b": 3}})
    await api.patch(f"{things}/one", {"spec": {"a": 3}})
    await api.patch(path, {"spec": {"names": {"shortNames": ["th"], "categories": ["stuff"]}}})
    await api.until(f"/apis/{group}/v1", lambda a: "shortNames" in a["resources"][0])
    await api.get(f"/apis/{group}/v1")
    await api.patch(path, {"spec": {"scope": "Cluster"}})
    await api.patch(path, {"spec": {"group": "other.example.com"}})
    await api.patch(path, {"spec": {"names": {"kind": "Other"}}})
    await api.patch(path, {"spec": {"names": {"plural": "others"}}})
    await api.patch(path, {"spec": {"versions": []}})


@scenario
async def test_invalid_definitions_are_refused(api: Api) -> None:
    group = group_of(api)

    def changed(path: str, value: Json) -> Body:
        body = definition("bads", "Bad", {"type": "object"}, group=group)
        *parents, last = path.split(".")
        node: Json = body
        for key in parents:
            node = node[int(key) if key.isdigit() else key]
        if value is None:
            node.pop(last)
        else:
            node[last] = value
        return body

    for path, value in (
        ("metadata.name", "bads.other.example.com"),
        ("metadata.name", "bads"),
        ("spec.group", ""),
        ("spec.group", "nodots"),
        ("spec.group", "UPPER.example.com"),
        ("spec.scope", "Galaxy"),
        ("spec.scope", None),
        ("spec.names", {}),
        ("spec.names.kind", "bad_kind"),
        ("spec.names.plural", "Bads"),
        ("spec.versions", None),
        ("spec.versions.0.name", "V1"),
        ("spec.versions.0.storage", False),
        ("spec.versions.0.schema", None),
        ("spec.versions.0.schema.openAPIV3Schema.type", "array"),
        ("spec.versions.0.schema.openAPIV3Schema.type", None),
        ("spec.versions.0.additionalPrinterColumns", [column("A", "text", ".a")]),
        ("spec.versions.0.additionalPrinterColumns", [column("A", "string", "a[")]),
        ("spec.versions.0.additionalPrinterColumns", [{"name": "A", "type": "string"}]),
        ("spec.versions.0.additionalPrinterColumns", [column("", "string", ".a")]),
        ("spec.versions.0.selectableFields", [{"jsonPath": ".spec.nope"}]),
        ("spec.versions.0.selectableFields", [{"jsonPath": ".metadata.name"}]),
        ("spec.versions.0.unknown", 1),
        ("spec.conversion", {"strategy": "Webhook"}),
        ("spec.conversion", {"strategy": "Magic"}),
    ):
        await api.post(f"{DEFINITIONS}?dryRun=All", changed(path, value))
    two = definition("bads", "Bad", {"type": "object"}, group=group)
    two["spec"]["versions"] *= 2
    await api.post(f"{DEFINITIONS}?dryRun=All", two)
    await api.post(DEFINITIONS, {"metadata": {"name": "bads.x"}})


@scenario
async def test_invalid_schemas_are_refused(api: Api) -> None:
    a = {"a": {"type": "string"}}
    for schema in (
        {},
        {"type": "thing"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/x"}}},
        {"type": "object", "properties": a, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": a, "additionalProperties": False},
        {"type": "object", "properties": a, "required": ["a", "a"]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "allOf": [{"pattern": "(?=a)"}]}},
        },
        {"type": "object", "properties": {"a": {"type": "string", "not": {"pattern": "[z-a]"}}}},
        {"type": "string", "pattern": "(", "default": "a"},
        {
            "type": "string",
            "default": "a",
            "x-kubernetes-validations": [{"rule": "self +"}, {"rule": "self == 'b'"}],
        },
        {"type": "object", "properties": {"a": {"type": "string", "default": 5}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": [1]}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "default": "y"}}},
        {"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}},
        {"type": "object", "properties": {"a": {"type": "string", "uniqueItems": True}}},
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        {"type": "object", "properties": a, "allOf": [{"properties": {"a": {"type": "string"}}}]},
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "items": {"type": "object"},
                }
            },
        },
        {
            "type": "object",
            "properties": {
                "a": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                }
            },
        },
        {"type": "string", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "string", "minLength": -1},
        {"type": "string", "format": "nonsense"},
    ):
        await try_schemas(api, schema)


async def try_schemas(api: Api, *schemas: Body, whole: bool = False) -> None:
    """Define a kind whose spec has each of these schemas; or whose objects have it, as a whole."""
    for schema in schemas:
        body = definition("bads", "Bad", {"type": "object"}, group=group_of(api))
        root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        if whole:
            properties = {**root["properties"], **schema.get("properties", {})}
            root |= {**schema, "properties": properties}
        else:
            root["properties"]["spec"] = schema
        await api.post(f"{DEFINITIONS}?dryRun=All", body)


@scenario
async def test_invalid_schema_fragments_are_refused(api: Api) -> None:
    """What stands under allOf, anyOf, oneOf or not declares nothing."""
    extension = "x-kubernetes-"
    never = [{"rule": "self.a < 5 && nonsense("}]
    whole: Body = {"type": "object", "properties": {"a": {"type": "integer"}}}
    fragments: tuple[Body, ...] = (
        {"type": "object"},
        {"description": "x"},
        {"title": "x"},
        {"default": 0},
        {"default": {}},
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"nullable": True},
        {"uniqueItems": True},
        {f"{extension}preserve-unknown-fields": True},
        {f"{extension}embedded-resource": True},
        {f"{extension}int-or-string": True},
        {f"{extension}list-type": "atomic"},
        {f"{extension}validations": never},
        {"properties": {"a": {f"{extension}validations": never}}},
        {"not": {"items": {f"{extension}validations": never}}},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    )
    for fragment in fragments:
        parts = ({"allOf": [fragment]}, {"oneOf": [{}, fragment]}, {"not": fragment})
        await try_schemas(api, *({**whole, **part} for part in parts))


@scenario
async def test_int_or_string_schemas_are_checked(api: Api) -> None:
    either = [{"type": "integer"}, {"type": "string"}]
    mixed = {"x-kubernetes-int-or-string": True}
    await try_schemas(
        api,
        {**mixed, "anyOf": either},
        {**mixed, "anyOf": [*reversed(either)]},
        {**mixed, "anyOf": [*either, {"type": "string"}]},
        {**mixed, "oneOf": either},
        {**mixed, "allOf": [{"anyOf": either}, {"pattern": "a"}]},
        {**mixed, "allOf": [{"pattern": "a"}, {"anyOf": either}]},
        {**mixed, "allOf": [{"anyOf": either, "type": "string"}]},
        {**mixed, "allOf": [{"allOf": [{"anyOf": either}]}]},
        {"type": "string", "anyOf": either},
    )


@scenario
async def test_invalid_lists_and_maps_are_refused(api: Api) -> None:
    def listed(kind: str, items: Body, **more: Json) -> Body:
        named = {f"x-kubernetes-{name.replace('_', '-')}": value for name, value in more.items()}
        return {"type": "array", "items": items, "x-kubernetes-list-type": kind, **named}

    key: Body = {"type": "string", "default": "a"}
    item: Body = {"type": "object", "properties": {"k": key}}
    open_item: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await try_schemas(
        api,
        {"type": "object", "x-kubernetes-map-type": "granular"},
        {"type": "string", "x-kubernetes-list-type": "round"},
        {"x-kubernetes-list-type": "set", "x-kubernetes-preserve-unknown-fields": True},
        listed("set", {**open_item, "x-kubernetes-map-type": "atomic"}),
        listed("map", item),
        listed("map", item, list_map_keys=["k"]),
        listed("map", item, list_map_keys=["k", "l"]),
        listed("map", {"type": "string"}, list_map_keys=["k"]),
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {"type": "object", "minProperties": 1}},
        },
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": {}},
    )


@scenario
async def test_invalid_root_schemas_are_refused(api: Api) -> None:
    words: Body = {"type": "string", "maxLength": 5}

    def of_metadata(**fields: Json) -> Body:
        return {"properties": {"metadata": {"type": "object", **fields}}}

    schemas: tuple[Body, ...] = (
        {"type": ""},
        {"type": "array"},
        {"type": "", "x-kubernetes-preserve-unknown-fields": True},
        {"additionalProperties": words},
        {"additionalProperties": True},
        {"additionalProperties": False},
        of_metadata(),
        of_metadata(properties={}),
        of_metadata(properties={"name": words}),
        of_metadata(properties={"name": words, "generateName": words}),
        of_metadata(properties={"name": words, "labels": {"type": "object"}}),
        of_metadata(properties={"labels": {"type": "object"}}),
        {"allOf": [{"properties": {"spec": {"minProperties": 1}}}]},
    )
    await try_schemas(api, *schemas, whole=True)


@scenario
async def test_definition_may_have_rules_for_names(api: Api) -> None:
    group = group_of(api)
    body = definition("things", "Thing", OPEN, group=group)
    names = {
        "name": text(4, **{"x-kubernetes-validations": [{"rule": "self != 'no'"}]}),
        "generateName": {"type": "string", "pattern": "^a"},
    }
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["metadata"] = {"type": "object", "properties": names}
    await install(api, body)
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing"}
    for name in ("good", "longer", "no"):
        await api.post(things, {**thing, "metadata": {"name": name, "labels": {"a": "b"}}})
    await api.post(things, {**thing, "metadata": {"name": "also", "generateName": "b"}})
    await api.patch(f"{things}/good", {"metadata": {"labels": {"a": "c"}}})


@scenario
async def test_wrongly_typed_rules_are_refused(api: Api) -> None:
    await try_rules(
        api,
        {"rule": "self.s == 1"},
        {"rule": "self.s"},
        {"rule": "self.i > 0", "messageExpression": "self.i"},
        {"rule": "self.i"},
        {"rule": "self.l == 'a'"},
        {"rule": "self.l.all(x, x > 1)"},
        {"rule": "self.l[0].size() > self.s"},
        {"rule": "self.i > 0 && self.s"},
        {"rule": "self.o.nope == 1"},
        {"rule": "self.o.k == 1 && self.o.free == 2"},
        {"rule": "has(self.o.nope)"},
        {"rule": "self.m.a == 1 && self.m['b'] == 'x'"},
        {"rule": "self.t > 'x'"},
        {"rule": "self.e == 1 || self.e == 'a'"},
        {"rule": "self.opaque.a == 1"},
        {"rule": "self.i == oldSelf.s"},
        {"rule": "self.lists.all(x, x.exists(y, y == 'a'))"},
        {"rule": "quantity(self.i).isInteger()"},
        {"rule": "self.l.indexOf('a') == -1 && self.s.indexOf('a') == 'b'"},
        {"rule": "string(self.i) == self.s && int(self.s) == self.i && double(self.i) > 1.0"},
        {"rule": "self.i > 1.5"},
        {"rule": "type(self.i) == int"},
        {"rule": "self == oldSelf"},
        {"rule": "self.data == b'abc' && self.data.size() < 5"},
        {"rule": "self.in.__namespace__ == 'x'"},
        {"rule": "self.__in__.__namespace__ == 'x'"},
        {"rule": "self.dash__dash__ed == 1 && self.under__underscores__score == 2"},
        {"rule": "self.?s.hasValue() && self.?l[?0].orValue('') == ''"},
        {"rule": "oldSelf.orValue(self).i == 1", "optionalOldSelf": True},
        {"rule": "self.meta.metadata.name == 'x' && self.meta.kind == 'y'"},
        {"rule": "self.meta.metadata.labels['x'] == 'x'"},
        {"rule": "true ? self.i : self.s"},
        {"rule": "{'a': 1}.a == 1 && 'format %d'.format([1]) != ''"},
    )


@scenario
async def test_transition_rules_of_parts_without_a_key_are_refused(api: Api) -> None:
    grows = {"x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    number = {"type": "integer", **grows}
    numbers = {"type": "object", "maxProperties": 5, "additionalProperties": number}
    pairs = {
        "type": "array",
        "maxItems": 5,
        "items": {"type": "object", "required": ["k"], "properties": {"k": text(5), "n": number}},
    }
    await try_schemas(
        api,
        {"type": "array", "maxItems": 5, "items": number},
        {"type": "array", "maxItems": 5, "items": number, "x-kubernetes-list-type": "set"},
        pairs,
        {**pairs, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        numbers,
        {**numbers, "x-kubernetes-map-type": "atomic"},
        {"type": "object", "properties": {"a": number}, "x-kubernetes-map-type": "atomic"},
        {"type": "array", "maxItems": 5, "items": numbers},
    )


@scenario
async def test_invalid_rules_are_refused(api: Api) -> None:
    await try_rules(
        api,
        {"rule": "self.s =="},
        {"rule": "self.nope == 1"},
        {"rule": ""},
        {"rule": "self.i > 0", "message": ""},
        {"rule": "self.i > 0", "message": "two\nlines"},
        {"rule": "self.i >\n0"},
        {"rule": "self.i > 0", "messageExpression": "'x' +"},
        {"rule": "self.i > 0", "fieldPath": ".nope"},
        {"rule": "self.i > 0", "fieldPath": "i"},
        {"rule": "self.i > 0", "fieldPath": ".l[0]"},
        {"rule": "self.i > 0", "reason": "Whatever"},
        {"rule": "self.i > 0", "optionalOldSelf": True},
        {"rule": "unknown(self.i)"},
        {"rule": "self.l.all(x, x.size() < 5)"},
        {"rule": "self.i > 0"},
    )


async def try_rules(api: Api, *rules: Body) -> None:
    properties: Body = {
        "s": text(),
        "i": {"type": "integer"},
        "l": {"type": "array", "items": text(), "maxItems": 3},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
        "t": {"type": "string", "format": "date-time"},
        "e": {"x-kubernetes-int-or-string": True},
        "o": {
            "type": "object",
            "properties": {"k": {"type": "integer"}},
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "opaque": {"x-kubernetes-preserve-unknown-fields": True},
        "lists": {
            "type": "array",
            "maxItems": 3,
            "items": {"type": "array", "items": text(), "maxItems": 3},
        },
        "data": {"type": "string", "format": "byte", "maxLength": 20},
        "in": {"type": "object", "properties": {"namespace": text()}},
        "dash-ed": {"type": "integer"},
        "under__score": {"type": "integer"},
        "meta": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    }
    for rule in rules:
        schema = {
            "type": "object",
            "properties": properties,
            "x-kubernetes-validations": [rule],
        }
        body = definition("bads", "Bad", schema, group=group_of(api))
        await api.post(f"{DEFINITIONS}?dryRun=All", body)


@scenario
async def test_names_taken_by_another_definition_are_not_accepted(api: Api) -> None:
    group = group_of(api)
    await install(
        api, definition("firsts", "First", OPEN, group=group, names={"shortNames": ["f"]})
    )
    taken = {"singular": "first", "shortNames": ["f"]}
    other = definition("seconds", "First", OPEN, group=group, names=taken)
    await api.post(DEFINITIONS, other)
    path = f"{DEFINITIONS}/seconds.{group}"
    await api.until(path, lambda a: bool(a["status"].get("conditions")))
    await api.get(path)
    await api.get(f"/apis/{group}/v1/seconds")
    await api.delete(f"{DEFINITIONS}/firsts.{group}")
    await api.until(f"/apis/{group}/v1/firsts", lambda answer: answer.status == 404)
    await established(api, path)
    await api.get(path)


@scenario
async def test_versions_of_a_definition_are_served(api: Api) -> None:
    group = group_of(api)
    body = definition("things", "Thing", OPEN, group=group)
    first = body["spec"]["versions"][0]
    body["spec"]["versions"] = [
        {**first, "name": "v1alpha1", "storage": False, "deprecated": True},
        {**first, "name": "v1beta1", "served": False, "storage": False},
        {**first, "name": "v2", "storage": False, "deprecationWarning": "leave this"},
        first,
    ]
    body["spec"]["versions"][2]["deprecated"] = True
    path = await install(api, body)
    await api.get(path)
    await api.get(f"/apis/{group}")
    for version in ("v1", "v1alpha1", "v1beta1", "v2"):
        await api.get(f"/apis/{group}/{version}")
        thing = {"apiVersion": f"{group}/{version}", "kind": "Thing", "spec": {"a": version}}
        things = f"/apis/{group}/{version}/namespaces/{api.namespace}/things"
        await api.post(things, {**thing, "metadata": {"name": f"t-{version}"}})
        await api.get(f"{things}/t-v1")
    await api.get(f"/apis/{group}/v1/namespaces/{api.namespace}/things")


@scenario
async def test_invalid_object_can_be_changed_where_it_was_already_invalid(api: Api) -> None:
    group = group_of(api)
    path = await install(api, definition("things", "Thing", OPEN, group=group))
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    await api.post(things, {**thing, "spec": {"size": 99, "name": "UPPER"}})
    schema = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "maximum": 10},
            "name": text(pattern="^[a-z]+$"),
        },
        "x-kubernetes-validations": [{"rule": "self.size < 50", "message": "too big"}],
    }
    strict = definition("things", "Thing", schema, group=group)
    replace = [{"op": "replace", "path": "/spec/versions", "value": strict["spec"]["versions"]}]
    await api.patch(path, replace, "json")
    probe = {**thing, "metadata": {"name": "probe"}, "spec": {"size": 99}}
    for _ in range(100):
        if (await api.request("POST", f"{things}?dryRun=All", probe)).status == 422:
            break
    await api.patch(f"{things}/one", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{things}/one", {"spec": {"name": "STILL"}})
    await api.patch(f"{things}/one", {"spec": {"name": "fine"}})
    await api.patch(f"{things}/one", {"spec": {"size": 98}})
    await api.patch(f"{things}/one", {"spec": {"size": 9}})
