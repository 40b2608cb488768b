"""Versions and pages of lists and watches.

Source: API concepts, "Resource versions" and "Retrieving large results sets in chunks";
apimachinery pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject, StatusError
from hypercobalt.apiserver.requests.request import Request
from hypercobalt.apiserver.storage.objects import Place

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105  # no secret
_BAD_CONTINUE = "invalid continue token: continue key is not valid"
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_VERSION = re.compile(r"[1-9][0-9]{0,18}")  # what fits 64 bits


def parse_revision(text: str, *, list_of: bool = False) -> int:
    """A resourceVersion as a number; 0 when empty.

    Raises:
        StatusError: 400 when it is not one.
    """
    if text in ("", "0"):
        return 0
    if not _VERSION.fullmatch(text):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        cause = str(FieldErrors.invalid("resourceVersion", text, detail))
        raise errors.bad_request(f"invalid resource version: {cause}" if list_of else cause)
    return int(text)


def check_reached(wanted: int, current: int) -> None:
    """Refuse a revision that is yet to come.

    Raises:
        StatusError: 504.
    """
    if wanted <= current:
        return
    details: JSONObject = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    raise StatusError(504, "Timeout", message, details=details, headers={"Retry-After": "1"})


class _Token(msgspec.Struct):
    """A continue token: where the next page starts, at which revision (-1: wherever we are)."""

    v: str = ""
    rv: int = 0
    start: str = ""


def encode_token(revision: int, place: Place) -> str:
    token = _Token(_TOKEN_VERSION, revision, "/".join(place))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> tuple[int, Place]:
    try:
        padded = text + "=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise errors.bad_request(f"{_BAD_CONTINUE}: {error}") from error
    namespace, slash, name = token.start.partition("/")
    if token.v != _TOKEN_VERSION or not slash:
        text = f"{_BAD_CONTINUE}: server does not recognize this encoded version {token.v}"
        raise errors.bad_request(text)
    return token.rv, (namespace, name)


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list."""

    revision: int
    after: Place | None  # it begins behind this one
    limit: int  # 0: all

    def expired(self) -> StatusError:
        """The answer when its revision is no longer kept."""
        if self.after is None:
            return errors.expired("The resourceVersion for the provided list is too old.")
        error = errors.expired(_EXPIRED)
        error.continue_token = encode_token(-1, self.after)
        return error


def read_page(request: Request, current: int) -> Page:
    """The page that a list requests, when the store is at the revision `current`.

    Raises:
        StatusError: 400, 422 or 504 for options that cannot be.
    """
    limit = max(request.number("limit"), 0)
    text, match = request.text("resourceVersion"), request.text("resourceVersionMatch")
    if "sendInitialEvents" in request.query:
        why = "sendInitialEvents is forbidden for list"
        raise _refused(FieldErrors.forbidden("sendInitialEvents", why))
    if token := request.text("continue"):
        revision, after = _decode_token(token)
        if revision > current:
            raise errors.bad_request("continue key is not valid: it names a version to come")
        if text not in ("", "0"):
            why = "specifying resource version is not allowed when using continue"
            raise errors.bad_request(why)
        return Page(current if revision < 0 else revision, after, limit)
    wanted = parse_revision(text, list_of=True)
    _check_match(text, match)
    check_reached(wanted, current)
    if match == "Exact" and wanted == 0:
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _refused(FieldErrors.forbidden("resourceVersionMatch", why))
    if text == "0":
        limit = 0  # any version will do: as from the real server's cache, which does not page
    exact = match == "Exact" or (limit > 0 and wanted > 0 and match == "")
    return Page(wanted if exact else current, None, limit)


def _check_match(text: str, match: str) -> None:
    if match and not text:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _refused(FieldErrors.forbidden("resourceVersionMatch", why))
    if match not in ("", "Exact", "NotOlderThan"):
        listed = ["Exact", "NotOlderThan", ""]
        raise _refused(FieldErrors.not_supported("resourceVersionMatch", match, listed))


def wants_initial_events(request: Request) -> bool:
    """Whether a watch is to begin with all there is.

    Raises:
        StatusError: 422 for options that do not go together.
    """
    sent, match = "sendInitialEvents" in request.query, request.text("resourceVersionMatch")
    name = "resourceVersionMatch"
    causes: list[Cause] = []
    if match and not sent:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(FieldErrors.forbidden(name, why))
    if sent and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(FieldErrors.forbidden(name, why))
        if match:
            causes.append(FieldErrors.not_supported(name, match, ["NotOlderThan"]))
    if causes:
        raise _refused(*causes)
    return request.flag("sendInitialEvents")


def _refused(*causes: Cause) -> StatusError:
    return errors.invalid_options("ListOptions", *causes)
