"""Pages that are served beside health and metrics: a verb on a path, with a bound on the body.

Requests have just what such pages need; their bodies are whole, in memory, and of a length that is
sent ahead. An answer is whole as well, or a stream of chunks.

Source: RFC 9110 (405 with `Allow`, 411, 413), RFC 9112 (request line, length of a body).
"""

from __future__ import annotations

import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from msgspec import structs

from hypercobalt.api.access import ResourceAttributes

TEXT: Final = "text/plain; charset=utf-8"
_NAMES: Final = ("{namespace}", "{name}")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requester:
    """Who sends a request, as the API server or a certificate of its client CA has it.

    Args:
        user: name.
        groups: of the user.
        uid: of the user; empty if there is none.
        extra: what authorizers may need beyond, such as the scopes of a token.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the client sent it.

    Args:
        method: in capitals.
        path: as sent, without the query.
        query: what follows `?`, as sent.
        headers: by name in lower case; of several with one name the first.
        body: whole; at most what the page takes.
        certificate: of the client, verified, as `ssl.getpeercert` gives it; empty without one.
        address: of the client; empty if it is not known.
        requester: who it is; None for a page that is open to all.
        lines: all headers, in their order, with names in lower case.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    certificate: Mapping[str, object] = field(default_factory=dict[str, object])
    address: str = ""
    requester: Requester | None = None
    lines: tuple[tuple[str, str], ...] = ()

    @property
    def verb(self) -> str:
        """The verb of the right that a request needs: HEAD is a `get`."""
        return "get" if self.method == "HEAD" else self.method.lower()

    @property
    def token(self) -> str:
        """The bearer token, empty if there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def length(self) -> int | None:
        """Length of the body, in bytes; None if it is not sent ahead.

        Raises:
            ValueError: the length is not a number.
        """
        if "transfer-encoding" in self.headers:
            return None
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise ValueError(f"Content-Length {length!r} is not a number")
        return int(length)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a page; a status without a text has its phrase as text."""

    status: int
    body: bytes = b""
    kind: str = TEXT
    allow: str = ""

    def encoded(self, *, head: bool) -> bytes:
        """Return the answer as bytes on the wire; without the body for HEAD."""
        phrase = HTTPStatus(self.status).phrase
        body = self.body or f"{phrase}\n".encode()
        lines = (
            f"HTTP/1.1 {self.status} {phrase}",
            f"Content-Type: {self.kind}",
            f"Content-Length: {len(body)}",
            *((f"Allow: {self.allow}",) if self.allow else ()),
            "Connection: close",
            "\r\n",
        )
        return "\r\n".join(lines).encode() + (b"" if head else body)


def text(status: int, message: str) -> Answer:
    """An answer for people."""
    return Answer(status, f"{message}\n".encode())


async def _nothing() -> None:
    """There is nothing to give up."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose body comes in chunks, each sent when the client has taken those before.

    Args:
        chunks: the body; an error of it, and the end of its time, are distinguished from its
            end. It is closed when it is over, its client leaves, or the process stops.
        kind: of the body.
        close: gives up what was begun before the first chunk; called once, whatever happens, after
            the chunks are closed.
    """

    chunks: AsyncGenerator[bytes, None]
    kind: str = TEXT
    close: Callable[[], Coroutine[None, None, None]] = _nothing

    def head(self) -> bytes:
        """What goes before the chunks."""
        lines = (
            "HTTP/1.1 200 OK",
            f"Content-Type: {self.kind}",
            "Transfer-Encoding: chunked",
            "Trailer: Error, Ended",
            "Connection: close",
            "\r\n",
        )
        return "\r\n".join(lines).encode()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An answer after which the connection is no longer HTTP's, such as a websocket.

    Args:
        head: what begins it.
        run: has the connection until it returns; it is cancelled when the process stops. Nothing
            bounds its time.
    """

    head: bytes
    run: Callable[[StreamReader, StreamWriter], Coroutine[None, None, None]]


Handle = Callable[[Request], Coroutine[None, None, Answer | Stream | Upgrade]]


@dataclass(frozen=True, slots=True)
class Route:
    """One page.

    Args:
        path: of the page; with `/` at its end, of every page right below it. `{namespace}` and
            `{name}` stand for one part each, as `named` gives it.
        handle: answers; only what its guard admits and what is no longer than `most` comes here.
        method: `GET` answers HEAD too.
        most: length of a body, in bytes.
        seconds: for the answer, or until a stream begins.
        lasts: seconds that a stream may take.
        access: right that a requester needs, for guards that go by resources; where the path has
            names in braces, `right` has those of the request.
    """

    path: str
    handle: Handle
    method: str = "GET"
    most: int = 0
    seconds: float = 5.0
    lasts: float = 60.0
    access: ResourceAttributes | None = None

    def matches(self, path: str) -> bool:
        """Whether the page has this path."""
        if not self.path.endswith("/"):
            return self.named(path) is not None
        rest = path.removeprefix(self.path)
        return rest not in {path, ""} and "/" not in rest

    def named(self, path: str) -> Mapping[str, str] | None:
        """What a path has in place of the names in braces; None if it is of another page.

        Only what can be the name of an object is one: nothing that is encoded, no empty part.
        """
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        found: dict[str, str] = {}
        for part, value in zip(wanted, given, strict=True):
            if part in _NAMES:
                if not _NAME.fullmatch(value):
                    return None
                found[part[1:-1]] = value
            elif part != value:
                return None
        return found

    def right(self, path: str) -> ResourceAttributes | None:
        """The right that a request for a path needs; None if every requester may send it."""
        if self.access is None:
            return None
        return structs.replace(self.access, **(self.named(path) or {}))

    def takes(self, method: str) -> bool:
        """Whether the page has this method."""
        return ("GET" if method == "HEAD" else method) == self.method


def read_head(head: bytes) -> Request:
    """The request that a head is of, without its body."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    parts = (line.partition(":") for line in lines)
    found = tuple((name.strip().lower(), value.strip()) for name, colon, value in parts if colon)
    headers: dict[str, str] = {}
    for name, value in found:
        headers.setdefault(name, value)
    return Request(method, path, query, headers, lines=found)


def route_of(request: Request, routes: Sequence[Route]) -> Route | Answer:
    """The page that a request is for; an answer if there is none."""
    found = [one for one in routes if one.matches(request.path)]
    if not found:
        there = ", ".join(dict.fromkeys(one.path for one in routes))
        return text(404, f"there are: {there}")
    for one in found:
        if one.takes(request.method):
            return one
    allow = ", ".join("GET, HEAD" if one.method == "GET" else one.method for one in found)
    return Answer(405, f"only {allow}\n".encode(), allow=allow)
