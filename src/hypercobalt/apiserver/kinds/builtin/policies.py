"""Admission policies and their bindings: defaults, and what is refused when one is written.

Params, the authorizer and audit annotations are refused by name: no part of this project's policies
has them, and there is no audit log.

Source: kubernetes pkg/apis/admissionregistration/{v1/defaults.go,validation/validation.go}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cel_expr_python import cel

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.schema.expressions import Checked, roots_in, whole_of
from hypercobalt.apiserver.values import at, object_at, objects_at, same, text_at, texts_at

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
REFUSED = ("authorizer", "params", "variables")  # as roots; variables are read one by one
_BOOL, _TEXT = {"bool": cel.Type.BOOL}, {"string": cel.Type.STRING}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def default_policy(obj: JSONObject) -> None:
    """Fill in a policy."""
    spec = object_at(obj, "spec")
    spec.setdefault("failurePolicy", "Fail")
    _default_matching(spec.get("matchConstraints"))


def default_binding(obj: JSONObject) -> None:
    """Fill in a binding."""
    _default_matching(at(obj, "spec", "matchResources"))


def _default_matching(found: JSON) -> None:
    if isinstance(found, dict):
        found.setdefault("matchPolicy", "Equivalent")
        found.setdefault("namespaceSelector", {})
        found.setdefault("objectSelector", {})
        for name in ("resourceRules", "excludeResourceRules"):
            for rule in objects_at(found, name):
                rule.setdefault("scope", "*")


def check_policy(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Everything that is wrong with a policy.

    Raises:
        StatusError: 501 for what this server does not evaluate.
    """
    spec = object_at(obj, "spec")
    if old is not None and same(spec, object_at(old, "spec")):
        return []
    for part in ("paramKind", "auditAnnotations"):
        if spec.get(part):
            raise errors.unsupported(f"spec.{part} of a {POLICY}")
    causes = [*_check_parts(spec), *_check_expressions(spec)]
    if not causes:
        whole_of(spec)  # here, beside the loop, and not when the policy comes into force
    return causes


def _check_parts(spec: JSONObject) -> Iterator[Cause]:
    if not objects_at(spec, "validations"):
        text = "validations or auditAnnotations must contain at least one item"
        yield FieldErrors.required("spec.validations", text)
        yield FieldErrors.required("spec.auditAnnotations", text)
    constraints, place = spec.get("matchConstraints"), "spec.matchConstraints"
    if not isinstance(constraints, dict):
        yield FieldErrors.required(place)
    else:
        if not objects_at(constraints, "resourceRules"):
            yield FieldErrors.required(f"{place}.resourceRules")
        yield from _check_matching(constraints, place)


def _check_matching(constraints: JSONObject, place: str) -> Iterator[Cause]:
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(objects_at(constraints, name)):
            where = f"{place}.{name}[{index}]"
            for part in ("operations", "apiGroups", "apiVersions", "resources"):
                if not texts_at(rule, part):
                    yield FieldErrors.required(f"{where}.{part}")
            for number, operation in enumerate(texts_at(rule, "operations")):
                if operation not in OPERATIONS:
                    at_operation = f"{where}.operations[{number}]"
                    yield FieldErrors.not_supported(at_operation, operation, OPERATIONS)


def _check_expressions(spec: JSONObject) -> Iterator[Cause]:
    """Each with the variables that are declared before it; match conditions see none."""
    plain, declared = Checked(), list[str]()
    yield from _check_named(objects_at(spec, "matchConditions"), "spec.matchConditions")
    for index, condition in enumerate(objects_at(spec, "matchConditions")):
        place = f"spec.matchConditions[{index}].expression"
        yield from _check_expression(plain, condition, "expression", place, _BOOL)
    for index, variable in enumerate(objects_at(spec, "variables")):
        name, place = text_at(variable, "name"), f"spec.variables[{index}]"
        if not name:
            yield FieldErrors.required(f"{place}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            text = "name is not a valid CEL identifier"
            yield FieldErrors.invalid(f"{place}.name", name, text)
        where = f"{place}.expression"
        yield from _check_expression(Checked(declared), variable, "expression", where)
        declared.append(name)
    yield from _check_outcomes(spec, Checked(declared))


def _check_outcomes(spec: JSONObject, checked: Checked) -> Iterator[Cause]:
    for index, validation in enumerate(objects_at(spec, "validations")):
        place = f"spec.validations[{index}]"
        yield from _check_expression(
            checked, validation, "expression", f"{place}.expression", _BOOL
        )
        if text_at(validation, "messageExpression").strip():
            where = f"{place}.messageExpression"
            yield from _check_expression(checked, validation, "messageExpression", where, _TEXT)
        message, reason = text_at(validation, "message"), text_at(validation, "reason")
        if "\n" in message.strip():
            text = "must not contain line breaks"
            yield FieldErrors.invalid(f"{place}.message", message, text)
        if reason and reason not in REASONS:
            yield FieldErrors.not_supported(f"{place}.reason", reason, REASONS)


def _check_expression(
    checked: Checked,
    holder: JSONObject,
    field: str,
    place: str,
    wanted: dict[str, cel.Type] | None = None,
) -> Iterator[Cause]:
    expression = text_at(holder, field)
    if not expression.strip():
        yield FieldErrors.required(place, f"{field} is not specified")
        return
    for name in REFUSED:
        if name in roots_in(expression):
            raise errors.unsupported(f"{name} in {place} of a {POLICY}")
    if fault := checked.fault(expression, wanted):
        yield FieldErrors.invalid(place, expression, fault)


def _check_named(conditions: list[JSONObject], place: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name, where = text_at(condition, "name"), f"{place}[{index}].name"
        if not name:
            yield FieldErrors.required(where)
            continue
        for text in names.label_key_errors(name):
            yield FieldErrors.invalid(where, name, text)
        if name in seen:
            yield FieldErrors.duplicate(where, name)
        seen.add(name)


def check_binding(obj: JSONObject, _old: JSONObject | None) -> list[Cause]:
    """Everything that is wrong with a binding.

    Raises:
        StatusError: 501 for what this server does not evaluate.
    """
    if at(obj, "spec", "paramRef") is not None:
        raise errors.unsupported(f"spec.paramRef of a {BINDING}")
    return list(_check_binding(object_at(obj, "spec")))


def _check_binding(spec: JSONObject) -> Iterator[Cause]:
    if not text_at(spec, "policyName"):
        yield FieldErrors.required("spec.policyName")
    yield from _check_matching(object_at(spec, "matchResources"), "spec.matchResources")
    actions = texts_at(spec, "validationActions")
    if not actions:
        yield FieldErrors.required(
            "spec.validationActions", "at least one validation action is required"
        )
    for index, action in enumerate(actions):
        where = f"spec.validationActions[{index}]"
        if action not in ACTIONS:
            yield FieldErrors.not_supported(where, action, ACTIONS)
        if action in actions[:index]:
            yield FieldErrors.duplicate(where, action)
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information"
            " in the API response and headers serves no purpose)"
        )
        yield FieldErrors.invalid("spec.validationActions", [*actions], text)
