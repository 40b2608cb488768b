"""The rules of a definition: whether each compiles with its schema's types.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation (ValidateCustomResourceDefinition-
OpenAPISchema).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject
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
        checker = Checker(root)
    except SchemaError as error:
        yield FieldErrors.forbidden(place, str(error))
        return
    for node, where, apart in _ruled(root, place):
        for index, rule in enumerate(node.rules):
            at = f"{where}.x-kubernetes-validations[{index}]"
            if not rule.rule.strip():
                yield FieldErrors.required(f"{at}.rule", "rule is not specified")
                continue
            yield from _check_form(rule, node, at)
            yield from _compile(rule, at, checker, node)
            if rule.optional_old_self is not None and not rule.transition:
                text = "may not be set if oldSelf is not used in rule"
                optional = rule.optional_old_self
                yield FieldErrors.invalid(f"{at}.optionalOldSelf", optional, text)
            if rule.transition and apart:
                text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                yield FieldErrors.invalid(f"{at}.rule", rule.rule, f"{text} {apart}")


def _ruled(node: Node, place: str, apart: str = "") -> Iterator[tuple[Node, str, str]]:
    """The nodes with rules, and where they are declared.

    And the place of the list around them whose items have no keys to find their old values by.
    """
    if node.rules:
        yield node, place, apart
    for name, below in node.fields.items():
        yield from _ruled(below, f"{place}.properties[{name}]", apart)
    if node.items is not None:
        items_apart = apart or (place if node.list_type != "map" else "")
        yield from _ruled(node.items, f"{place}.items", items_apart)
    if node.values is not None:
        yield from _ruled(node.values, f"{place}.additionalProperties", apart)


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


def _compile(rule: Rule, place: str, checker: Checker, node: Node) -> Iterator[Cause]:
    """Why the rule does not compile."""
    try:
        check_rule(rule, functools.partial(checker.environment, node))
    except MessageError as error:
        yield FieldErrors.invalid(f"{place}.messageExpression", _shown(rule), str(error))
    except RuleError as error:
        yield FieldErrors.invalid(f"{place}.rule", _shown(rule), str(error))


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
