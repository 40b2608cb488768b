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
from hypercobalt.apiserver.schema.expressions import Program, Scope
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

    program: Program
    message: str = ""
    message_program: Program | None = None
    reason: str = "Invalid"

    @classmethod
    def of(cls, raw: JSONObject) -> Validation:
        expression = text_at(raw, "messageExpression")
        return cls(
            Program.of(text_at(raw, "expression")),
            text_at(raw, "message").strip(),
            Program.of(expression) if expression else None,
            text_at(raw, "reason") or "Invalid",
        )

    def refusal(self, scope: Scope, *, strict: bool) -> Refusal | None:
        """Why a write is refused; None when it is not.

        Args:
            scope: what the expressions see.
            strict: whether a validation without an answer refuses.
        """
        try:
            if scope.value(self.program) is True:
                return None
        except EvaluationError as error:
            return Refusal(str(error)) if strict else None
        text = self._expressed(scope) or self.message
        return Refusal(text or f"failed expression: {self.program.source.strip()}", self.reason)

    def _expressed(self, scope: Scope) -> str:
        if self.message_program is None:
            return ""
        try:
            value = scope.value(self.message_program)
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
    """A policy, compiled."""

    name: str
    constraints: Constraints
    conditions: tuple[Program, ...]
    variables: dict[str, Program]
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
            {
                text_at(v, "name"): Program.of(text_at(v, "expression"))
                for v in objects_at(spec, "variables")
            },
            tuple(Validation.of(v) for v in objects_at(spec, "validations")),
            text_at(spec, "failurePolicy") != "Ignore",
        )

    def refusals(self, write: Attributes) -> list[Refusal]:
        """Why this policy refuses a write, without regard to bindings."""
        endpoint = self.constraints.match(write)
        if endpoint is None:
            return []
        scope = Scope(write.roots(endpoint), self.variables)
        try:
            if not self._applies(scope):
                return []
        except EvaluationError as error:
            return [Refusal(str(error))] if self.strict else []
        refusals = (v.refusal(scope, strict=self.strict) for v in self.validations)
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
