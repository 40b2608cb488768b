"""Server-side printing: the rows that `kubectl get` shows.

Custom resources print the columns of their CustomResourceDefinition. The rows of built-in kinds are
in `builtin.rows`.

Source: apiextensions pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from hypercobalt.api.duration import human_duration
from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.kinds.jsonpath import Path, compile_path
from hypercobalt.apiserver.values import at, text_at

Row = Callable[[JSONObject, datetime], list[JSON]]
UNKNOWN = "<unknown>"  # when something was

NAME_COLUMN: JSONObject = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": (
        "Name must be unique within a namespace. Is required when creating resources, although "
        "some resources may allow a client to request the generation of an appropriate name "
        "automatically. Name is primarily intended for creation idempotence and configuration "
        "definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "priority": 0,
}
AGE_COLUMN: JSONObject = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was "
        "created. It is not guaranteed to be set in happens-before order across separate "
        "operations. Clients may not set this value. It is represented in RFC3339 form and is in "
        "UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
}


@dataclass(frozen=True, slots=True)
class Printer:
    """How one kind prints: what the columns are, and the cells of one object."""

    columns: list[JSON]
    row: Row
    conditions: Callable[[JSONObject], JSONObject] = lambda _: {}
    null_rows: bool = False  # where there are none

    def table(self, rows: list[JSON], meta: JSONObject) -> JSONObject:
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.columns,
            "rows": rows or (None if self.null_rows else []),
        }

    def entry(self, obj: JSONObject, now: datetime) -> JSONObject:
        """The cells of one row, and the conditions in which whole rows are shown or not."""
        return {"cells": self.row(obj, now), **self.conditions(obj)}


def partial_metadata(obj: JSONObject) -> JSONObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def ago(value: JSON, now: datetime) -> str:
    """How long ago a time was, for a cell."""
    if not isinstance(value, str) or not value:
        return UNKNOWN
    try:
        then = datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return human_duration(now - (then if then.tzinfo else then.replace(tzinfo=UTC)))


def name(obj: JSONObject) -> JSON:
    """The cell of a name."""
    return at(obj, "metadata", "name")


def age(obj: JSONObject, now: datetime) -> str:
    """The cell of an age."""
    return ago(at(obj, "metadata", "creationTimestamp"), now)


# -- custom resources --------------------------------------------------------------------------


def custom_printer(columns: list[JSONObject]) -> Printer:
    """The printer of a CustomResourceDefinition's additionalPrinterColumns.

    Raises:
        ValueError: a column's JSONPath is not supported.
    """
    definitions: list[JSON] = [NAME_COLUMN]
    cells: list[tuple[str, Path]] = []
    for column in columns or [AGE_COLUMN]:
        kind, path = text_at(column, "type") or "string", text_at(column, "jsonPath")
        definitions.append(
            {
                "name": column.get("name", ""),
                "type": kind,
                "format": column.get("format", ""),
                "description": column.get("description")
                or f"Custom resource definition column (in JSONPath format): {path}",
                "priority": column.get("priority", 0),
            }
        )
        cells.append((kind, compile_path(path)))

    def row(obj: JSONObject, now: datetime) -> list[JSON]:
        return [name(obj), *(_cell(kind, path.all(obj), now) for kind, path in cells)]

    return Printer(definitions, row)


def _cell(kind: str, values: list[JSON], now: datetime) -> JSON:
    if not values:
        return None
    value = values[0]
    match kind:
        case "string":
            return _printed(value)
        case "date":
            return ago(value, now) if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return None
            return int(value) if kind == "integer" else value


def _printed(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()
