"""CustomResourceDefinitions: each refusal by its field, and the status of those that are taken."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from hypercobalt.api import crd
from hypercobalt.apiserver.kinds import definitions, serving
from hypercobalt.apiserver.kinds.resources import Registry

JSON = Any
Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
ROOT = "spec.validation.openAPIV3Schema"
A = f"{ROOT}.properties[a]"


def definition(schema: Object | None = None, /, **spec: JSON) -> Object:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    names = {"plural": "things", "kind": "Thing"}
    body: Object = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
            **spec,
        },
    }
    definitions.default_definition(body)
    serving.note_stored(body)
    return body


def faults(body: Object, old: Object | None = None) -> set[str]:
    return {cause.field for cause in definitions.check_definition(body, old)}


def test_names_and_conversion_are_filled_in() -> None:
    spec = definition()["spec"]
    assert spec["names"] == {
        "plural": "things",
        "kind": "Thing",
        "singular": "thing",
        "listKind": "ThingList",
    }
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.__name__)
def test_our_own_definitions_are_valid(kind: Any) -> None:  # noqa: ANN401  # any of our kinds
    body: JSON = msgspec.json.decode(msgspec.json.encode(crd.manifest(kind)))
    definitions.default_definition(body)
    serving.note_stored(body)
    assert faults(body) == set()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"group": "other.com"}, "metadata.name", id="another-name"),
        pytest.param({"group": "nodots"}, "spec.group", id="group-without-a-dot"),
        pytest.param({"group": "Bad.com"}, "spec.group", id="bad-group"),
        pytest.param({"group": ""}, "spec.group", id="no-group"),
        pytest.param({"scope": "Universe"}, "spec.scope", id="unknown-scope"),
        pytest.param({"scope": ""}, "spec.scope", id="no-scope"),
        pytest.param(
            {"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy", id="conversion"
        ),
        pytest.param({"versions": []}, "spec.versions", id="no-version"),
        pytest.param(
            {"names": {"plural": "Things", "kind": "Thing"}}, "spec.names.plural", id="bad-plural"
        ),
        pytest.param(
            {"names": {"plural": "things", "kind": "7"}}, "spec.names.kind", id="bad-kind"
        ),
    ],
)
def test_bad_definition_is_refused_by_field(spec: Object, field: str) -> None:
    assert field in faults(definition(**spec))


def version(**more: JSON) -> Object:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": "v1", "served": True, "storage": True, "schema": schema, **more}


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        pytest.param([version(storage=False)], "spec.versions", id="none-is-stored"),
        pytest.param([version(), version(name="v2")], "spec.versions", id="two-are-stored"),
        pytest.param([version(), version(storage=False)], "spec.versions", id="one-stands-twice"),
        pytest.param([version(name="V1")], "spec.versions[0].name", id="bad-name"),
        pytest.param(
            [version(schema={})], "spec.versions[0].schema.openAPIV3Schema", id="no-schema"
        ),
    ],
)
def test_bad_versions_are_refused_by_field(versions: list[Object], field: str) -> None:
    assert field in faults(definition(versions=versions))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"additionalPrinterColumns": [{"name": "A", "type": "x"}]}, id="column-type"),
        pytest.param(
            {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "x["}]},
            id="column-path",
        ),
        pytest.param(
            {"additionalPrinterColumns": [{"type": "string", "jsonPath": ".x"}]}, id="column-name"
        ),
        pytest.param({"selectableFields": [{"jsonPath": "["}]}, id="selectable-path"),
    ],
)
def test_version_with_bad_columns_or_selectable_fields_is_refused(more: Object) -> None:
    assert any(
        name in field
        for field in faults(definition(versions=[version(**more)]))
        for name in ("additionalPrinterColumns", "selectableFields")
    )


TEXT = {"type": "string"}
GROWS = {"rule": "self >= oldSelf"}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param({}, f"{A}.type", id="no-type"),
        pytest.param({"type": "text"}, f"{A}.type", id="unknown-type"),
        pytest.param({"type": "array"}, f"{A}.items", id="array-without-items"),
        pytest.param(
            {"type": "array", "items": TEXT, "uniqueItems": True}, f"{A}.uniqueItems", id="unique"
        ),
        pytest.param(
            {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
            f"{A}.additionalProperties",
            id="both-kinds-of-properties",
        ),
        pytest.param({"type": "object", "$ref": "#/x"}, f"{A}.$ref", id="reference"),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "pile"},
            f"{A}.x-kubernetes-list-type",
            id="unknown-list-type",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"},
            f"{A}.x-kubernetes-list-map-keys",
            id="no-list-keys",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": TEXT}},
            },
            f"{A}.items.properties[k].default",
            id="list-key-that-may-be-missing",
        ),
        pytest.param(
            {"type": "string", "default": 5}, f"{A}.default", id="default-of-another-type"
        ),
        pytest.param(
            {"type": "string", "x-kubernetes-validations": [{"rule": "self +"}]},
            f"{A}.x-kubernetes-validations[0].rule",
            id="rule-that-does-not-parse",
        ),
        pytest.param(
            {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
            f"{A}.x-kubernetes-validations[0].rule",
            id="empty-rule",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-validations": [{"rule": "self.x == 1"}]},
            f"{A}.x-kubernetes-validations[0].rule",
            id="rule-that-reads-an-unknown-field",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "string", "x-kubernetes-validations": [{"rule": "1"}]},
            },
            f"{A}.items.x-kubernetes-validations[0].rule",
            id="rule-in-a-list",
        ),
        pytest.param(
            {"type": "string", "allOf": [{"x-kubernetes-validations": [{"rule": "nonsense("}]}]},
            f"{A}.allOf[0].x-kubernetes-validations",
            id="rule-in-a-fragment",
        ),
        pytest.param(
            {"type": "string", "not": {"default": 0}},
            f"{A}.not.default",
            id="default-in-a-fragment",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [GROWS]}},
            f"{A}.items.x-kubernetes-validations[0].rule",
            id="rule-over-time-in-a-list-without-keys",
        ),
    ],
)
def test_bad_schema_is_refused_by_field(raw: Object, field: str) -> None:
    assert field in faults(definition({"type": "object", "properties": {"a": raw}}))


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param({"type": "array", "items": TEXT}, ".type", id="an-array"),
        pytest.param({"additionalProperties": TEXT}, ".additionalProperties", id="a-free-map"),
        pytest.param(
            {"properties": {"metadata": {"type": "object", "properties": {"labels": {}}}}},
            ".properties[metadata]",
            id="metadata",
        ),
    ],
)
def test_root_schema_with_forbidden_keys_is_refused(raw: Object, field: str) -> None:
    assert f"{ROOT}{field}" in faults(definition({"type": "object", **raw}))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"scope": "Cluster"}, "spec.scope", id="scope"),
        pytest.param({"group": "other.com"}, "spec.group", id="group"),
        pytest.param(
            {"names": {"plural": "others", "kind": "Thing"}}, "spec.names.plural", id="plural"
        ),
    ],
)
def test_immutable_field_of_a_definition_cannot_change(change: Object, field: str) -> None:
    assert field in faults(definition(**change), definition())


def established(body: Object, *others: Object) -> tuple[Object, dict[str, str]]:
    obj: JSON = serving.establish(copy.deepcopy(body), serving.HeldNames(body, *others), NOW)
    status = obj["status"]
    return status, {c["type"]: c["status"] for c in status["conditions"]}


def test_a_definition_with_free_names_is_established() -> None:
    status, conditions = established(definition())
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert status["acceptedNames"]["plural"] == "things"


@pytest.mark.parametrize("field", ["plural", "singular", "kind", "listKind"])
def test_a_name_that_is_taken_is_not_accepted(field: str) -> None:
    other = definition()
    other["metadata"]["name"] = "others.example.com"
    mine = definition()["spec"]["names"]
    other["status"] = {"acceptedNames": {"plural": "others", "kind": "Other", field: mine[field]}}
    _, conditions = established(definition(), other)
    assert conditions == {"NamesAccepted": "False", "Established": "False"}


def test_objects_of_a_changed_definition_are_looked_at_once() -> None:
    registry = Registry.load()
    raw: Object = {"type": "object", "properties": {"a": TEXT, "b": {**TEXT, "default": "x"}}}
    body = serving.establish(definition(raw), serving.HeldNames(), NOW)
    body["metadata"] = {"name": "things.example.com", "generation": 2}
    registry.define(body)
    (resource,) = next(iter(registry.custom.values()))
    old = b'{"metadata":{},"a":"1","gone":2}'
    shown = resource.conformed(old)
    assert msgspec.json.decode(shown) == {"metadata": {}, "a": "1", "b": "x"}
    assert resource.conformed(bytes(bytearray(old))) is shown
    assert resource.conformed(shown) is shown
