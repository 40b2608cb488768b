"""Errors as the Kubernetes API reports them: a Status with code, reason, message and causes.

Source: k8s.io/apimachinery, pkg/api/errors/errors.go and pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from hypercobalt.errors import HypercobaltError

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
JSONObject: TypeAlias = dict[str, "JSON"]

MAX_CAUSES = 1000  # in one answer


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class StatusError(HypercobaltError):
    """An answer that is not a success; carries everything in its Status body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: JSONObject | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = details
        self.headers = headers or {}
        self.continue_token = ""  # of an expired list: how to go on all the same

    def body(self) -> JSONObject:
        status: JSONObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class NotFoundError(StatusError):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of an error: `hypervisors.kvm.cloud.sap "kvm-a"`."""

    group: str
    resource: str  # plural; the kind, where Kubernetes names the kind instead
    name: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self, causes: Iterable[Cause] = (), *, uid: str = "") -> JSONObject:
        body: JSONObject = {}
        if self.name:
            body["name"] = self.name
        if self.group:
            body["group"] = self.group
        if self.resource:
            body["kind"] = self.resource
        if uid:
            body["uid"] = uid
        listed: list[JSON] = [
            {"reason": c.reason, "message": c.message, "field": c.field} for c in causes
        ]
        if listed:
            body["causes"] = listed
        return body


def not_found(subject: Subject) -> StatusError:
    message = f'{subject.qualified} "{subject.name}" not found'
    return NotFoundError(404, "NotFound", message, details=subject.details())


def no_such_path() -> StatusError:
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, details={})


def already_exists(subject: Subject) -> StatusError:
    message = f'{subject.qualified} "{subject.name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=subject.details())


CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(subject: Subject, why: str = CHANGED) -> StatusError:
    message = f'Operation cannot be fulfilled on {subject.qualified} "{subject.name}": {why}'
    return StatusError(409, "Conflict", message, details=subject.details())


def apply_conflict(causes: Sequence[Cause], message: str) -> StatusError:
    return StatusError(409, "Conflict", message, details=Subject("", "").details(causes))


def aggregate(messages: Sequence[str]) -> str:
    """Join as Go's error aggregate does: one as it is, several in brackets, without repeats."""
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    subject = Subject(group, kind, name)
    causes = causes[:MAX_CAUSES]
    text = aggregate([str(c) for c in causes]) if causes else ""
    message = f'{subject.qualified} "{name}" is invalid: {text}'
    return StatusError(422, "Invalid", message, details=subject.details(causes))


def invalid_options(kind: str, *causes: Cause) -> StatusError:
    """Refuse a query's options: those of a list, a patch or a delete."""
    return invalid("meta.k8s.io", kind, "", causes)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def forbidden(subject: Subject, why: str) -> StatusError:
    message = f'{subject.qualified} "{subject.name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=subject.details())


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def verb_not_supported(subject: Subject, verb: str) -> StatusError:
    message = f'{verb} is not supported on resources of kind "{subject.qualified}"'
    return StatusError(405, "MethodNotAllowed", message, details=subject.details())


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def too_large(limit_bytes: int) -> StatusError:
    return StatusError(
        413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}"
    )


def too_many_requests() -> StatusError:
    message = "Too many requests, please try again later."
    details: JSONObject = {"retryAfterSeconds": 1}
    headers = {"Retry-After": "1"}
    return StatusError(429, "TooManyRequests", message, details=details, headers=headers)


def timed_out() -> StatusError:
    message = "Timeout: request did not complete within the allotted timeout"
    return StatusError(504, "Timeout", message, details={})


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def out_of_space(message: str) -> StatusError:
    return StatusError(507, "InsufficientStorage", message)


def internal(message: str) -> StatusError:
    details: JSONObject = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def unreadable(message: str) -> StatusError:
    """What kube-apiserver answers for an object that it cannot decode."""
    return StatusError(500, "StorageReadError", message, details={})


def unsupported(what: str) -> StatusError:
    """Refuse by name what this server does not do."""
    return StatusError(501, "NotImplemented", f"the embedded API server does not support {what}")


def quote(value: JSON) -> str:
    """A value as Kubernetes prints it in a field error: Go's %q for strings, JSON otherwise."""
    text = msgspec.json.encode(value).decode()
    if not isinstance(value, (dict, list)):
        return text
    for letter in "<>&":  # as Go's encoder writes these within objects
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


class FieldErrors:
    """Builders of the field causes that validation reports."""

    @staticmethod
    def invalid(path: str, value: JSON, detail: str) -> Cause:
        return Cause(path, "FieldValueInvalid", f"Invalid value: {quote(value)}: {detail}")

    @staticmethod
    def type_invalid(path: str, value: JSON, detail: str) -> Cause:
        return Cause(path, "FieldValueTypeInvalid", f"Invalid value: {quote(value)}: {detail}")

    @staticmethod
    def required(path: str, detail: str = "") -> Cause:
        tail = f": {detail}" if detail else ""
        return Cause(path, "FieldValueRequired", f"Required value{tail}")

    @staticmethod
    def not_supported(path: str, value: JSON, allowed: Sequence[str]) -> Cause:
        listed = ", ".join(quote(v) for v in allowed)
        text = f"Unsupported value: {quote(value)}: supported values: {listed}"
        return Cause(path, "FieldValueNotSupported", text)

    @staticmethod
    def duplicate(path: str, value: JSON) -> Cause:
        return Cause(path, "FieldValueDuplicate", f"Duplicate value: {quote(value)}")

    @staticmethod
    def forbidden(path: str, detail: str) -> Cause:
        return Cause(path, "FieldValueForbidden", f"Forbidden: {detail}")

    @staticmethod
    def too_long(path: str, limit: int) -> Cause:
        text = f"Too long: may not be more than {limit} bytes"
        return Cause(path, "FieldValueTooLong", text)

    @staticmethod
    def too_many(path: str, count: int, limit: int) -> Cause:
        noun = "item" if limit == 1 else "items"
        text = f"Too many: {count}: must have at most {limit} {noun}"
        return Cause(path, "FieldValueTooMany", text)
