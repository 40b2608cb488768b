"""Structural schemas: each value has a type and declared fields.

What stands under allOf, anyOf, oneOf or not is a fragment: it judges values and declares nothing.
Refused is what would be served wrongly: a value without a type, a keyword that is not understood, a
list whose items have no keys, a default that does not fit. kube-apiserver refuses more; the
definitions of this project are held against it in CI.

Source: apiextensions-apiserver pkg/apiserver/schema (validation.go, defaulting) and
pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.schema.changing import prune
from hypercobalt.apiserver.schema.node import compile_schema
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.validation import validate
from hypercobalt.apiserver.values import clone, object_at, objects_at, texts_at

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING: list[JSON] = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED = ("definitions", "dependencies", "patternProperties", "id", "additionalItems")


def check_structural(raw: JSONObject, place: str) -> Iterator[Cause]:
    """Yield the faults that keep a kind's schema from being structural, else faults of defaults.

    Args:
        raw: the schema of whole objects.
        place: path of the schema.
    """
    faults = [*_check_root(raw, place), *_check_structure(raw, place, "at the root")]
    yield from faults or _check_defaults(raw, place)


def _check_root(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What holds of a whole object's schema only."""
    if raw.get("type") not in (None, "", "object"):
        yield FieldErrors.invalid(f"{place}.type", raw["type"], "must be object at the root")
    if raw.get("additionalProperties") is not None:
        text = "must not be used at the root"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if object_at(raw, "properties", "metadata", "properties").keys() - {"name", "generateName"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield FieldErrors.forbidden(f"{place}.properties[metadata]", text)


def _check_structure(raw: JSONObject, place: str, level: str) -> Iterator[Cause]:
    if "$ref" in raw:
        yield FieldErrors.forbidden(f"{place}.$ref", "$ref is not supported")
        return
    if isinstance(raw.get("items"), list):
        text = "items must be a schema object and not an array"
        yield FieldErrors.forbidden(f"{place}.items", text)
        return
    yield from _check_type(raw, place, level)
    yield from _check_words(raw, place)
    yield from _check_fragments(raw, place, mixed=2)
    for where, below in _parts(raw, place):
        kind = "array items" if where.endswith(".items") else "object fields"
        yield from _check_structure(below, where, f"for specified {kind}")


def _parts(raw: JSONObject, place: str) -> Iterator[tuple[str, JSONObject]]:
    """The schemas of the values in a value, and their places."""
    for name, below in object_at(raw, "properties").items():
        if isinstance(below, dict):
            yield f"{place}.properties[{name}]", below
    for name in ("items", "additionalProperties"):
        if isinstance(below := raw.get(name), dict):
            yield f"{place}.{name}", below


def _check_type(raw: JSONObject, place: str, level: str) -> Iterator[Cause]:
    kind = raw.get("type") or ""
    mixed, opaque, embedded = (
        raw.get(f"x-kubernetes-{name}") is True
        for name in ("int-or-string", "preserve-unknown-fields", "embedded-resource")
    )
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield _wrong_type(kind, place, text)
    elif not (kind or mixed or opaque):
        yield FieldErrors.required(f"{place}.type", f"must not be empty {level}")
    if kind == "array" and not isinstance(raw.get("items"), dict):
        yield FieldErrors.required(f"{place}.items", "must be specified")


def _wrong_type(kind: JSON, place: str, text: str) -> Cause:
    where = f"{place}.type"
    return FieldErrors.invalid(where, kind, text) if kind else FieldErrors.required(where, text)


def _check_words(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What holds of every schema, fragment or not."""
    if (kind := raw.get("type")) and kind not in _TYPES:
        yield FieldErrors.not_supported(f"{place}.type", kind, _TYPES)
    if raw.get("properties") and raw.get("additionalProperties") not in (None, True):
        text = "additionalProperties and properties are mutual exclusive"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if raw.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldErrors.forbidden(f"{place}.uniqueItems", text)
    for name in _UNSUPPORTED:
        if name in raw:
            yield FieldErrors.forbidden(f"{place}.{name}", f"{name} is not supported")
    if isinstance(pattern := raw.get("pattern"), str):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield FieldErrors.invalid(f"{place}.pattern", pattern, text)
    yield from _check_list_type(raw, place)


_NOT_IN_FRAGMENTS = {
    "type": "empty",
    "description": "empty",
    "title": "empty",
    "default": "undefined",
    "additionalProperties": "undefined",
    "nullable": "false",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def _check_fragments(raw: JSONObject, place: str, *, mixed: int = 0) -> Iterator[Cause]:
    """The faults below allOf, anyOf, oneOf and not.

    Args:
        raw: a schema.
        place: of it.
        mixed: where anyOf may be "an integer or a string": 1 here, 2 in the first allOf, too.
    """
    lists = {name: objects_at(raw, name) for name in ("allOf", "anyOf", "oneOf")}
    if mixed and lists["anyOf"] == _INT_OR_STRING:
        lists["anyOf"] = []
    fragments = [(f"{n}[{i}]", part) for n, parts in lists.items() for i, part in enumerate(parts)]
    if isinstance(negated := raw.get("not"), dict):
        fragments.append(("not", negated))
    for name, part in fragments:
        below = mixed - 1 if mixed and name == "allOf[0]" else 0
        yield from _check_fragment(part, f"{place}.{name}", mixed=below)


def _check_fragment(raw: JSONObject, place: str, *, mixed: int = 0) -> Iterator[Cause]:
    for name, wanted in _NOT_IN_FRAGMENTS.items():
        value = raw.get(name)
        if value or (name == "default" and value is not None):
            yield FieldErrors.forbidden(f"{place}.{name}", f"must be {wanted} to be structural")
    yield from _check_words(raw, place)
    yield from _check_fragments(raw, place, mixed=mixed)
    for where, below in _parts(raw, place):
        if not where.endswith(".additionalProperties"):
            yield from _check_fragment(below, where)


def _check_list_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("x-kubernetes-list-type")
    if kind is not None and raw.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield _wrong_type(raw.get("type"), place, text)
    if kind not in (None, "atomic", "set", "map"):
        where = f"{place}.x-kubernetes-list-type"
        yield FieldErrors.not_supported(where, kind, ("atomic", "map", "set"))
    if kind == "map":
        yield from _check_map(raw, place)


def _check_map(raw: JSONObject, place: str) -> Iterator[Cause]:
    """A list whose items are known by some of their fields."""
    where = f"{place}.x-kubernetes-list-map-keys"
    keys, items = texts_at(raw, "x-kubernetes-list-map-keys"), object_at(raw, "items")
    fields = object_at(items, "properties")
    if not keys:
        yield FieldErrors.required(where, "must not be empty if x-kubernetes-list-type is map")
    if items and items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield FieldErrors.invalid(f"{place}.items.type", items.get("type", ""), text)
    elif not set(keys) <= fields.keys():
        yield FieldErrors.invalid(where, [*keys], "entries must all be names of item properties")
    for name in keys:
        may_be_absent = object_at(fields, name).get("default") is None
        if name in fields and may_be_absent and name not in texts_at(items, "required"):
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be "
                "a required property"
            )
            yield FieldErrors.required(f"{place}.items.properties[{name}].default", text)


def _check_defaults(raw: JSONObject, place: str) -> Iterator[Cause]:
    for where, below in _parts(raw, place):
        yield from _check_defaults(below, where)
    default = raw.get("default")
    if default is None:
        return
    node = compile_schema(raw)
    for cause in validate(node, default):
        yield replace(cause, field=f"{place}.default{'.' if cause.field else ''}{cause.field}")
    if prune(node, clone(default)):
        yield FieldErrors.invalid(f"{place}.default", default, "must not have unknown fields")
