"""A request as the pipeline sees it: user, verb, target and options, and the forms of an answer.

Source: apiserver pkg/endpoints/request/requestinfo.go; the API conventions, "Verbs on Resources".
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Protocol, TypeAlias

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, Cause, JSONObject
from hypercobalt.apiserver.kinds.resources import Resource
from hypercobalt.apiserver.ownership.managed import Manager, Operation
from hypercobalt.apiserver.requests.bodies import JSON_TYPE, Body
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.values import stamp_of

MAX_MANAGER = 128  # bytes of a field manager's name
PIECE = (
    64 * 2**10
)  # bytes of an answer that are made and sent at once; a shorter one is not counted
OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_VERBS = ("get", "patch", "update")
SUBRESOURCE_VERBS = {
    "status": _VERBS,
    "finalize": ("update",),
    "token": ("create",),
    "binding": ("create",),
}

_NUMBER = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)
NODE_NAME = "authentication.kubernetes.io/node-name"  # in the extra of a Pod's token
_ACCOUNTS, _NODES, _KUBELET = "system:serviceaccount:", "system:nodes", "system:node:"


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], hash=False
    )

    @property
    def host(self) -> str:
        """The Node that it is bound to, as its kubelet or the account of a Pod there; "" for none.

        The Node is that of the account's token, so no client chooses it.
        """
        if not self.name.startswith(_ACCOUNTS):
            return self.name.removeprefix(_KUBELET) if _NODES in self.groups else ""
        nodes = self.extra.get(NODE_NAME, ())
        return nodes[0] if len(nodes) == 1 else ""

    @property
    def flow(self) -> str:
        """Whom shares of limits count for: an account on many Nodes is a user on each."""
        of_pod = self.host and self.name.startswith(_ACCOUNTS)
        return f"{self.name} on {self.host}" if of_pod else self.name

    @property
    def is_of_a_host(self) -> bool:
        """Whether it is bound to one Node."""
        return bool(self.host)

    def body(self) -> JSONObject:
        """Return the user as authentication.k8s.io/v1 UserInfo."""
        shown: JSONObject = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra.items()}
        return shown


AUTHENTICATED = "system:authenticated"  # the group of all authenticated users
MASTERS = "system:masters"  # its members may do everything, whatever is stored
ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
SYSTEM_USER = User("system:apiserver", groups=("system:masters",))


class Room(Protocol):
    """Holds the bytes of an answer that its client has not taken; 429 where it is full."""

    def take(self, amount: int) -> None: ...
    def give(self, amount: int) -> None: ...


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # lower-case names
    user: User
    body: bytes = b""
    warnings: list[str] = field(default_factory=list[str])
    read: Callable[[], Awaitable[bytes]] | None = None  # gives a body that is not here yet
    room: Room | None = None  # of its answer; None for users whose answers are not counted

    async def receive(self) -> None:
        """Read the body: last, so that what is refused without it costs nothing."""
        if self.read is not None:
            self.body, self.read = await self.read(), None

    def text(self, name: str) -> str:
        return self.query.get(name, "")

    def flag(self, name: str) -> bool:
        return name in self.query and self.query[name].lower() not in ("0", "false")

    def number(self, name: str) -> int:
        """A whole number of the query; 0 when absent.

        Raises:
            StatusError: 400 when it is not one.
        """
        value = self.query.get(name, "") or "0"
        if not _NUMBER.fullmatch(value):
            raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        if not -(2**63) <= int(value) < 2**63:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
        return int(value)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def manager(self) -> str:
        """The field manager: as named, else the user agent's first word."""
        agent = self.headers.get("user-agent", "unknown").partition("/")[0]
        return self.text("fieldManager") or agent or "unknown"

    def check_options(self) -> None:
        """Refuse options that create, update and patch have in common.

        Raises:
            StatusError: 422 with everything that is wrong.
        """
        if causes := list(self._option_errors()):
            raise errors.invalid_options(OPTIONS[self.method], *causes)

    def _option_errors(self) -> Iterator[Cause]:
        if (value := self.query.get("dryRun", "All")) != "All":
            yield errors.FieldErrors.not_supported("dryRun", [value], ["All"])
        name = self.text("fieldManager")
        if len(name.encode()) > MAX_MANAGER:
            yield errors.FieldErrors.too_long("fieldManager", MAX_MANAGER)
        for place, letter in enumerate(name):
            if not letter.isprintable():
                text = f"invalid character U+{ord(letter):04X} (at position {place})"
                yield errors.FieldErrors.invalid("fieldManager", name, text)
        if (value := self.text("fieldValidation")) not in ("", "Ignore", "Warn", "Strict"):
            listed = ["", "Ignore", "Strict", "Warn"]
            yield errors.FieldErrors.not_supported("fieldValidation", value, listed)


@dataclass(frozen=True, slots=True)
class Response:
    code: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict[str, str])
    rest: Iterable[bytes] = ()  # of a long body: pieces that are never in memory as a whole
    rest_size: int = 0  # bytes

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) + self.rest_size


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch: chunks until the server or the client ends it."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON_TYPE
    close: Callable[[], None] = lambda: None  # called at the end, whether it was begun or not


@dataclass(frozen=True, slots=True)
class Target:
    """The resource path of a URL, taken apart."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target | None:
    """Take a resource path apart; None for any other path."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not all(rest):
        return Target(group, version, "")  # no kind's
    if len(rest) > 3:
        return None
    resource, name, subresource, *_ = [*rest, "", ""]
    return Target(group, version, resource, namespace, name, subresource)


Guard: TypeAlias = Callable[[JSONObject | None, JSONObject | None], None]
"""Lets an object after and before a write pass, or raises a StatusError."""


def _unguarded(_new: JSONObject | None, _old: JSONObject | None) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Call:
    """A request once it is understood: a verb on objects of one kind."""

    request: Request
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Body = field(default_factory=Body)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    guard: Guard = _unguarded  # refuses parts of a write that the writer has no right to

    @classmethod
    def internal(cls, resource: Resource, key: Key, manager: str, subresource: str = "") -> Call:
        """A write of the server's own."""
        request = Request("PATCH", "", {"fieldManager": manager}, {}, SYSTEM_USER)
        return cls(request, resource, key.namespace, key.name, subresource)

    @property
    def key(self) -> Key:
        return Key(self.resource.stored, self.namespace, self.name)

    @property
    def subject(self) -> errors.Subject:
        return self.resource.subject(self.name)

    @property
    def kind(self) -> str:
        return self.resource.names.kind

    @property
    def verb(self) -> str:
        """The verb of Kubernetes; empty for what no resource has."""
        match self.request.method, bool(self.name):
            case "GET", True:
                return "get"
            case "GET", False:
                return "watch" if self.request.flag("watch") else "list"
            case "DELETE", named:
                return "delete" if named else "deletecollection"
            case "POST", named if self.subresource or not named:
                return "create"
            case ("PUT" | "PATCH") as method, True:
                return "update" if method == "PUT" else "patch"
            case _:
                return ""

    @property
    def dry_run(self) -> bool:
        """Whether to do everything but the write."""
        return self.request.text("dryRun") == "All"

    @property
    def stamp(self) -> str:
        return stamp_of(self.now)

    def manager(self, operation: Operation = "Update") -> Manager:
        return Manager(self.request.manager, operation, self.resource.api_version, self.subresource)


# -- options of a delete -----------------------------------------------------------------------


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815  # wire name


class DeleteOptions(msgspec.Struct):
    """Source: meta/v1 DeleteOptions."""

    gracePeriodSeconds: _Int64 | None = None  # noqa: N815  # wire name
    preconditions: Preconditions | None = None
    orphanDependents: bool | None = None  # noqa: N815  # wire name
    propagationPolicy: str | None = None  # noqa: N815  # wire name
    dryRun: list[str] = []  # noqa: N815  # wire name


def delete_options(call: Call) -> DeleteOptions:
    """The options of a delete, from its body; where there is none, from its query.

    Raises:
        StatusError: 400 for a body that is none; 422 for an unknown policy.
    """
    request, body = call.request, call.body.value
    if request.body:
        kind = body.get("kind", "") if isinstance(body, dict) else ""
        if kind not in ("", "DeleteOptions"):
            raise errors.bad_request(f"no kind {errors.quote(kind)} is registered for its version")
        try:
            options = msgspec.convert(body, DeleteOptions)
        except msgspec.ValidationError as error:
            raise errors.bad_request(f"DeleteOptions cannot be handled: {error}") from error
    else:
        options = DeleteOptions(propagationPolicy=request.text("propagationPolicy") or None)
        if "gracePeriodSeconds" in request.query:
            options.gracePeriodSeconds = request.number("gracePeriodSeconds")
        if "orphanDependents" in request.query:
            options.orphanDependents = request.flag("orphanDependents")
        if value := request.text("dryRun"):
            options.dryRun = [value]
    if causes := list(_delete_errors(options)):
        raise errors.invalid_options("DeleteOptions", *causes)
    return options


def _delete_errors(options: DeleteOptions) -> Iterator[Cause]:
    policy = options.propagationPolicy
    if policy is not None and options.orphanDependents is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        yield errors.FieldErrors.invalid("propagationPolicy", policy, text)
    elif policy not in (None, "", "Foreground", "Background", "Orphan"):
        listed = ["Foreground", "Background", "Orphan", "nil"]
        yield errors.FieldErrors.not_supported("propagationPolicy", policy, listed)
    if set(options.dryRun) - {"All"}:
        shown: list[JSON] = list(options.dryRun)
        yield errors.FieldErrors.not_supported("dryRun", shown, ["All"])
