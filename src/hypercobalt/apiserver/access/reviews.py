"""Reviews: who am I, may I? Computed, not stored. Everybody who is somebody may do everything.

Source: kubernetes pkg/registry/authentication and pkg/registry/authorization.
"""

from __future__ import annotations

from hypercobalt.apiserver import status
from hypercobalt.apiserver.deciding.decoding import check_body
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.status import JSONObject
from hypercobalt.apiserver.values import object_at

GROUPS = ("authentication.k8s.io", "authorization.k8s.io")

_ALLOWED: JSONObject = {"allowed": True}
_RULES: JSONObject = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(call: Call) -> JSONObject:
    """The answer to a review.

    Raises:
        StatusError: 400 or 422 for a body that asks nothing; 501 for TokenReview.
    """
    body = check_body(call, call.body.value)
    answers: dict[str, JSONObject] = {
        "SelfSubjectReview": {"userInfo": call.request.user.body()},
        "SelfSubjectAccessReview": _ALLOWED,
        "SubjectAccessReview": _ALLOWED,
        "LocalSubjectAccessReview": _ALLOWED,
        "SelfSubjectRulesReview": _RULES,
    }
    if call.kind not in answers:
        raise status.unsupported(call.resource.names.plural)
    spec = object_at(body, "spec")
    asked = [name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name)]
    if call.kind.endswith("AccessReview") and len(asked) != 1:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = status.FieldErrors.invalid("spec.resourceAttributes", None, text)
        raise status.invalid(call.resource.group, "", "", [cause])
    shown: JSONObject = {
        "kind": call.kind,
        "apiVersion": call.resource.api_version,
        "metadata": body.get("metadata", {}),
    }
    if "spec" in body:
        shown["spec"] = body["spec"]
    if call.resource.group == "authentication.k8s.io":
        shown["metadata"] = {"creationTimestamp": call.stamp}
    return {**shown, "status": answers[call.kind]}
