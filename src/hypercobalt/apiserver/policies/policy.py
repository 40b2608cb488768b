"""A policy with its bindings, and what they make of a write: a pure decision.

Source: k8s.io/apiserver pkg/admission/plugin/policy/validating (dispatcher.go, validator.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.policies.attributes import Attributes
from hypercobalt.apiserver.policies.matching import Constraints
from hypercobalt.apiserver.schema.cel import EvaluationError
from hypercobalt.apiserver.schema.expressions import (
    Program,
    Scope,
    Variables,
    variables_of,
    whole_of,
)
from hypercobalt.apiserver.values import object_at, objects_at, text_at, texts_at

MAX_MESSAGE = 5 * 1024  # bytes of a messageExpression's result
CODES = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A validation that does not hold, or has no answer."""

    message: str
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class Validation:
    """One of a policy's validations."""

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: str = "Invalid"

    @classmethod
    def of(cls, raw: JSONObject) -> Validation:
        return cls(
            text_at(raw, "expression"),
            text_at(raw, "message").strip(),
            text_at(raw, "messageExpression"),
            text_at(raw, "reason") or "Invalid",
        )

    def refusal(self, scope: Scope, variables: Variables, *, strict: bool) -> Refusal | None:
        """Why a write is refused; None when it is not.

        Args:
            scope: what the expressions see.
            variables: the policy's, which they may read.
            strict: whether a validation without an answer refuses.
        """
        try:
            if scope.value(Program.of(self.expression, variables)) is True:
                return None
        except EvaluationError as error:
            return Refusal(str(error)) if strict else None
        text = self._expressed(scope, variables) or self.message
        return Refusal(text or f"failed expression: {self.expression.strip()}", self.reason)

    def _expressed(self, scope: Scope, variables: Variables) -> str:
        if not self.message_expression:
            return ""
        try:
            value = scope.value(Program.of(self.message_expression, variables))
        except EvaluationError:
            return ""
        text = value.strip() if isinstance(value, str) else ""
        return "" if "\n" in text or len(text.encode()) > MAX_MESSAGE else text


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a policy applies, and what becomes of a write that it refuses."""

    name: str
    policy: str
    constraints: Constraints
    actions: frozenset[str]

    @classmethod
    def of(cls, raw: JSONObject) -> Binding:
        return cls(
            text_at(raw, "metadata", "name"),
            text_at(raw, "spec", "policyName"),
            Constraints.of(object_at(raw, "spec", "matchResources")),
            frozenset(texts_at(raw, "spec", "validationActions")),
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, compiled.

    A write that passes takes one evaluation, of all validations as one expression, which share the
    values of variables. Only for a refusal is each evaluated by itself: its message is wanted.
    """

    name: str
    constraints: Constraints
    conditions: tuple[Program, ...]
    variables: Variables
    whole: Program  # holds when each validation does
    validations: tuple[Validation, ...]
    strict: bool  # failurePolicy Fail

    @classmethod
    def of(cls, raw: JSONObject) -> Policy:
        spec = object_at(raw, "spec")
        return cls(
            text_at(raw, "metadata", "name"),
            Constraints.of(object_at(spec, "matchConstraints")),
            tuple(
                Program.of(text_at(c, "expression")) for c in objects_at(spec, "matchConditions")
            ),
            variables_of(spec),
            whole_of(spec),
            tuple(Validation.of(v) for v in objects_at(spec, "validations")),
            text_at(spec, "failurePolicy") != "Ignore",
        )

    def refusals(self, write: Attributes) -> list[Refusal]:
        """Why this policy refuses a write, without regard to bindings."""
        endpoint = self.constraints.match(write)
        if endpoint is None:
            return []
        scope = write.scope(endpoint)
        try:
            if not self._applies(scope):
                return []
        except EvaluationError as error:
            return [Refusal(str(error))] if self.strict else []
        if scope.holds(self.whole):
            return []
        refusals = (v.refusal(scope, self.variables, strict=self.strict) for v in self.validations)
        return [refusal for refusal in refusals if refusal is not None]

    def _applies(self, scope: Scope) -> bool:
        """Whether all match conditions hold: one that does not outweighs those without answer."""
        faults: list[str] = []
        for condition in self.conditions:
            try:
                if scope.value(condition) is not True:
                    return False
            except EvaluationError as error:
                faults.append(str(error))
        if faults:
            raise EvaluationError(errors.aggregate(faults))
        return True


@dataclass(frozen=True, slots=True)
class Bound:
    """A policy and its bindings."""

    policy: Policy
    bindings: tuple[Binding, ...]


def review(policies: Sequence[Bound], write: Attributes) -> list[str]:
    """Let a write pass or refuse it, and return the warnings of bindings that warn.

    Raises:
        StatusError: a binding that denies has a policy that refuses the write.
    """
    refused = list(_refused(policies, write))
    for binding_text, refusal, binding in refused:
        if "Deny" in binding.actions:
            raise _denied(
                write, f"{binding_text} denied request: {refusal.message}", refusal.reason
            )
    return [
        f"Validation failed for {binding_text}: {refusal.message}"
        for binding_text, refusal, binding in refused
        if "Warn" in binding.actions
    ]


def _refused(
    policies: Iterable[Bound], write: Attributes
) -> Iterator[tuple[str, Refusal, Binding]]:
    for bound in policies:
        applied = [b for b in bound.bindings if b.constraints.match(write) is not None]
        refusals = bound.policy.refusals(write) if applied else []
        for binding in applied:
            named = f"ValidatingAdmissionPolicy '{bound.policy.name}' with binding"
            for refusal in refusals:
                yield f"{named} '{binding.name}'", refusal, binding


def _denied(write: Attributes, text: str, reason: str) -> StatusError:
    subject = write.call.resource.subject(write.name)
    error = errors.forbidden(subject, text)
    error.reason, error.code = reason, CODES.get(reason, 422)
    error.details = subject.details()
    error.details["causes"] = [{"message": text}]
    return error
