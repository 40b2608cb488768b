"""One compiled form for every kind's schema: the built-ins' OpenAPI and CRDs' structural schemas.

A `Node` declares what a value may hold, how lists and maps merge, and which fields exist.
`changing` prunes and defaults values by it, `validation` judges them.

Source: apiextensions structural schemas (types.go, "JSONSchemaProps"), OpenAPI v3 as served by
kube-apiserver with its `x-kubernetes-*` extensions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.identifiers import reads_old
from hypercobalt.apiserver.schema.numbers import make_canonical
from hypercobalt.apiserver.values import clone

PREFIX = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `x-kubernetes-validations`, as written."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None
    transition: bool = False  # it reads oldSelf


class CompiledRule(Protocol):
    """A rule that can be evaluated for the values of its node."""

    def failure(self, value: JSON, old: JSON) -> str | None:
        """None when the rule holds for a value; else the message to report.

        Args:
            value: not null.
            old: the value before; null where there was none, or it was null.
        """
        ...


def _no_fields() -> dict[str, Node]:
    return {}


def _none_compiled() -> dict[Rule, CompiledRule]:
    return {}


@dataclass(slots=True, eq=False)
class Node:
    """The schema of a value at one place. Empty `type` allows anything."""

    type: str = ""
    fields: dict[str, Node] = field(default_factory=_no_fields)
    typed: bool = False  # of a built-in kind
    structs: frozenset[str] = frozenset()  # fields of built-in kinds that are never absent
    nulls: tuple[str, ...] = ()  # such fields that are null when no client set them
    values: Node | None = None  # of a map with free keys
    items: Node | None = None
    opaque: bool = False  # fields that are not declared are kept
    embedded: bool = False  # x-kubernetes-embedded-resource
    int_or_string: bool = False
    nullable: bool = False
    default: JSON = None
    has_default: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    patch_strategy: str = ""
    patch_key: str = ""
    format: str = ""
    required: tuple[str, ...] = ()
    enum: tuple[JSON, ...] | None = None
    pattern: str = ""
    bounds: dict[str, float] = field(default_factory=dict[str, float])  # minLength, maximum, …
    unique_items: bool = False
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    rules: tuple[Rule, ...] = ()
    compiled: dict[Rule, CompiledRule] = field(default_factory=_none_compiled)
    _ruled: bool | None = None  # once computed
    _moving: bool | None = None

    def child(self, name: str) -> Node | None:
        """The schema of a map's entry; None when there is none, so that it would be pruned."""
        known = self.fields.get(name)
        if known is not None:
            return known
        if self.values is not None:
            return self.values
        return UNTYPED if self.opaque or not self.type else None

    def has_rules(self) -> bool:
        """Whether this value or anything in it carries a CEL rule."""
        if self._ruled is None:
            self._ruled = any(node.rules for node in self.walk())
        return self._ruled

    def has_transition_rules(self) -> bool:
        """The same of a rule that reads the old value."""
        if self._moving is None:
            self._moving = any(rule.transition for node in self.walk() for rule in node.rules)
        return self._moving

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once."""
        seen: set[int] = set()
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            waiting.extend(node.fields.values())
            waiting.extend(n for n in (node.items, node.values) if n is not None)


UNTYPED = Node(opaque=True, nullable=True)

_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_BOUNDS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "multipleOf",
)

Resolver = Callable[[str], Node]


def compile_schema(raw: JSONObject, resolve: Resolver | None = None) -> Node:
    """Compile one schema.

    Args:
        raw: OpenAPI v3 schema as JSON.
        resolve: gives the node of a referenced schema's name; None where refs are not allowed.
    """
    node = Node()
    _fill(node, raw, resolve)
    return node


def _fill(node: Node, raw: JSONObject, resolve: Resolver | None) -> None:
    node.type, node.typed = _text(raw, "type"), resolve is not None
    node.format = _text(raw, "format")
    node.nullable = raw.get("nullable") is True
    node.int_or_string = (
        raw.get("x-kubernetes-int-or-string") is True or node.format == "int-or-string"
    )
    node.opaque = raw.get("x-kubernetes-preserve-unknown-fields") is True
    node.embedded = raw.get("x-kubernetes-embedded-resource") is True
    if "default" in raw:
        node.default, node.has_default = make_canonical(clone(raw["default"])), True
    _fill_structure(node, raw, resolve)
    _fill_merge_rules(node, raw)
    _fill_limits(node, raw, resolve)


def _fill_structure(node: Node, raw: JSONObject, resolve: Resolver | None) -> None:
    properties = raw.get("properties")
    if isinstance(properties, dict):
        node.fields = {
            name: _compile_child(cast("JSONObject", sub), resolve)
            for name, sub in properties.items()
        }
        if resolve is not None:
            node.structs = frozenset(
                name
                for name, sub in properties.items()
                if isinstance(sub, dict) and sub.get("default") == {} and node.fields[name].fields
            )
    extra = raw.get("additionalProperties")
    if isinstance(extra, dict):
        node.values = _compile_child(extra, resolve)
    elif extra is True:
        node.values = UNTYPED
    items = raw.get("items")
    if isinstance(items, dict):
        node.items = _compile_child(items, resolve)
    # Built-in types without declared fields (FieldsV1, RawExtension) hold anything.
    if resolve is not None and node.type == "object" and not node.fields and node.values is None:
        node.opaque = True


def _compile_child(raw: JSONObject, resolve: Resolver | None) -> Node:
    wrapped = raw.get("allOf")
    target = raw.get("$ref")
    if isinstance(wrapped, list) and len(wrapped) == 1 and isinstance(wrapped[0], dict):
        target = wrapped[0].get("$ref", target)
    if not isinstance(target, str) or resolve is None:
        return compile_schema(raw, resolve)
    shared = resolve(target.removeprefix(PREFIX))
    defaulted = raw.get("default") not in (None, {}, "", 0)
    if not defaulted and not any(name.startswith("x-kubernetes-") for name in raw):
        return shared
    node = copy.copy(shared)
    if defaulted:
        node.default, node.has_default = raw["default"], True
    _fill_merge_rules(node, raw)
    return node


def _fill_merge_rules(node: Node, raw: JSONObject) -> None:
    if "x-kubernetes-list-type" in raw:
        node.list_type = _text(raw, "x-kubernetes-list-type")
    keys = raw.get("x-kubernetes-list-map-keys")
    if isinstance(keys, list):
        node.list_keys = tuple(str(key) for key in keys)
    if "x-kubernetes-map-type" in raw:
        node.map_type = _text(raw, "x-kubernetes-map-type")
    if "x-kubernetes-patch-strategy" in raw:
        node.patch_strategy = _text(raw, "x-kubernetes-patch-strategy")
        node.patch_key = _text(raw, "x-kubernetes-patch-merge-key")


def _fill_limits(node: Node, raw: JSONObject, resolve: Resolver | None) -> None:
    required = raw.get("required")
    if isinstance(required, list):
        node.required = tuple(str(name) for name in required)
    enum = raw.get("enum")
    if isinstance(enum, list):
        node.enum = tuple(enum)
    node.pattern = _text(raw, "pattern")
    for name in _BOUNDS:
        if isinstance(limit := raw.get(name), (int, float)):
            node.bounds[name] = limit
            if raw.get(_EXCLUSIVE.get(name, "")) is True:
                node.bounds[_EXCLUSIVE[name]] = 1
    node.unique_items = raw.get("uniqueItems") is True
    node.all_of = _several(raw, "allOf", resolve)
    node.any_of = _several(raw, "anyOf", resolve)
    node.one_of = _several(raw, "oneOf", resolve)
    if isinstance(negated := raw.get("not"), dict):
        node.negated = _fragment(negated, resolve)
    rules = raw.get("x-kubernetes-validations")
    if isinstance(rules, list):
        node.rules = tuple(_rule(entry) for entry in rules if isinstance(entry, dict))


def _several(raw: JSONObject, name: str, resolve: Resolver | None) -> tuple[Node, ...]:
    listed = raw.get(name)
    if not isinstance(listed, list):
        return ()
    return tuple(
        _fragment(entry, resolve)
        for entry in listed
        if isinstance(entry, dict) and "$ref" not in entry
    )


def _fragment(raw: JSONObject, resolve: Resolver | None) -> Node:
    """A schema under allOf, anyOf, oneOf or not: it judges values and declares no fields."""
    node = compile_schema(raw, resolve)
    node.opaque = True
    for below in node.walk():
        below.opaque = True
    return node


def _rule(raw: JSONObject) -> Rule:
    optional = raw.get("optionalOldSelf")
    text = _text(raw, "rule")
    return Rule(
        rule=text,
        transition=reads_old(text),
        message=_text(raw, "message"),
        message_expression=_text(raw, "messageExpression"),
        reason=_text(raw, "reason"),
        field_path=_text(raw, "fieldPath"),
        optional_old_self=optional if isinstance(optional, bool) else None,
    )


def _text(raw: JSONObject, name: str) -> str:
    value = raw.get(name, "")
    return value if isinstance(value, str) else ""
