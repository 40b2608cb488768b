"""Refusals as an API server words them: a `Status`, which every client of Kubernetes reads. Pure.

Source: k8s.io/apimachinery, pkg/apis/meta/v1 types.go (Status) and pkg/api/errors.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.runtime.routes import Answer

JSON: Final = "application/json"
_MOST_TEXT: Final = 430
"""Bytes of a message, which JSON may double: clients of websockets read 1,024 of a refusal."""
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refusal(code: int, message: str) -> Answer:
    """The answer that refuses a request; of a message without what controls terminals."""
    text = "".join(one if one.isprintable() else " " for one in message).strip()
    shown = text.encode(errors="replace")[:_MOST_TEXT].decode(errors="ignore")
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": dict[str, str](),
        "status": "Failure",
        "message": shown,
        "reason": _REASONS.get(code, "InternalError"),
        "code": code,
    }
    return Answer(code, msgspec.json.encode(body), JSON)
