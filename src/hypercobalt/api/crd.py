"""CustomResourceDefinitions, generated from the wire types.

A type becomes a structural schema: Python types give the types, `Field` and `Limits` the rest.
Properties and required lists are sorted, so that manifests compare well with controller-gen's.

Source: apiextensions.k8s.io/v1; https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Final, cast, get_args, get_origin

import msgspec
import yaml

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fields import bounds_of, fields_of
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Struct
from hypercobalt.api.migration import Migration
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.api.quantity import PATTERN as QUANTITY_PATTERN
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.schema import (
    OF_OTHERS,
    TIME,
    Bounds,
    CustomObject,
    Field,
    Json,
    Limits,
    Rule,
)
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.errors import ConfigurationError

Schema = dict[str, Json]
"""One JSON object: a manifest, or a node of a schema."""

KINDS: Final[tuple[type[CustomObject], ...]] = (
    Hypervisor,
    Eviction,
    Migration,
    OVSNode,
    SealedDefinitions,
)
"""The kinds that we define, in the order in which they are printed."""

_ROOT: Final[Schema] = {
    "apiVersion": {
        "description": "Group and version of the schema that this object follows.",
        "type": "string",
    },
    "kind": {"description": "Kind of this object, in CamelCase.", "type": "string"},
    "metadata": {"type": "object"},
}
_SCALARS: Final[Mapping[object, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time", "maxLength": TIME},
    Quantity: {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": TIME,
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    },
}
_LIMIT_WORDS: Final = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "enum": "enum",
    "minimum": "minimum",
    "maximum": "maximum",
    "max_items": "maxItems",
    "max_properties": "maxProperties",
    "format": "format",
}


def manifests() -> tuple[Schema, ...]:
    """The CRD manifests of all kinds that we define."""
    return tuple(manifest(kind) for kind in KINDS)


def kind_named(name: str) -> type[CustomObject]:
    """The kind with that name, plural or short name, in any case.

    Raises:
        ConfigurationError: there is none.
    """
    for kind in KINDS:
        names = {kind.resource.kind, kind.resource.plural, *kind.definition.short_names}
        if name.lower() in {known.lower() for known in names}:
            return kind
    known = ", ".join(kind.resource.kind for kind in KINDS)
    raise ConfigurationError(f"kind {name!r} is unknown: must be one of {known}")


def manifest(kind: type[CustomObject]) -> Schema:
    """The CRD manifest of a kind, as `kubectl apply` takes it."""
    resource, definition = kind.resource, kind.definition
    names: Schema = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "shortNames": list(definition.short_names),
        "singular": resource.kind.lower(),
    }
    version: Schema = {
        "additionalPrinterColumns": _columns(kind),
        "name": resource.version,
        "schema": {"openAPIV3Schema": root_schema(kind)},
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": resource.scope,
            "versions": [version],
        },
    }


def file_name(kind: type[CustomObject]) -> str:
    """Name of the file in the chart, as controller-gen would call it."""
    return f"{kind.resource.group}_{kind.resource.plural}.yaml"


def root_schema(kind: type[CustomObject]) -> Schema:
    """The structural schema of the whole object."""
    properties = dict(_ROOT)
    for name, (type_, field) in fields_of(kind).items():
        if name not in _ROOT:
            properties[name] = _described(type_, field, OF_OTHERS)
    schema: Schema = {
        "description": kind.definition.doc,
        "properties": dict(sorted(properties.items())),
        "type": "object",
    }
    if kind.definition.root_required:
        schema["required"] = sorted(kind.definition.root_required)
    return schema


def to_yaml(document: Schema) -> str:
    """A manifest as one YAML document, with its separator."""
    return yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        explicit_start=True,
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _columns(kind: type[CustomObject]) -> list[Json]:
    columns: list[Json] = []
    for column in kind.definition.columns:
        entry: Schema = {"jsonPath": column.path, "name": column.name, "type": column.type}
        if column.priority:
            entry["priority"] = column.priority
        columns.append(entry)
    return columns


def _described(type_: object, field: Field | None, bounds: Bounds) -> Schema:
    """The schema of one field: its type, with what `Field` adds."""
    schema = _schema(type_, bounds)
    if field is None:
        return schema
    if field.default is not None:
        schema["default"] = _plain(field.default)
    schema["description"] = field.doc
    _limit(schema, field.limits)
    _bound(schema, bounds)
    if "items" in schema:
        _limit(cast("Schema", schema["items"]), field.items)
        _bound(cast("Schema", schema["items"]), bounds)
    if field.keys:
        schema["x-kubernetes-list-map-keys"] = list(field.keys)
        schema["x-kubernetes-list-type"] = "map"
    if field.rules:
        schema["x-kubernetes-validations"] = _rules(field.rules)
    return dict(sorted(schema.items()))


def _schema(type_: object, bounds: Bounds) -> Schema:
    """The schema of a type, without description."""
    if type_ in _SCALARS:
        return dict(_SCALARS[type_])
    arguments = cast("tuple[object, ...]", get_args(type_))
    match get_origin(type_):
        case origin if origin is UnionType:
            (inner,) = (argument for argument in arguments if argument is not NoneType)
            return _schema(inner, bounds)
        case origin if origin is tuple:
            return {"items": _item(arguments[0], bounds), "type": "array"}
        case origin if origin is dict:
            value = _schema(arguments[1], bounds)
            _bound(value, bounds)
            return {"additionalProperties": value, "type": "object"}
        case _ if inspect.isclass(type_) and issubclass(type_, Struct):
            return _object(type_, bounds)
        case _:
            raise TypeError(f"{type_!r} has no schema")


def _item(type_: object, bounds: Bounds) -> Schema:
    schema = _schema(type_, bounds)
    if inspect.isclass(type_) and issubclass(type_, Struct):
        schema["description"] = inspect.getdoc(type_)
    return dict(sorted(schema.items()))


def _object(struct: type[Struct], bounds: Bounds) -> Schema:
    schema: Schema = {"type": "object"}
    fields = fields_of(struct)
    if fields:
        schema["properties"] = {
            name: _described(type_, field, bounds_of(struct, field, bounds))
            for name, (type_, field) in sorted(fields.items())
        }
    required = sorted(_required(struct, fields))
    if required:
        schema["required"] = required
    rules = cast("tuple[Rule, ...]", getattr(struct, "rules", ()))
    if rules:
        schema["x-kubernetes-validations"] = _rules(rules)
    return schema


def _required(
    struct: type[Struct], fields: Mapping[str, tuple[object, Field | None]]
) -> tuple[str, ...]:
    without_default = {info.encode_name for info in msgspec.structs.fields(struct) if info.required}
    return tuple(
        name
        for name, (_, field) in fields.items()
        if (name in without_default if field is None or field.required is None else field.required)
    )


def _limit(schema: Schema, limits: Limits) -> None:
    for attribute, word in _LIMIT_WORDS.items():
        value = cast("Json", getattr(limits, attribute))
        if value is not None:
            schema[word] = _plain(value)


def _bound(schema: Schema, bounds: Bounds) -> None:
    """Bound a text, list or map that is not bounded yet; a text of a closed set is."""
    if "enum" in schema:
        return
    if schema.get("type") == "string":
        schema.setdefault("maxLength", bounds.text)
    elif schema.get("type") == "array":
        schema.setdefault("maxItems", bounds.items)
    elif "additionalProperties" in schema:
        schema.setdefault("maxProperties", bounds.properties)


def _rules(rules: Sequence[Rule]) -> list[Json]:
    return [{"message": rule.message, "rule": rule.rule} for rule in rules]


def _plain(value: Json) -> Json:
    """The same with lists for tuples and `str` for enum members, as YAML requires it."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return value
