"""Judge a value by its schema, with the messages that Kubernetes gives for custom resources.

`validate` reports every schema and CEL error of a value. On an update, parts that did not change
are not judged again (ratcheting), so that a stricter schema does not lock old objects; but rules
that compare a value with the old one are evaluated for those, too.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/validation and schema/{listtype,cel};
k8s.io/kube-openapi pkg/validation/errors for the texts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject, quote
from hypercobalt.apiserver.schema.cel import RuleError, compile_rule
from hypercobalt.apiserver.schema.formats import FORMATS
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.apiserver.schema.numbers import is_int64
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.typed import has_type, type_name
from hypercobalt.apiserver.values import same

# Errors after which rules are not evaluated: they may read what is missing or of the wrong type.
_BLOCKING = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "FieldValueTooLong",
    "FieldValueTooMany",
}
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
RULES_SECONDS = 2.0  # of one request; the real server counts units, at most 10 million
_OUT_OF_TIME = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_MISSING = object()


def validate(
    node: Node,
    value: JSON,
    part: str = "",
    old: JSON | object = _MISSING,
    *,
    elsewhere: Sequence[Cause] = (),
) -> list[Cause]:
    """Every error of `value`, schema first, then rules.

    Args:
        node: its schema.
        value: pruned and defaulted.
        part: the only field that is judged; all by default. Rules are always evaluated.
        old: the stored value on an update; leave out on create.
        elsewhere: what was found in the metadata; it may keep the rules from being evaluated.
    """
    causes: list[Cause] = []
    if not part:
        _judge(node, value, "", old, causes)
    elif part in node.fields and isinstance(value, dict) and part in value:
        _judge(node.fields[part], value[part], "", _entries(old).get(part, _MISSING), causes)
        placed = (
            c if c.field == "<nil>" else replace(c, field=_join(part, c.field)) for c in causes
        )
        causes = list(placed)
    if not node.has_rules():
        return causes
    if any(cause.reason in _BLOCKING for cause in (*elsewhere, *causes)):
        causes.append(Cause("<nil>", "FieldValueInvalid", _NOT_CHECKED))
        return causes
    try:
        _Rules(causes, time.monotonic() + RULES_SECONDS).evaluate(node, value, "", old)
    except TimeoutError:
        causes.append(FieldErrors.invalid("<nil>", "", _OUT_OF_TIME))
    return causes


def _judge(node: Node, value: JSON, path: str, old: JSON | object, causes: list[Cause]) -> None:
    if same(value, old):
        return
    if not has_type(node, value):
        wanted = "integer,string" if node.int_or_string else node.type
        actual = type_name(value)
        if wanted == "integer" and isinstance(value, (int, float)) and not _is_whole(value):
            form = node.format if node.format in _INTEGERS and value == value // 1 else ""
            causes.append(_whole(f"type integer {_INTEGERS[form]}", path))
            wanted, actual = (form, "float64") if form else (wanted, actual)
        text = f'{path} in body must be of type {wanted}: "{actual}"'
        causes.append(FieldErrors.type_invalid(path, actual, text))
        return
    if value is None:
        return
    _judge_value(node, value, path, causes)
    if isinstance(value, dict):
        _judge_object(node, value, path, old, causes)
    elif isinstance(value, list):
        _judge_list(node, value, path, old, causes)


_INTEGERS = {
    "": "(default format)",
    "int32": "with format int32",
    "int64": "with format int64",
}


def _is_whole(value: float) -> bool:
    return is_int64(value) and value == int(value)


def _whole(wanted: str, path: str) -> Cause:
    text = f'Invalid value: "": Checked value must be of {wanted} in {path}'
    return Cause("<nil>", "FieldValueInvalid", text)


def _judge_value(node: Node, value: JSON, path: str, causes: list[Cause]) -> None:
    if node.enum is not None and value not in node.enum:
        allowed = [e if isinstance(e, str) else quote(e) for e in node.enum]
        causes.append(FieldErrors.not_supported(path, value, allowed))
    if isinstance(value, str):
        _judge_string(node, value, path, causes)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _judge_number(node, value, path, causes)
    if node.all_of or node.any_of or node.one_of or node.negated:
        _judge_combinations(node, value, path, causes)


def _judge_string(node: Node, value: str, path: str, causes: list[Cause]) -> None:
    check = FORMATS.get(node.format)
    if check is not None and not check(value):
        text = f"{path} in body must be of type {node.format}: {quote(value)}"
        causes.append(FieldErrors.type_invalid(path, value, text))
    bounds = node.bounds
    if (limit := bounds.get("maxLength")) is not None and len(value) > limit:
        causes.append(FieldErrors.too_long(path, int(limit)))
    elif (limit := bounds.get("minLength")) is not None and len(value) < limit:
        text = f"{path} in body should be at least {int(limit)} chars long"
        causes.append(FieldErrors.invalid(path, value, text))
    elif node.pattern and (wanted := _unmatched(node.pattern, value)):
        text = f"{path} in body should match '{wanted}'"
        causes.append(FieldErrors.invalid(path, value, text))


def _unmatched(pattern: str, value: str) -> str:
    """The pattern that the value does not match; empty when it matches."""
    try:
        return "" if compile_pattern(pattern).search(value) else pattern
    except PatternError as error:  # of a definition that an older version took
        return f"{pattern}, but pattern is invalid: {error}"


def _judge_number(node: Node, value: float, path: str, causes: list[Cause]) -> None:
    bounds = node.bounds
    bits = 32 if node.format == "int32" else 64
    if node.type == "integer" and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        causes.append(_whole(f"type integer with format int{bits}", path))

    def fails(text: str) -> None:
        causes.append(FieldErrors.invalid(path, value, f"{path} in body should be {text}"))

    if (limit := bounds.get("minimum")) is not None:
        strict = "exclusiveMinimum" in bounds
        if value < limit or (strict and value == limit):
            fails(f"greater than{'' if strict else ' or equal to'} {limit:g}")
    if (limit := bounds.get("maximum")) is not None:
        strict = "exclusiveMaximum" in bounds
        if value > limit or (strict and value == limit):
            fails(f"less than{'' if strict else ' or equal to'} {limit:g}")
    if (step := bounds.get("multipleOf")) and math.remainder(value, step) != 0:
        fails(f"a multiple of {step:g}")


def _faults(node: Node, value: JSON, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if node.int_or_string or node.type or node.nullable:
        _judge(node, value, path, _MISSING, causes)
    else:
        _judge_untyped(node, value, path, causes)
    return causes


def _judge_untyped(node: Node, value: JSON, path: str, causes: list[Cause]) -> None:
    _judge_value(node, value, path, causes)
    if isinstance(value, dict):
        _judge_object(node, value, path, _MISSING, causes)
    elif isinstance(value, list):
        _judge_list(node, value, path, _MISSING, causes)


def _judge_combinations(node: Node, value: JSON, path: str, causes: list[Cause]) -> None:
    def fails(text: str, nearest: list[Cause] | None = None) -> None:
        causes.append(FieldErrors.invalid("<nil>", "", f'"{path}" must {text}'))
        causes.extend(nearest or [])

    for part in node.all_of:
        _judge_untyped(part, value, path, causes)
    any_of = [_faults(part, value, path) for part in node.any_of]
    if any_of and all(any_of):
        fails("validate at least one schema (anyOf)", min(any_of, key=len))
    one_of = [_faults(part, value, path) for part in node.one_of]
    valid = sum(not faults for faults in one_of)
    if one_of and valid != 1:
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        nearest = [] if valid else min(one_of, key=len)
        fails(f"validate one and only one schema (oneOf). {found}", nearest)
    if node.negated is not None and not _faults(node.negated, value, path):
        fails("not validate the schema (not)")


def _judge_object(
    node: Node, value: dict[str, JSON], path: str, old: JSON | object, causes: list[Cause]
) -> None:
    missing = (name for name in node.required if name not in value)
    causes += [FieldErrors.required(_join(path, name)) for name in missing]
    if (limit := node.bounds.get("maxProperties")) is not None and len(value) > limit:
        causes.append(FieldErrors.too_many(path, len(value), int(limit)))
    if (limit := node.bounds.get("minProperties")) is not None and len(value) < limit:
        text = f"{path} in body should have at least {int(limit)} properties"
        causes.append(FieldErrors.invalid(path, len(value), text))
    before = _entries(old)
    for name, item in value.items():
        known = node.fields.get(name) or node.values
        if known is not None:
            _judge(known, item, _join(path, name), before.get(name, _MISSING), causes)


def _judge_list(
    node: Node, value: list[JSON], path: str, old: JSON | object, causes: list[Cause]
) -> None:
    if (limit := node.bounds.get("maxItems")) is not None and len(value) > limit:
        causes.append(FieldErrors.too_many(path, len(value), int(limit)))
    if (limit := node.bounds.get("minItems")) is not None and len(value) < limit:
        text = f"{path} in body should have at least {int(limit)} items"
        causes.append(FieldErrors.invalid(path, len(value), text))
    if node.items is not None:
        counterpart = _counterparts(node, old)
        for index, item in enumerate(value):
            if node.list_type == "map" and not isinstance(item, dict):
                text = "must be an object for an array of list-type map"
                causes.append(FieldErrors.invalid(f"{path}[{index}]", item, text))
            _judge(node.items, item, f"{path}[{index}]", counterpart(item), causes)
    _judge_uniqueness(node, value, path, causes)


def _judge_uniqueness(node: Node, value: list[JSON], path: str, causes: list[Cause]) -> None:
    if node.list_type == "atomic" and not node.unique_items:
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        identity: JSON = item
        if node.list_type == "map":
            identity = list_key(node, item)
            if identity is None:
                continue
        mark = msgspec.json.encode(identity, order="sorted")
        if mark in seen:
            causes.append(FieldErrors.duplicate(f"{path}[{index}]", identity))
        seen.add(mark)


def list_key(node: Node, item: JSON) -> dict[str, JSON] | None:
    """The key fields of an item of a list of type map, with schema defaults for missing ones."""
    if not isinstance(item, dict):
        return None
    found: dict[str, JSON] = {}
    for name in node.list_keys:
        if name in item:
            found[name] = item[name]
        elif node.items is not None:
            known = node.items.fields.get(name)
            if known is not None and known.has_default:
                found[name] = known.default
    return found


def _counterparts(node: Node, old: JSON | object) -> Callable[[JSON], JSON | object]:
    """Return the old value of an item, where items have keys to find them by."""
    if node.list_type != "map" or not isinstance(old, list):
        return lambda _: _MISSING

    def mark(item: JSON) -> bytes:
        return msgspec.json.encode(list_key(node, item), order="sorted")

    known = {mark(item): item for item in reversed(cast("list[JSON]", old))}
    return lambda item: known.get(mark(item), _MISSING)


def _entries(old: JSON | object) -> JSONObject:
    return cast("JSONObject", old) if isinstance(old, dict) else {}


@dataclass(frozen=True, slots=True)
class _Rules:
    """Evaluates the rules of a value and of all in it, for a limited time."""

    causes: list[Cause]
    deadline: float  # time.monotonic()

    def evaluate(
        self, node: Node, value: JSON, path: str, old: JSON | object, *, kept: bool = False
    ) -> None:
        """Evaluate the rules of a value; `kept`: it is part of one that did not change."""
        if not node.has_rules():
            return
        kept = kept or same(value, old)
        if value is None or (kept and not node.has_transition_rules()):
            return
        for rule in node.rules:
            if kept and not rule.transition:
                continue
            if time.monotonic() > self.deadline:
                raise TimeoutError
            before = None if old is _MISSING else cast("JSON", old)
            try:
                compiled = compile_rule(rule, node)
            except RuleError as error:  # of a definition that an older version took
                text = f"rule compile error: {error}"
                self.causes.append(FieldErrors.invalid(path, node.type, text))
                continue
            failed = compiled.failure(value, before)
            if failed is not None:
                place = path + rule.field_path
                self.causes.append(_rule_failure(rule.reason, place, value, failed))
        if isinstance(value, dict):
            before_map = _entries(old)
            for name, item in value.items():
                known = node.fields.get(name)
                place = _join(path, name) if known else f"{path}[{name}]"
                known = known or node.values
                if known is not None:
                    self.evaluate(known, item, place, before_map.get(name, _MISSING), kept=kept)
        elif isinstance(value, list) and node.items is not None:
            counterpart = _counterparts(node, old)
            for index, item in enumerate(value):
                self.evaluate(node.items, item, f"{path}[{index}]", counterpart(item), kept=kept)


def _rule_failure(reason: str, path: str, value: JSON, text: str) -> Cause:
    if reason == "FieldValueForbidden":
        return FieldErrors.forbidden(path, text)
    if reason == "FieldValueRequired":
        return FieldErrors.required(path, text)
    if reason == "FieldValueDuplicate":
        return Cause(path, reason, f"Duplicate value: {text}")
    if not isinstance(value, (dict, list)) and text[:1] != '"':
        text = f"{quote(value)}: {text}"  # objects and lists are not shown
    return Cause(path, "FieldValueInvalid", f"Invalid value: {text}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
