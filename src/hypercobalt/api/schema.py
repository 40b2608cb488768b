"""What a CRD holds about a field beyond its Python type: the vocabulary that the wire types use.

The words of a `Field` end up in the CRD only (`crd.py`). They are never checked on decode: the API
server has already validated what it holds, and an agent must be able to read an object that a newer
schema has let in.

Source: kubebuilder markers of the same names; apiextensions.k8s.io/v1 JSONSchemaProps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Literal

from hypercobalt.api.meta import Object

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
"""Any JSON value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `x-kubernetes-validations`: a CEL expression and what the user reads."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Constraints of one schema node; None means unconstrained."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    enum: tuple[str, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    format: Literal["int32", "int64"] | None = None


class Writer(StrEnum):
    """The one writer of a field of a status.

    The policies of the agents' charts are generated from it (`writers.py`): a field that names no
    agent is written by none.
    """

    OPERATOR = "operator"
    NODE_AGENT = "node agent"
    OVS_AGENT = "OVS agent"
    BY_TYPE = "each type's writer"  # of conditions
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of texts, lists and maps that give none themselves.

    Args:
        text: characters of a text.
        items: of a list.
        properties: of a map.
    """

    text: int
    items: int
    properties: int


OF_AGENTS: Final = Bounds(text=1024, items=256, properties=4)
"""Bounds of what an agent writes, which is hostile: all of it together stays below 1 MiB."""

OF_OTHERS: Final = Bounds(text=32768, items=16384, properties=1024)
"""Bounds of all else: far beyond what is written, since a refused status helps nobody."""

KEY: Final = 63
"""Characters of a map's key, which no schema bounds: the agents' policy does."""

TIME: Final = 64
"""Characters of a time or a quantity, which have no other bound."""


@dataclass(frozen=True, slots=True)
class Field:
    """The CRD side of one field, given as `Annotated[T, Field("…")]`.

    Attributes:
        doc: the description, for the reader of `kubectl explain`.
        default: what the API server fills in; None for no default.
        required: None means required exactly if the Python field has no default.
        limits: constraints on the value itself.
        items: constraints on each item of a list.
        keys: makes a list of objects an associative list with these keys.
        rules: CEL rules on the value.
        writer: of a field directly below `status`; None elsewhere.
    """

    doc: str
    default: Json = None
    required: bool | None = None
    limits: Limits = Limits()
    items: Limits = Limits()
    keys: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    writer: Writer | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; a priority above 0 shows with `-o wide` only."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date"]
    path: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """What the CRD of a kind holds besides its schema.

    Attributes:
        doc: description of the kind.
        columns: printer columns in their order.
        short_names: what `kubectl get` takes instead of the plural.
        root_required: fields required at the root of the object. Never `status`: the API server
            drops it on create, so the object could not be created at all.
    """

    doc: str
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    root_required: tuple[str, ...] = ()


class CustomObject(Object, frozen=True):
    """Base of the kinds that we define ourselves; their CRDs are generated."""

    definition: ClassVar[Definition]


def condition_column(name: str, type_: str, field: str = "status", priority: int = 0) -> Column:
    """A column that shows one field of the condition of the given type."""
    return Column(name, "string", f'.status.conditions[?(@.type=="{type_}")].{field}', priority)
