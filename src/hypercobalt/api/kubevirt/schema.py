"""KubeVirt's structural schema of a VirtualMachineInstance, read from the table beside this module.

A line of `virtualmachineinstance.schema` is one field, below the field that it is indented under:
its name, its type, and what else its schema holds. `[]` names the items of a list, `{}` the values
of a map with free keys; `atomic` a list or map that is replaced as a whole. A `quantity`, `int32`,
`int64` or `date-time` is a type here, and a format or pattern in OpenAPI.

Source: facts of the definition that KubeVirt v1.8 serves, without its texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from hypercobalt.api.quantity import PATTERN as QUANTITY_PATTERN
from hypercobalt.api.schema import Json

OpenAPI = dict[str, Json]
"""One node of a schema, as a CustomResourceDefinition holds it."""

ITEMS: Final = "[]"
VALUES: Final = "{}"

_TABLE: Final = "virtualmachineinstance.schema"
_NUMBERS: Final = frozenset({"int32", "int64"})
_INT_OR_STRING: Final[OpenAPI] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_LIST_TYPE: Final = "x-kubernetes-list-type"
_MAP_TYPE: Final = "x-kubernetes-map-type"


def _no_fields() -> dict[str, SchemaField]:
    return {}


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of the schema.

    Attributes:
        type: object, array, string, boolean, integer, int32, int64, date-time, quantity or
            int-or-string.
        atomic: replaced as a whole.
        facts: what else its schema holds, in the words of OpenAPI.
        fields: of an object, by name; `ITEMS` of a list, `VALUES` of a map with free keys.
    """

    type: str
    atomic: bool = False
    facts: Mapping[str, Json] = field(default_factory=dict[str, Json])
    fields: dict[str, SchemaField] = field(default_factory=_no_fields)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(cast("list[str]", self.facts.get("required", [])))

    @property
    def items(self) -> SchemaField | None:
        return self.fields.get(ITEMS)

    @property
    def values(self) -> SchemaField | None:
        return self.fields.get(VALUES)


@lru_cache(maxsize=1)
def virtual_machine_instance() -> SchemaField:
    """The schema of the whole object."""
    text = Path(__file__).with_name(_TABLE).read_text(encoding="utf-8")
    root = SchemaField("object", facts={"required": ["spec"]})
    above = [root]
    for line in text.splitlines():
        name, type_, *rest = line.strip().split(" ", 2)
        depth = len(line) - len(line.lstrip(" "))
        found = _field(type_, rest[0] if rest else "")
        above[depth].fields[name] = found
        above[depth + 1 :] = [found]
    return root


def _field(type_: str, rest: str) -> SchemaField:
    word, _, facts = rest.partition("{")
    extra = cast("dict[str, Json]", json.loads("{" + facts)) if facts else {}
    return SchemaField(type_, word.strip() == "atomic", extra)


def fields(below: SchemaField, path: str = "") -> Iterator[tuple[str, SchemaField]]:
    """Path and field of everything below a field, such as `spec.domain.devices.disks[].name`."""
    for name, one in below.fields.items():
        step = name if name in (ITEMS, VALUES) or not path else f".{name}"
        yield path + step, one
        yield from fields(one, path + step)


def openapi(one: SchemaField) -> OpenAPI:
    """The field as a CustomResourceDefinition holds it."""
    node = dict(one.facts) | _typed(one.type)
    if one.atomic:
        node[_LIST_TYPE if one.type == "array" else _MAP_TYPE] = "atomic"
    named = {name: openapi(inner) for name, inner in one.fields.items() if name[0] not in "[{"}
    if named:
        node["properties"] = dict(sorted(named.items()))
    if one.items:
        node["items"] = openapi(one.items)
    if one.values:
        node["additionalProperties"] = openapi(one.values)
    return dict(sorted(node.items()))


def _typed(type_: str) -> OpenAPI:
    match type_:
        case "quantity":
            return _INT_OR_STRING | {"pattern": QUANTITY_PATTERN}
        case "int-or-string":
            return dict(_INT_OR_STRING)
        case "date-time":
            return {"type": "string", "format": type_}
        case _ if type_ in _NUMBERS:
            return {"type": "integer", "format": type_}
        case _:
            return {"type": type_}
