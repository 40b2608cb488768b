"""A request to OpenStack, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from hypercobalt.adapters.openstack.errors import NoAnswerError

T = TypeVar("T")
_Json = None | bool | int | float | str | Sequence["_Json"] | Mapping[str, "_Json"]

DEADLINE: Final = 30.0
"""Seconds for a call with its retries."""
_WORDS = 400  # characters of a service's own words that a message carries


@dataclass(frozen=True, slots=True)
class Request:
    """One call in the API's words.

    Args:
        about: what is done to which object, for messages and logs: `disable host node1`.
        service: its type in the catalogue.
        method: of HTTP.
        path: below the service's endpoint, with a slash first.
        query: parameters; a name may come more than once.
        body: sent as JSON; None sends nothing.
        version: microversion; "" for services that have none.
        deadline: seconds.
        root: `path` is below the version of the API, not below the endpoint, which may have more.
    """

    about: str
    service: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: object = None
    version: str = ""
    deadline: float = DEADLINE
    root: bool = False

    @property
    def idempotent(self) -> bool:
        """Whether it only reads."""
        return self.method == "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered: 2xx, or 4xx but for 401 and 429.

    Args:
        about: of the request.
        code: of HTTP.
        body: as it came.
        headers: as they came.
    """

    about: str
    code: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        """Whether the request was granted."""
        return 200 <= self.code < 300  # noqa: PLR2004

    def read(self, type_: type[T]) -> T:
        """The body as a type.

        Raises:
            NoAnswerError: it is not of that shape.
        """
        try:
            return msgspec.json.decode(self.body, type=type_)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise NoAnswerError(
                f"{self.about}: the answer cannot be read: {exc}", down=False
            ) from exc

    @property
    def words(self) -> str:
        """Why a request was refused, in the service's words."""
        return refusal(self.code, self.body)


def refusal(code: int, body: bytes) -> str:
    """The message in an error's body; each service has its own form.

    Source: Nova `{"badRequest": {"message"}}`, Placement `{"errors": [{"detail"}]}`, Neutron
    `{"NeutronError": {"message"}}`, Keystone `{"error": {"message"}}`.
    """
    try:
        text = _reason(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body.decode(errors="replace")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"{code}: {text[:_WORDS]}" if text else str(code)


def _reason(decoded: _Json) -> str:
    match decoded:
        case {"errors": [{"detail": str(text)}, *_]} | {"message": str(text)}:
            return text
        case {"NeutronError": inner} | {"error": inner}:
            return _reason(inner)
        case str(text):
            return text
        case _:
            pass
    try:
        return msgspec.convert(decoded, dict[str, _Message]).popitem()[1].message
    except (msgspec.ValidationError, KeyError):
        return ""


class _Message(msgspec.Struct, frozen=True):
    message: str
