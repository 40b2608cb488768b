"""Requests, answers and routes of the simulated services."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from tests.simulated_openstack.model import Token
    from tests.simulated_openstack.world import World

Json = Any  # what clients send, and what the APIs answer

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
MAX_ENTRIES: Final = 1000
"""Entries of a page, as Nova's `max_limit`."""


class RefusalError(Exception):
    """A request that the service refuses."""

    def __init__(self, code: int, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.kind = code, message, kind


@dataclass(slots=True)
class Answer:
    """What a service answers; `raw` in place of a body that is JSON."""

    code: int
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None


@dataclass(slots=True)
class Request:
    """A request to a service.

    Args:
        path: below the service's root.
        root: address of the service's root.
        query: the last value of each parameter.
        version: microversion, (0, 0) where the service has none.
        parts: what the route's pattern found in the path.
    """

    world: World
    service: Service
    method: str
    path: str
    root: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes
    version: tuple[int, int] = (0, 0)
    caller: Token | None = None
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def token(self) -> Token:
        """The token of the caller; open routes do not read it."""
        assert self.caller is not None
        return self.caller

    def must_be_admin(self, what: str) -> None:
        """Refuse callers that are no administrator.

        Raises:
            RefusalError: 403.
        """
        if not self.token.admin:
            raise RefusalError(403, f"Policy doesn't allow {what} to be performed.")

    def json(self, *keys: str) -> Json:
        """The body, or what is in it below the keys.

        Raises:
            RefusalError: 400: it is no JSON, or a key is missing.
        """
        try:
            found: Json = msgspec.json.decode(self.content)
        except msgspec.DecodeError:
            raise RefusalError(400, "Malformed request body") from None
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                raise RefusalError(400, f"Invalid input: '{key}' is a required property")
            found = found[key]
        return found

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        return self.query.get(name, "").lower() in {"1", "true", "yes", "t", "on", "y"}

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number.

        Raises:
            RefusalError: 400: it is none.
        """
        text = self.query.get(name, str(default))
        if not text.isdecimal():
            raise RefusalError(400, f"Invalid input for query parameters {name}: {text}")
        return int(text)


Handler = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a handler answers.

    Args:
        public: also without a token.
    """

    method: str
    template: str
    handler: Handler
    public: bool = False


def route(method: str, template: str, handler: Handler, *, public: bool = False) -> Route:
    """A route; `{name}` in its template is one part of the path."""
    return Route(method, template, handler, public)


@dataclass(frozen=True, slots=True)
class Service:
    """A simulated service.

    Args:
        name: its type in the catalogue, and the first part of its path.
        path: of its root below that, as in the catalogue.
        error: the form of its errors, from code, message and kind.
        versions: the oldest and newest microversion, None for none.
        actions: routes whose body's only key is part of a call's kind.
    """

    name: str
    path: str
    routes: Sequence[Route]
    error: Callable[..., Json]
    versions: tuple[tuple[int, int], tuple[int, int]] | None = None


class Routes:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._exact: dict[tuple[str, str], Route] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Route]] = []
        for one in routes:
            if "{" in one.template:
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", one.template)
                self._patterns.append((one.method, re.compile(pattern), one))
            else:
                self._exact[one.method, one.template] = one

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
        """The route, and what its template found; None when there is none."""
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact, {}
        for wanted, pattern, one in self._patterns:
            if wanted == method and (found := pattern.fullmatch(path)):
                return one, found.groupdict()
        return None


def page(
    request: Request, found: Sequence[Json], key: Callable[[Json], str]
) -> tuple[Sequence[Json], str]:
    """One page of what was found by `limit` and `marker`, and the marker of the next, or "".

    Raises:
        RefusalError: 400: nothing has the marker as its key.
    """
    limit = min(request.number("limit", MAX_ENTRIES) or MAX_ENTRIES, MAX_ENTRIES)
    start = 0
    if marker := request.query.get("marker"):
        at = next((i for i, one in enumerate(found) if key(one) == marker), None)
        if at is None:
            raise RefusalError(400, f"marker [{marker}] not found")
        start = at + 1
    taken = found[start : start + limit]
    more = start + limit < len(found)
    return taken, key(taken[-1]) if more and taken else ""


def next_links(request: Request, marker: str) -> list[dict[str, str]]:
    """Links to the next page."""
    query = {**request.query, "marker": marker}
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return [{"rel": "next", "href": f"{request.root}{request.path}?{text}"}]
