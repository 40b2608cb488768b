"""Structural schemas: of every value one knows its type and which fields it has.

What stands under allOf, anyOf, oneOf or not is a fragment: it judges values and declares nothing.

Source: apiextensions-apiserver pkg/apiserver/schema (validation.go, complete.go, defaulting) and
pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.schema.changing import prune
from hypercobalt.apiserver.schema.node import compile_schema
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.validation import validate
from hypercobalt.apiserver.values import object_at, objects_at, texts_at

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING: list[JSON] = [{"type": "integer"}, {"type": "string"}]
_META = {"apiVersion": "string", "kind": "string", "metadata": "object"}
_NAMES = {"name", "generateName"}
# All that a schema may say at its root, where status is checked apart: what it says elsewhere of
# the whole object would not be asked.
_BESIDE_STATUS = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum"),
    *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
    *("uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs", "example"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
)


def check_structural(raw: JSONObject, place: str, *, status: bool) -> Iterator[Cause]:
    """What keeps a kind's schema from being structural; else, faults of its defaults.

    Args:
        raw: the schema of whole objects.
        place: of it.
        status: whether the kind has a status subresource.
    """
    faults = [*_check_root(raw, place), *_check_structure(raw, place, "at the root")]
    if status:
        yield from _check_beside_status(raw, place)
    yield from faults or _check_defaults(raw, place)


def _check_beside_status(raw: JSONObject, place: str) -> Iterator[Cause]:
    if raw.get("type") not in (None, "", "object"):
        text = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield FieldErrors.invalid(f"{place}.type", raw["type"], text)
    elif said := {n for n, v in raw.items() if v not in (None, False, [])} - {*_BESIDE_STATUS}:
        text = (
            f"only [{' '.join(_BESIDE_STATUS)}] fields are allowed at the root of the schema if "
            f"the status subresource is enabled, and not {' '.join(sorted(said))}"
        )
        yield FieldErrors.invalid(place, raw, text)


def _check_root(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What holds of a whole object's schema only."""
    if raw.get("type") not in (None, "", "object"):
        text = "must be object at the root"
        yield FieldErrors.invalid(f"{place}.type", raw["type"], text)
    if raw.get("additionalProperties") is not None:
        text = "must not be used at the root"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if raw.get("nullable") is True:
        yield FieldErrors.forbidden(f"{place}.nullable", "nullable cannot be true at the root")
    declared = object_at(raw, "properties", "metadata")
    about: JSONObject = {name: said for name, said in declared.items() if said}
    if object_at(about, "properties").keys() <= _NAMES:
        about.pop("properties", None)
    if about.keys() - {"type", "default"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield FieldErrors.forbidden(f"{place}.properties[metadata]", text)
    for name in _META:
        below = object_at(raw, "properties", name)
        yield from _refuse_defaults(below, f"{place}.properties[{name}]", name)
    yield from _check_completeness(raw, raw, place, place)


def _refuse_defaults(raw: JSONObject, place: str, name: str) -> Iterator[Cause]:
    if raw.get("default") is not None:
        yield FieldErrors.forbidden(f"{place}.default", f"must not be set in top-level {name}")
    for where, below in _parts(raw, place):
        yield from _refuse_defaults(below, where, name)


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
    if level == "at the root" or raw.get("x-kubernetes-embedded-resource") is True:
        yield from _check_meta(raw, place)
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
    mixed, open_, embedded = (
        raw.get(f"x-kubernetes-{name}") is True
        for name in ("int-or-string", "preserve-unknown-fields", "embedded-resource")
    )
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield _wrong_type(kind, place, text)
    elif not (kind or mixed or open_):
        yield FieldErrors.required(f"{place}.type", f"must not be empty {level}")
    if embedded and raw.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if embedded and not open_ and not raw.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield FieldErrors.required(f"{place}.properties", text)
    for name, given in (("preserve-unknown-fields", open_), ("embedded-resource", embedded)):
        if mixed and given:
            text = "must be false if x-kubernetes-int-or-string is true"
            yield FieldErrors.invalid(f"{place}.x-kubernetes-{name}", given, text)
    if kind == "array" and not isinstance(raw.get("items"), dict):
        yield FieldErrors.required(f"{place}.items", "must be specified")


def _wrong_type(kind: JSON, place: str, text: str) -> Cause:
    where = f"{place}.type"
    return FieldErrors.invalid(where, kind, text) if kind else FieldErrors.required(where, text)


def _check_meta(raw: JSONObject, place: str) -> Iterator[Cause]:
    """The types of what every object has, in the schema of an object."""
    for name, wanted in _META.items():
        declared = object_at(raw, "properties").get(name)
        if isinstance(declared, dict) and (kind := declared.get("type", "")) != wanted:
            where = f"{place}.properties[{name}].type"
            yield FieldErrors.invalid(where, kind, f"must be {wanted}")


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
    for name in ("definitions", "dependencies", "patternProperties", "id", "additionalItems"):
        if name in raw:
            yield FieldErrors.forbidden(f"{place}.{name}", f"{name} is not supported")
    if isinstance(pattern := raw.get("pattern"), str):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield FieldErrors.invalid(f"{place}.pattern", pattern, text)
    if (keeps := raw.get("x-kubernetes-preserve-unknown-fields")) is False:
        where = f"{place}.x-kubernetes-preserve-unknown-fields"
        yield FieldErrors.invalid(where, keeps, "must be true or undefined")
    yield from _check_map_type(raw, place)
    yield from _check_list_type(raw, place)


def _check_map_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("x-kubernetes-map-type")
    if kind is not None and raw.get("type") != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        yield _wrong_type(raw.get("type"), place, text)
    if kind not in (None, "atomic", "granular"):
        where = f"{place}.x-kubernetes-map-type"
        yield FieldErrors.not_supported(where, kind, ("atomic", "granular"))


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


def _fragments(raw: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(objects_at(raw, name)):
            yield f"{name}[{index}]", part
    if isinstance(negated := raw.get("not"), dict):
        yield "not", negated


def _check_fragments(raw: JSONObject, place: str, *, mixed: int = 0) -> Iterator[Cause]:
    """What is wrong below allOf, anyOf, oneOf and not.

    Args:
        raw: a schema.
        place: of it.
        mixed: where anyOf may say "an integer or a string": 1 here, 2 in the first allOf, too.
    """
    for name, part in _fragments(raw):
        if mixed and name.startswith("anyOf") and raw["anyOf"] == _INT_OR_STRING:
            continue
        below = mixed - 1 if mixed and name == "allOf[0]" else 0
        yield from _check_fragment(part, f"{place}.{name}", mixed=below)


def _check_fragment(raw: JSONObject, place: str, *, mixed: int = 0) -> Iterator[Cause]:
    for name, wanted in _NOT_IN_FRAGMENTS.items():
        value = raw.get(name)
        if value or (name == "default" and value is not None):
            yield FieldErrors.forbidden(f"{place}.{name}", f"must be {wanted} to be structural")
    if "metadata" in object_at(raw, "properties"):
        text = "must not be specified in a nested context"
        yield FieldErrors.forbidden(f"{place}.properties[metadata]", text)
    yield from _check_words(raw, place)
    yield from _check_fragments(raw, place, mixed=mixed)
    for where, below in _parts(raw, place):
        if not where.endswith(".additionalProperties"):
            yield from _check_fragment(below, where)


def _check_completeness(
    raw: JSONObject, declared: JSONObject, place: str, judged: str
) -> Iterator[Cause]:
    """What the fragments of a schema judge that nothing declares.

    Args:
        raw: the schema, or a fragment.
        declared: the schema that declares what is there.
        place: of `declared`.
        judged: place of `raw`.
    """
    for name, part in _fragments(raw):
        yield from _check_declared(part, declared, place, f"{judged}.{name}")


def _check_declared(
    part: JSONObject, declared: JSONObject, place: str, judged: str
) -> Iterator[Cause]:
    yield from _check_completeness(part, declared, place, judged)
    known = dict(_parts(declared, ""))
    for step, below in _parts(part, ""):
        if step in known:
            yield from _check_declared(below, known[step], f"{place}{step}", f"{judged}{step}")
        elif step != ".additionalProperties":
            yield FieldErrors.required(f"{place}{step}", f"because it is defined in {judged}{step}")


def _check_list_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind, keys = (raw.get(f"x-kubernetes-list-{name}") for name in ("type", "map-keys"))
    where = f"{place}.x-kubernetes-list-type"
    if kind is not None and raw.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield _wrong_type(raw.get("type"), place, text)
    elif kind == "set":
        yield from _check_set(object_at(raw, "items"), f"{place}.items")
    if kind not in (None, "atomic", "set", "map"):
        yield FieldErrors.not_supported(where, kind, ("atomic", "map", "set"))
    if kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        none = FieldErrors.required(where, text)
        yield none if kind is None else FieldErrors.invalid(where, kind, text)
    if kind == "map":
        yield from _check_map(raw, place)
    if kind in ("set", "map") and object_at(raw, "items").get("nullable") is True:
        text = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        yield FieldErrors.forbidden(f"{place}.items.nullable", text)


def _check_set(items: JSONObject, place: str) -> Iterator[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kinds = {name: items.get(f"x-kubernetes-{name}-type") for name in ("list", "map")}
    if items.get("type") == "array" and kinds["list"] not in (None, "atomic"):
        yield FieldErrors.invalid(f"{place}.x-kubernetes-list-type", kinds["list"], text)
    if items.get("type") == "object" and kinds["map"] != "atomic":
        yield FieldErrors.invalid(f"{place}.x-kubernetes-map-type", kinds["list"], text)


def _check_map(raw: JSONObject, place: str) -> Iterator[Cause]:
    """A list whose items are known by some of their fields."""
    where = f"{place}.x-kubernetes-list-map-keys"
    keys = raw.get("x-kubernetes-list-map-keys") or []
    names = [str(key) for key in keys] if isinstance(keys, list) else []
    items = object_at(raw, "items")
    if not names:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield FieldErrors.required(where, text)
    if not items:
        text = "must have a schema if x-kubernetes-list-type is map"
        yield FieldErrors.required(f"{place}.items", text)
    elif items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield FieldErrors.invalid(f"{place}.items.type", items.get("type", ""), text)
    elif not set(names) <= object_at(items, "properties").keys():
        yield FieldErrors.invalid(where, keys, "entries must all be names of item properties")
    if len(set(names)) < len(names):
        yield FieldErrors.invalid(where, keys, "must not contain duplicate entries")
    for name in names:
        if name in object_at(items, "properties"):
            yield from _check_map_key(items, name, f"{place}.items")


def _check_map_key(items: JSONObject, name: str, place: str) -> Iterator[Cause]:
    key, where = object_at(items, "properties", name), f"{place}.properties[{name}]"
    if key.get("type") in ("array", "object"):
        text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield FieldErrors.invalid(f"{where}.type", items.get("type", ""), text)
    this = "this property is in x-kubernetes-list-map-keys, so it"
    if key.get("default") is None and name not in texts_at(items, "required"):
        text = f"{this} must have a default or be a required property"
        yield FieldErrors.required(f"{where}.default", text)
    if key.get("nullable") is True:
        yield FieldErrors.forbidden(f"{where}.nullable", f"{this} cannot be nullable")


def _check_defaults(raw: JSONObject, place: str) -> Iterator[Cause]:
    for where, below in _parts(raw, place):
        yield from _check_defaults(below, where)
    default = raw.get("default")
    if default is None:
        return
    node = compile_schema(raw)
    for cause in validate(node, default):
        yield replace(cause, field=f"{place}.default{'.' if cause.field else ''}{cause.field}")
    if prune(node, copy.deepcopy(default)):
        yield FieldErrors.invalid(f"{place}.default", default, "must not have unknown fields")
