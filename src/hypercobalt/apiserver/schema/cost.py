"""What a rule may cost at most, estimated from the sizes that its schema allows.

A definition with a rule that could cost too much is refused, as by kube-apiserver: with the same
limits, and a model that agrees with its own for what rules are made of: loops over declared lists
and maps, and functions over text. Without a bound a list or text is as large as a request.

Source: cel-go checker/cost.go; k8s.io/apiserver pkg/cel (limits.go, common/schemas.go,
library/cost.go); apiextensions-apiserver pkg/apis/apiextensions/validation (CELSchemaContext);
the numbers of fields are those of cel-spec's proto/cel/expr/syntax.proto.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hypercobalt.apiserver.schema.identifiers import escape
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.apiserver.wire.records import BYTES, records

RULE_LIMIT = 10_000_000  # units of one rule, for all places in an object where it is asked
SCHEMA_LIMIT = 100_000_000  # units of all rules of a schema
MAX_TURNS = 10_000  # of all loops in an evaluation, by the engine
MAX_REQUEST = 3 * 2**20  # bytes, by which whatever has no bound of its own is bounded

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_TEST_ONLY, _LIST_EXPRESSION = 3, 7  # numbers of fields
_READ = 0.1  # units for a character
_MATCH = 0.25  # units for a character of a pattern
_FORMAT_LENGTHS = {"date": 10, "date-time": 20, "duration": 32}
_SMALLEST = {"array": 2, "object": 2, "string": 2, "boolean": 4, "integer": 1, "number": 1}

Message: TypeAlias = dict[int, list[bytes]]  # fields of a protobuf message; numbers are left out


def smallest(node: Node) -> int:
    """The fewest bytes that a value takes in JSON."""
    size = _SMALLEST.get(node.type, 1)
    if node.type == "object" and node.values is None:
        needed = {name: node.fields[name] for name in node.required if name in node.fields}
        size += sum(len(n) + smallest(f) + 4 for n, f in needed.items() if not f.has_default)
    return size


def longest(node: Node) -> int:
    """The most items, entries or characters that a value has."""
    if node.int_or_string:
        return MAX_REQUEST - 2
    if node.type == "array" and node.items is not None:
        return _bound(node, "maxItems", (MAX_REQUEST - 2) // (smallest(node.items) + 1))
    if node.type == "object" and node.values is not None:
        return _bound(node, "maxProperties", (MAX_REQUEST - 2) // (smallest(node.values) + 6))
    if node.type != "string":
        return 0
    if node.format in _FORMAT_LENGTHS:
        return _FORMAT_LENGTHS[node.format]
    if "maxLength" in node.bounds:
        return _bound(node, "maxLength", 0) * (1 if node.format == "byte" else 4)
    if node.enum:
        return max(len(str(value)) for value in node.enum)
    return MAX_REQUEST - 2


def _bound(node: Node, name: str, otherwise: int) -> int:
    return max(0, int(node.bounds.get(name, otherwise)))


def places(node: Node, above: int | None) -> int | None:
    """How often the items or entries of a value stand in an object; None for no bound."""
    name = "maxItems" if node.type == "array" else "maxProperties"
    return None if above is None or name not in node.bounds else above * _bound(node, name, 0)


def total(cost: float, node: Node, times: int | None) -> float:
    """The cost of a rule at all its places."""
    return cost * (MAX_REQUEST // (smallest(node) + 1) if times is None else times)


def expression_cost(serialized: bytes, node: Node) -> float:
    """The units that one evaluation costs at most.

    Args:
        serialized: a checked expression of the engine, a cel.expr.CheckedExpr in an Any.
        node: of self and oldSelf.
    """
    checked = _bytes(_message(serialized), 2)
    known = Known(longest(node), node)
    return _cost(_child(_message(checked), 4), {"self": known, "oldSelf": known}).cost


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value before it is there."""

    size: float = 0
    node: Node | None = None
    cost: float = 0  # of getting it


_NOTHING = Known()
Scope: TypeAlias = Mapping[str, Known]


def _cost(expression: Message, scope: Scope) -> Known:
    for kind, weigh in _KINDS.items():
        if kind in expression:
            return weigh(_child(expression, kind), scope)
    return _NOTHING


def _constant(constant: Message, _: Scope) -> Known:
    return Known(len(_bytes(constant, 6) or _bytes(constant, 7)))


def _name(expression: Message, scope: Scope) -> Known:
    known = scope.get(_bytes(expression, 1).decode(), _NOTHING)
    return Known(known.size, known.node, 1)


def _select(expression: Message, scope: Scope) -> Known:
    whole = _cost(_child(expression, 1), scope)
    if _TEST_ONLY in expression:  # has() is free
        return Known(cost=whole.cost)
    return _part(whole, _field(whole.node, _bytes(expression, 2).decode()))


def _field(node: Node | None, escaped: str) -> Node | None:
    if node is None:
        return None
    found = (below for name, below in node.fields.items() if escaped in (name, escape(name)))
    return next(found, node.values)


def _part(whole: Known, node: Node | None) -> Known:
    return Known(longest(node) if node else 0, node, whole.cost + 1)


def _call(expression: Message, scope: Scope) -> Known:
    name = _bytes(expression, 2).decode()
    operands = [_cost(each, scope) for n in (1, 3) for each in _children(expression, n)]
    spent = sum(operand.cost for operand in operands)
    first, *rest = operands or [_NOTHING]
    second = rest[0] if rest else _NOTHING
    if name == "_?_:_":
        larger = max(rest, key=lambda known: known.size)
        return Known(larger.size, larger.node, first.cost + max(known.cost for known in rest))
    if name == "_[_]":
        node = first.node and (first.node.items or first.node.values)
        return Known(longest(node) if node else 0, node, spent + 1)
    if name == "_+_":
        size = first.size + second.size
        return Known(size, first.node or second.node, spent + (_read(size) or 1))
    if name in _NUMBERS:
        return Known(cost=spent + _NUMBERS[name](first, second))
    work = _read(first.size + 1) * math.ceil(second.size * _MATCH) if name in _MATCHES else 0
    return Known(first.size, first.node, spent + (work or _read(first.size) or 1))


_MATCHES = ("matches", "find", "findAll")


def _of_items(of: Known, _: Known) -> float:
    item = of.node.items if of.node else None
    return of.size * max(1, _read(longest(item)) if item else 1)


def _equal(one: Known, other: Known) -> float:
    return _read(min(one.size, other.size))


def _ordered(one: Known, other: Known) -> float:
    return _equal(one, other) or 1


# What calls cost whose result has no size of its own.
_NUMBERS: dict[str, Callable[[Known, Known], float]] = {
    **dict.fromkeys(("_&&_", "_||_"), lambda _, __: 0),
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordered),
    **dict.fromkeys(("sum", "min", "max", "isSorted"), _of_items),
    **dict.fromkeys(("size", "!_", "@not_strictly_false", "hasValue"), lambda _, __: 1),
    "@in": lambda _, whole: whole.size or 1,
    "contains": lambda whole, part: _read(whole.size) * _read(part.size),
    **dict.fromkeys(("startsWith", "endsWith"), lambda _, part: _read(part.size)),
}


def _read(characters: float) -> float:
    return math.ceil(characters * _READ)


def _list(expression: Message, scope: Scope) -> Known:
    items = [_cost(item, scope) for item in _children(expression, 1)]
    node = Node(type="array", items=items[0].node) if items else None
    return Known(len(items), node, _LIST_COST + sum(item.cost for item in items))


def _struct(expression: Message, scope: Scope) -> Known:
    entries = _children(expression, 2)
    parts = [_cost(part, scope) for e in entries for n in (3, 4) for part in _children(e, n)]
    own = _STRUCT_COST if expression.get(1) else _MAP_COST
    return Known(len(entries), None, own + sum(part.cost for part in parts))


def _comprehension(expression: Message, scope: Scope) -> Known:
    over, start = (_cost(_child(expression, number), scope) for number in (2, 4))
    node = over.node
    item = node.items if node else None  # keys of maps have no size
    turn = Known(longest(item) if item else 0, item)
    result, variable = (_bytes(expression, number).decode() for number in (3, 1))
    inner = {**scope, result: start, variable: turn}
    condition, step = (_cost(_child(expression, number), inner) for number in (5, 6))
    turns = over.size if node is not None or over.size else MAX_TURNS
    end = _cost(_child(expression, 7), inner).cost
    makes_list = _LIST_EXPRESSION in _child(expression, 4)
    spent = over.cost + start.cost + end + turns * (condition.cost + step.cost)
    return Known(over.size, step.node, spent) if makes_list else Known(cost=spent)


_KINDS = {3: _constant, 4: _name, 5: _select, 6: _call, 7: _list, 8: _struct, 9: _comprehension}


# -- protobuf ----------------------------------------------------------------------------------


def _message(data: bytes) -> Message:
    fields: Message = {}
    for record in records(data, 0, len(data)):
        content = data[record.start : record.end] if record.wire_type == BYTES else b""
        fields.setdefault(record.number, []).append(content)
    return fields


def _children(message: Message, number: int) -> list[Message]:
    return [_message(content) for content in message.get(number, [])]


def _child(message: Message, number: int) -> Message:
    return _message(_bytes(message, number))


def _bytes(message: Message, number: int) -> bytes:
    return message.get(number, [b""])[-1]
