"""The rules of a definition: whether each compiles with its schema's types, and what all may cost.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation (ValidateCustomResourceDefinition-
OpenAPISchema).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.schema import cost
from hypercobalt.apiserver.schema.cel import MessageError, RuleError, check_rule
from hypercobalt.apiserver.schema.node import Node, Rule

if TYPE_CHECKING:
    from hypercobalt.apiserver.schema.checker import Checker

_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_FIELD_STEP = re.compile(r"\.([^.\[]+)|\['([^']+)'\]")
_ADVICE = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps,"
    " and strings are declared"
)


def check_rules(root: Node, place: str) -> Iterator[Cause]:
    """Every fault of the rules of a schema.

    Args:
        root: the schema.
        place: of it, in the definition.
    """
    if not root.has_rules():
        return
    from hypercobalt.apiserver.schema.checker import (  # noqa: PLC0415  # a start needs none
        Checker,
        SchemaError,
    )

    try:
        checker, costs = Checker(root), _Costs()
    except SchemaError as error:
        yield FieldErrors.forbidden(place, str(error))
        return
    for node, where, times, apart in _ruled(root, place, 1):
        for index, rule in enumerate(node.rules):
            at = f"{where}.x-kubernetes-validations[{index}]"
            if not rule.rule.strip():
                yield FieldErrors.required(f"{at}.rule", "rule is not specified")
                continue
            yield from _check_form(rule, node, at)
            found = _compile(rule, at, checker, node)
            if isinstance(found, Cause):
                yield found
            else:
                units = cost.total(cost.expression_cost(found, node), node, times)
                yield from costs.add(units, f"{at}.rule")
            if rule.optional_old_self is not None and (
                isinstance(found, Cause) or not rule.transition
            ):
                text = "may not be set if oldSelf is not used in rule"
                optional = rule.optional_old_self
                yield FieldErrors.invalid(f"{at}.optionalOldSelf", optional, text)
            if rule.transition and apart:
                text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield FieldErrors.invalid(f"{at}.rule", rule.rule, f"{text} {apart}")
    yield from costs.faults(place)


def _ruled(
    node: Node, place: str, times: int | None, apart: str = ""
) -> Iterator[tuple[Node, str, int | None, str]]:
    """The nodes with rules, where they are declared and how often they stand in an object.

    And the place of the list around them whose items have no keys to know their old values by.
    """
    if node.rules:
        yield node, place, times, apart
    for name, below in node.fields.items():
        yield from _ruled(below, f"{place}.properties[{name}]", times, apart)
    if node.items is not None:
        items_apart = apart or (place if node.list_type != "map" else "")
        yield from _ruled(node.items, f"{place}.items", cost.places(node, times), items_apart)
    if node.values is not None:
        where = f"{place}.additionalProperties"
        yield from _ruled(node.values, where, cost.places(node, times), apart)


@dataclass(slots=True)
class _Costs:
    """What the rules of a schema cost together."""

    total: float = 0
    largest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def add(self, units: float, place: str) -> Iterator[Cause]:
        self.total += units
        self.largest = sorted([*self.largest, (units, place)], reverse=True)[:4]
        if units > cost.RULE_LIMIT:
            text = _beyond("estimated rule cost", units, cost.RULE_LIMIT)
            yield FieldErrors.forbidden(place, f"{text} ({_ADVICE})")

    def faults(self, place: str) -> Iterator[Cause]:
        if self.total <= cost.SCHEMA_LIMIT:
            return
        schema = "for entire OpenAPIv3 schema"
        for _, largest in self.largest:
            text = f"contributed to estimated rule cost total exceeding cost limit {schema}"
            yield FieldErrors.forbidden(largest, text)
        name = f"x-kubernetes-validations estimated rule cost total {schema}"
        text = _beyond(name, self.total, cost.SCHEMA_LIMIT)
        yield FieldErrors.forbidden(place, f"{text} ({_ADVICE})")


def _beyond(name: str, units: float, limit: int) -> str:
    factor = units / limit
    shown = f"{factor:.1f}x"
    if factor > 100:  # noqa: PLR2004  # as the real server rounds
        shown = "more than 100x"
    elif factor < 1.5:  # noqa: PLR2004
        shown = f"{factor:f}x"
    return f"{name} exceeds budget by factor of {shown}"


def _check_form(rule: Rule, node: Node, place: str) -> Iterator[Cause]:
    if "\n" in rule.message.strip():
        text = "must not contain line breaks"
        yield FieldErrors.invalid(f"{place}.message", rule.message, text)
    if "\n" in rule.rule.strip() and not (rule.message or rule.message_expression):
        text = "message must be specified if rule contains line breaks"
        yield FieldErrors.required(f"{place}.message", text)
    if rule.reason and rule.reason not in _REASONS:
        yield FieldErrors.not_supported(f"{place}.reason", rule.reason, _REASONS)
    if rule.field_path and not _leads_somewhere(rule.field_path, node):
        yield FieldErrors.invalid(f"{place}.fieldPath", rule.field_path, "must be a valid path")


def _compile(rule: Rule, place: str, checker: Checker, node: Node) -> bytes | Cause:
    """What the rule compiles to, or why it does not."""
    try:
        return check_rule(rule, functools.partial(checker.environment, node)).serialize()
    except MessageError as error:
        return FieldErrors.invalid(f"{place}.messageExpression", _shown(rule), str(error))
    except RuleError as error:
        return FieldErrors.invalid(f"{place}.rule", _shown(rule), str(error))


def _shown(rule: Rule) -> JSONObject:
    """A rule as Go prints it."""
    return {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason or None,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    }


def _leads_somewhere(path: str, node: Node) -> bool:
    """Whether a rule's fieldPath names a declared field below its place."""
    here: Node | None = node
    for step in _FIELD_STEP.finditer(path):
        here = here.fields.get(step[1] or step[2]) if here is not None else None
    return here is not None and not _FIELD_STEP.sub("", path)
