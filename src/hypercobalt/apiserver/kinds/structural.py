"""Structural schemas: of every value one knows its type and which fields it has.

Source: apiextensions-apiserver pkg/apiserver/schema (validation.go, defaulting).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

from hypercobalt.apiserver.schema.changing import prune
from hypercobalt.apiserver.schema.node import compile_schema
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.validation import validate
from hypercobalt.apiserver.status import Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.values import object_at, objects_at

_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def check_structural(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What keeps a schema and those in it from being structural; else, faults of their defaults."""
    faults = list(_check_structure(raw, place))
    yield from faults or _check_defaults(raw, place)


def _check_structure(raw: JSONObject, place: str) -> Iterator[Cause]:
    if "$ref" in raw:
        yield FieldErrors.forbidden(f"{place}.$ref", "$ref is not supported")
        return
    if isinstance(raw.get("items"), list):
        text = "items must be a schema object and not an array"
        yield FieldErrors.forbidden(f"{place}.items", text)
        return
    yield from _check_type(raw, place)
    yield from _check_extensions(raw, place)
    yield from _check_list_type(raw, place)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(objects_at(raw, name)):
            if not (raw.get("x-kubernetes-int-or-string") is True and name != "oneOf"):
                yield from _check_fragment(part, f"{place}.{name}[{index}]")
    if negated := object_at(raw, "not"):
        yield from _check_fragment(negated, f"{place}.not")
    for where, below in _parts(raw, place):
        yield from _check_structure(below, where)


def _parts(raw: JSONObject, place: str) -> Iterator[tuple[str, JSONObject]]:
    """The schemas of the values in a value, and their places."""
    for name, below in object_at(raw, "properties").items():
        if isinstance(below, dict):
            yield f"{place}.properties[{name}]", below
    for name in ("items", "additionalProperties"):
        if isinstance(below := raw.get(name), dict):
            yield f"{place}.{name}", below


def _check_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("type")
    free = (raw.get(f"x-kubernetes-{x}") for x in ("int-or-string", "preserve-unknown-fields"))
    inner = place.endswith("]") or ".properties" in place
    if not kind and inner and not any(value is True for value in free):
        text = "must not be empty for specified object fields"
        yield FieldErrors.required(f"{place}.type", text)
    if kind and kind not in _TYPES:
        yield FieldErrors.not_supported(f"{place}.type", kind, _TYPES)
    if "properties" in raw and "additionalProperties" in raw:
        text = "additionalProperties and properties are mutual exclusive"
        yield FieldErrors.forbidden(f"{place}.additionalProperties", text)
    if kind == "array" and not isinstance(raw.get("items"), dict):
        yield FieldErrors.required(f"{place}.items", "must be specified")
    if raw.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldErrors.forbidden(f"{place}.uniqueItems", text)
    for name in ("definitions", "dependencies", "patternProperties", "id"):
        if name in raw:
            yield FieldErrors.forbidden(f"{place}.{name}", f"{name} is not supported")
    yield from _check_pattern(raw, place)


def _check_pattern(raw: JSONObject, place: str) -> Iterator[Cause]:
    if isinstance(pattern := raw.get("pattern"), str):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield FieldErrors.invalid(f"{place}.pattern", pattern, text)


def _check_extensions(raw: JSONObject, place: str) -> Iterator[Cause]:
    keeps = raw.get("x-kubernetes-preserve-unknown-fields")
    if keeps is False:
        where = f"{place}.x-kubernetes-preserve-unknown-fields"
        yield FieldErrors.invalid(where, keeps, "must be true or undefined")
    if raw.get("x-kubernetes-embedded-resource") is True and not keeps and "properties" not in raw:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield FieldErrors.required(f"{place}.properties", text)
    kind = raw.get("x-kubernetes-map-type")
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
}


def _check_fragment(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What stands under allOf, anyOf, oneOf or not judges values and declares nothing."""
    for name, wanted in _NOT_IN_FRAGMENTS.items():
        if raw.get(name):
            yield FieldErrors.forbidden(f"{place}.{name}", f"must be {wanted} to be structural")
    yield from _check_pattern(raw, place)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(objects_at(raw, name)):
            yield from _check_fragment(part, f"{place}.{name}[{index}]")
    parts = {name: raw.get(name) for name in ("items", "not")}
    parts |= {f"properties[{name}]": part for name, part in object_at(raw, "properties").items()}
    for name, below in parts.items():
        if isinstance(below, dict):
            yield from _check_fragment(below, f"{place}.{name}")


def _check_list_type(raw: JSONObject, place: str) -> Iterator[Cause]:
    kind = raw.get("x-kubernetes-list-type")
    keys = raw.get("x-kubernetes-list-map-keys")
    items = object_at(raw, "items")
    if kind not in (None, "atomic", "set", "map"):
        allowed = ("atomic", "map", "set")
        yield FieldErrors.not_supported(f"{place}.x-kubernetes-list-type", kind, allowed)
    if kind and raw.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield FieldErrors.invalid(f"{place}.type", raw.get("type", ""), text)
    if kind == "set" and items.get("type") in ("array", "object"):
        name = {"array": "list", "object": "map"}[str(items["type"])]
        if (shown := items.get(f"x-kubernetes-{name}-type")) != "atomic":
            text = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield FieldErrors.invalid(f"{place}.items.x-kubernetes-{name}-type", shown, text)
    if kind == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield FieldErrors.required(f"{place}.x-kubernetes-list-map-keys", text)
    if kind != "map" and keys:
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldErrors.invalid(f"{place}.x-kubernetes-list-type", kind, text)
    if kind != "map" or not isinstance(keys, list):
        return
    required = items.get("required")
    for index, key in enumerate(keys):
        where = f"{place}.x-kubernetes-list-map-keys[{index}]"
        if key not in object_at(items, "properties"):
            text = "entries must all be names of item properties"
            yield FieldErrors.invalid(where, key, text)
        elif "default" not in object_at(items, "properties", str(key)) and key not in (
            required if isinstance(required, list) else []
        ):
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield FieldErrors.required(f"{place}.items.properties[{key}].default", text)


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
