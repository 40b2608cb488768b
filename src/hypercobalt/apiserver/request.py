"""A request as the pipeline sees it: what it asks for, who asks, and what may come back.

Source: apiserver pkg/endpoints/request/requestinfo.go; the API conventions, "Verbs on Resources".
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import yaml

from hypercobalt.apiserver import status
from hypercobalt.apiserver.status import JSON, Cause, JSONObject, StatusError
from hypercobalt.apiserver.wire import protobuf

MAX_MANAGER = 128  # bytes of a field manager's name
MAX_BODY = 3 * 1024 * 1024  # bytes, as kube-apiserver
MAX_DEPTH = 200  # nesting of a body; far below what recursion in here could not take
JSON_TYPE, YAML_TYPE = "application/json", "application/yaml"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
OPTIONS = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
    "DELETE": "DeleteOptions",
}
BODY_TYPES = (JSON_TYPE, YAML_TYPE, protobuf.MEDIA_TYPE)


_NUMBER = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII)


@dataclass(frozen=True, slots=True)
class User:
    """Who sent a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    def body(self) -> JSONObject:
        shown: JSONObject = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        return shown


@dataclass(frozen=True, slots=True)
class Target:
    """The resource path of a URL, taken apart."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # lower-case names
    user: User
    body: bytes = b""
    warnings: list[str] = field(default_factory=list[str])

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
            raise status.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        if not -(2**63) <= int(value) < 2**63:
            raise status.bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
        return int(value)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def dry_run(self) -> bool:
        """Whether to do everything but the write."""
        return self.text("dryRun") == "All"

    @property
    def options_kind(self) -> str:
        return OPTIONS.get(self.method, "")

    def check_options(self) -> None:
        """Refuse options that create, update and patch have in common.

        Raises:
            StatusError: 422 with everything that is wrong.
        """
        if causes := list(self._option_errors()):
            raise status.invalid("meta.k8s.io", self.options_kind, "", causes)

    def _option_errors(self) -> Iterator[Cause]:
        if (value := self.query.get("dryRun", "All")) != "All":
            yield status.FieldErrors.not_supported("dryRun", [value], ["All"])
        name = self.text("fieldManager")
        if len(name.encode()) > MAX_MANAGER:
            yield status.FieldErrors.too_long("fieldManager", MAX_MANAGER)
        for place, letter in enumerate(name):
            if not letter.isprintable():
                text = f"invalid character U+{ord(letter):04X} (at position {place})"
                yield status.FieldErrors.invalid("fieldManager", name, text)
        if (value := self.text("fieldValidation")) not in ("", "Ignore", "Warn", "Strict"):
            listed = ["", "Ignore", "Strict", "Warn"]
            yield status.FieldErrors.not_supported("fieldValidation", value, listed)

    @property
    def manager(self) -> str:
        """The field manager: as named, else the user agent's first word."""
        agent = self.headers.get("user-agent", "unknown").partition("/")[0]
        return self.text("fieldManager") or agent or "unknown"


@dataclass(frozen=True, slots=True)
class Response:
    code: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict[str, str])
    rest: Sequence[bytes] = ()  # of a long body: pieces that are never in memory as a whole


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch: chunks until the server or the client ends it."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON_TYPE
    close: Callable[[], None] = lambda: None  # called at the end, whether it was begun or not


def parse_path(path: str) -> Target | None:
    """Take a resource path apart; None for any other path."""
    parts = path.strip("/").split("/")
    if len(parts) > 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not all(rest):
        return None
    resource, name, subresource, *_ = [*rest, "", "", ""]
    if len(rest) > 3:
        return None
    return Target(group, version, resource, namespace, name, subresource)


# -- bodies ------------------------------------------------------------------------------------


def decode_body(request: Request) -> JSON:
    """The request's body as JSON values.

    Raises:
        StatusError: 400 for what does not parse or nests too deeply; 415 for other types.
    """
    match request.content_type:
        case "" | "application/json":
            return decode_json(request.body)
        case "application/yaml":
            return decode_yaml(request.body)
        case protobuf.MEDIA_TYPE:
            value = protobuf.decode(request.body)
            check_depth(value)
            return value
        case _:
            raise status.unsupported_media_type(BODY_TYPES)


def decode_json(data: bytes) -> JSON:
    try:
        value: JSON = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type JSON): {error}"
        ) from error
    check_depth(value)
    return value


def decode_yaml(data: bytes) -> JSON:
    try:
        _refuse_bombs(data)
        loaded = yaml.load(data, Loader=_Loader)  # noqa: S506  # a subclass of CSafeLoader
        value: JSON = msgspec.json.decode(msgspec.json.encode(loaded))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError, OverflowError) as error:
        text = str(error).replace("\n", " ")
        raise status.bad_request(f"error converting YAML to JSON: {text}") from error
    check_depth(value)
    return value


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: times stay text, and what JSON cannot say is refused."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _number(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float | str:
    if ":" in node.value:
        return str(node.value)  # base 60 in YAML 1.1; Kubernetes' parser knows better
    if node.tag.endswith(":int"):
        return loader.construct_yaml_int(node)
    value = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        raise yaml.YAMLError(f"unsupported value: {node.value}")
    return value


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def _refuse_bombs(data: bytes) -> None:
    """Aliases of aliases expand to any size, and deep nesting would overflow libyaml's stack."""
    depth = 0
    for event in yaml.parse(data, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise status.bad_request(f"the body nests deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def check_depth(value: JSON) -> None:
    level: list[JSON] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            below
            for item in level
            if isinstance(item, (dict, list))
            for below in (item.values() if isinstance(item, dict) else item)
            if isinstance(below, (dict, list))
        ]
        if not level:
            return
    raise status.bad_request(f"the body nests deeper than {MAX_DEPTH} levels")


class _Pairs(dict[str, JSON]):
    """A JSON object that knows which of its keys came more than once."""

    def __init__(self, pairs: list[tuple[str, JSON]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = [name for name, count in counts.items() if count > 1]


def duplicate_fields(data: bytes) -> list[str]:
    """Paths of keys that stand twice in one object of a JSON text; none in other bodies."""
    try:
        return list(_repeated(json.loads(data, object_pairs_hook=_Pairs), ""))
    except ValueError:  # YAML, or protobuf, which has no names
        return []


def _repeated(value: JSON, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        yield from (f"{path}{name}" for name in value.repeated)
        for name, item in value.items():
            yield from _repeated(item, f"{path}{name}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{path[:-1]}[{index}].")


# -- options -----------------------------------------------------------------------------------


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


def delete_options(request: Request) -> DeleteOptions:
    """The options of a delete, from its body or else its query.

    Raises:
        StatusError: 400 for a body that is none; 422 for an unknown policy.
    """
    if request.body:
        value = decode_body(request)
        kind = value.get("kind", "") if isinstance(value, dict) else ""
        if kind not in ("", "DeleteOptions"):
            raise status.bad_request(f"no kind {status.quote(kind)} is registered for its version")
        try:
            options = msgspec.convert(value, DeleteOptions)
        except msgspec.ValidationError as error:
            raise status.bad_request(f"DeleteOptions cannot be handled: {error}") from error
    else:
        grace = (
            request.number("gracePeriodSeconds") if "gracePeriodSeconds" in request.query else None
        )
        options = DeleteOptions(
            gracePeriodSeconds=grace,
            propagationPolicy=request.text("propagationPolicy") or None,
        )
    if value := request.text("dryRun"):
        options.dryRun = [value]
    if causes := list(_delete_errors(options)):
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", causes)
    return options


def _delete_errors(options: DeleteOptions) -> Iterator[Cause]:
    policy = options.propagationPolicy
    if policy is not None and options.orphanDependents is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        yield status.FieldErrors.invalid("propagationPolicy", policy, text)
    elif policy not in (None, "", "Foreground", "Background", "Orphan"):
        listed = ["Foreground", "Background", "Orphan", "nil"]
        yield status.FieldErrors.not_supported("propagationPolicy", policy, listed)
    if set(options.dryRun) - {"All"}:
        shown: list[JSON] = list(options.dryRun)
        yield status.FieldErrors.not_supported("dryRun", shown, ["All"])


# -- what the client accepts -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """One way to show objects: plain, or `as` a Table or PartialObjectMetadata."""

    media: str = JSON_TYPE
    shown_as: str = ""


def accepted(request: Request) -> Accepted:
    """The first acceptable form that this server can give.

    Raises:
        StatusError: 406 when there is none.
    """
    header = request.headers.get("accept", "") or "*/*"
    for entry in header.split(","):
        media, *parameters = [part.strip() for part in entry.split(";")]
        pairs = (parameter.partition("=") for parameter in parameters)
        options = {name: value for name, _, value in pairs}
        shown_as = options.get("as", "")
        if shown_as not in ("", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            continue
        if shown_as and (options.get("g"), options.get("v")) != ("meta.k8s.io", "v1"):
            continue
        if media in (JSON_TYPE, "application/*", "*/*"):
            return Accepted(JSON_TYPE, shown_as)
        if media == YAML_TYPE:
            return Accepted(YAML_TYPE, shown_as)
    raise status.not_acceptable([JSON_TYPE, YAML_TYPE])


def as_yaml(value: JSON) -> bytes:
    return yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()


def error_response(error: StatusError) -> Response:
    return Response(error.code, msgspec.json.encode(error.body()), headers=error.headers)
