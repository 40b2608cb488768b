"""Approval of definitions in the groups of the Kubernetes project: k8s.io, kubernetes.io.

Source: apiextensions-apiserver pkg/apihelpers/helpers.go (GetAPIApprovalState) and
pkg/apis/apiextensions/validation (validateAPIApproval).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.values import at, text_at

APPROVAL = "api-approved.kubernetes.io"
_DOMAINS = ("k8s.io", "kubernetes.io")
_ABOUT = "https://github.com/kubernetes/enhancements/pull/1111"
_REQUIRED = f'protected groups must have approval annotation "{APPROVAL}"'
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+\S*")


class Approval(StrEnum):
    """What the annotation of a definition states; named as in the condition's reason."""

    MISSING = "Missing"
    BYPASSED = "Unapproved"
    APPROVED = "Approved"
    INVALID = "Invalid"


def approval_of(definition: JSONObject) -> tuple[Approval, str] | None:
    """What a definition's annotation states, and the words for it; None in a group of others."""
    group = text_at(definition, "spec", "group")
    if not any(group == domain or group.endswith(f".{domain}") for domain in _DOMAINS):
        return None
    value = at(definition, "metadata", "annotations", APPROVAL)
    if not isinstance(value, str) or not value:
        return Approval.MISSING, f"{_REQUIRED}, see {_ABOUT}"
    if value.startswith("unapproved"):
        return Approval.BYPASSED, f'not approved: "{value}"'
    if _URL.fullmatch(value):
        return Approval.APPROVED, f"approved in {value}"
    text = f'{_REQUIRED} with either a URL or a reason starting with "unapproved"'
    return Approval.INVALID, f"{text}, see {_ABOUT}"


def check_approval(definition: JSONObject, old: JSONObject | None) -> Iterator[Cause]:
    """The fault of an annotation that is missing or states nothing, unless it was so before."""
    found = approval_of(definition)
    before = approval_of(old) if old is not None else None
    if found is None or (before is not None and before[0] is found[0]):
        return
    state, text = found
    place = f"metadata.annotations[{APPROVAL}]"
    if state is Approval.MISSING:
        yield FieldErrors.required(place, text)
    elif state is Approval.INVALID:
        yield FieldErrors.invalid(place, at(definition, "metadata", "annotations", APPROVAL), text)
