"""The nodes of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from hypercobalt.api.crd import Schema


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node of a schema, with its path."""
    yield path, schema
    for name, child in cast("dict[str, Schema]", schema.get("properties", {})).items():
        yield from nodes(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from nodes(cast("Schema", schema[word]), f"{path}[]")
