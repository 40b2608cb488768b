"""Policies on what is written, with rules in CEL.

Source: k8s.io/api, admissionregistration/v1 types.go.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct

_GROUP = "admissionregistration.k8s.io"


class ResourceRule(Struct, frozen=True):
    """Writes that a policy applies to."""

    apiGroups: tuple[str, ...] = ()
    apiVersions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resourceNames: tuple[str, ...] = ()
    scope: str = ""


class MatchResources(Struct, frozen=True):
    matchPolicy: str = ""
    resourceRules: tuple[ResourceRule, ...] = ()


class NamedExpression(Struct, frozen=True):
    """A condition of a match, or a variable of the rules."""

    name: str
    expression: str


class Validation(Struct, frozen=True):
    """A rule, and the message of a write that breaks it."""

    expression: str
    message: str = ""
    messageExpression: str = ""
    reason: str = ""


class ValidatingAdmissionPolicySpec(Struct, frozen=True):
    failurePolicy: str = ""
    matchConstraints: MatchResources | None = None
    matchConditions: tuple[NamedExpression, ...] = ()
    variables: tuple[NamedExpression, ...] = ()
    validations: tuple[Validation, ...] = ()


class ValidatingAdmissionPolicy(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        _GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "Cluster"
    )

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()


class ValidatingAdmissionPolicyBindingSpec(Struct, frozen=True):
    policyName: str = ""
    validationActions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        _GROUP,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "Cluster",
    )

    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()
