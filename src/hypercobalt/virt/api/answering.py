"""From the body of a webhook's request to the body of its answer. Pure.

Source: k8s.io/api, admission/v1 AdmissionReview; KEP of dynamic admission, "Response".
"""

from __future__ import annotations

from typing import Final, cast

import msgspec

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.webhooks import (
    REVIEW_VERSION,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
)
from hypercobalt.errors import InvalidRequestError
from hypercobalt.virt.api.webhooks import Admission, Webhook, status, user
from hypercobalt.vmi.review import JsonObject, Review, ReviewRefusal, refusal

_KIND: Final = "AdmissionReview"
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def answer(webhook: Webhook, admission: Admission, body: bytes) -> bytes:
    """The review that answers the one in a body.

    Raises:
        InvalidRequestError: the body is no AdmissionReview that this webhook can answer.
    """
    request = _request(body)
    review = _review(webhook, request)
    made = _verdict(webhook, admission, request.uid, review)
    answered = AdmissionReview(apiVersion=REVIEW_VERSION, kind=_KIND, response=made)
    return msgspec.json.encode(to_builtins(answered))


def _request(body: bytes) -> AdmissionRequest:
    try:
        review = msgspec.json.decode(body, type=AdmissionReview)
    except _NOT_JSON as error:
        raise InvalidRequestError(f"the body must be an AdmissionReview: {error}") from error
    if (review.apiVersion, review.kind) != (REVIEW_VERSION, _KIND) or review.request is None:
        text = f"the body must be an AdmissionReview of {REVIEW_VERSION} with a request"
        raise InvalidRequestError(text)
    return review.request


def _review(webhook: Webhook, request: AdmissionRequest) -> Review:
    if request.operation not in webhook.operations:
        text = f"request.operation {request.operation!r}: {webhook.path} takes "
        raise InvalidRequestError(f"{text}{', '.join(webhook.operations)}")
    obj, old = _object(request.object, "object"), None
    if request.operation == "UPDATE":
        old = _object(request.oldObject, "oldObject")
    sent = request.userInfo
    requester = user(sent.username, sent.groups, sent.extra)
    return Review(request.operation, requester, obj, old)


def _object(raw: msgspec.Raw, name: str) -> JsonObject:
    try:
        value: object = msgspec.json.decode(raw)
    except _NOT_JSON as error:
        raise InvalidRequestError(f"request.{name} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise InvalidRequestError(f"request.{name} must be an object")
    return cast("JsonObject", value)


def _verdict(webhook: Webhook, admission: Admission, uid: str, review: Review) -> AdmissionResponse:
    if not webhook.mutates:
        causes = admission.validate(review)
        return (
            _refused(uid, refusal(causes)) if causes else AdmissionResponse(uid=uid, allowed=True)
        )
    found = admission.mutate(review)
    if isinstance(found, ReviewRefusal):
        return _refused(uid, found)
    operations = patch(review.object, found)
    if not operations:
        return AdmissionResponse(uid=uid, allowed=True)
    encoded = msgspec.json.encode(operations)
    return AdmissionResponse(uid=uid, allowed=True, patch=encoded, patchType="JSONPatch")


def _refused(uid: str, refused: ReviewRefusal) -> AdmissionResponse:
    return AdmissionResponse(uid=uid, allowed=False, status=status(refused))


def patch(old: JsonObject, new: JsonObject) -> list[JsonObject]:
    """The JSON patch that makes `new` of `old`, by whole members: metadata, spec and status."""
    changed: list[JsonObject] = [
        {"op": "add", "path": f"/{_escaped(name)}", "value": value}
        for name, value in new.items()
        if name not in old or old[name] != value
    ]
    gone: list[JsonObject] = [
        {"op": "remove", "path": f"/{_escaped(name)}"} for name in old if name not in new
    ]
    return changed + gone


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
