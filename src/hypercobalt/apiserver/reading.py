"""Get, list and watch.

Plain lists and watches never decode an object: the stored bytes are joined. Selectors, Tables and
other versions decode what they must.

Source: API concepts, "Resource versions" and "Retrieving large results sets in chunks".
"""

from __future__ import annotations

import base64
import binascii
import functools
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import msgspec

from hypercobalt.apiserver import status
from hypercobalt.apiserver.admission import parse_revision
from hypercobalt.apiserver.kinds import builtin, tables
from hypercobalt.apiserver.kinds.resources import Resource
from hypercobalt.apiserver.request import (
    YAML_TYPE,
    Request,
    Response,
    Stream,
    Target,
    accepted,
    as_yaml,
)
from hypercobalt.apiserver.schema.node import apply_defaults, prune
from hypercobalt.apiserver.selectors import FieldTerm, Requirement, parse_fields, parse_labels
from hypercobalt.apiserver.status import JSON, Cause, JSONObject, StatusError
from hypercobalt.apiserver.store import CompactedError, Key, Store, Stored
from hypercobalt.apiserver.watching import Hub, Watcher, bookmark_line, watch_line

PIECE = 64  # objects of a list that are sent at once
WATCH_SECONDS = 1800  # as kube-apiserver's --min-request-timeout: 30 to 60 minutes


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labelled = msgspec.json.Decoder(_Labelled)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection a request asks for."""

    namespace: str | None
    name: str | None
    labels: tuple[Requirement, ...]
    fields: tuple[FieldTerm, ...]  # beyond name and namespace equality

    @property
    def selective(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, key: Key, data: bytes) -> bool:
        if self.labels:
            labels = _labelled.decode(data).metadata.labels or {}
            if not all(term.matches(labels) for term in self.labels):
                return False
        return not self.fields or self._fields_match(key, data)

    def _fields_match(self, key: Key, data: bytes) -> bool:
        obj: JSONObject = {}

        def read(path: str) -> str:
            if path == "metadata.name":
                return key.name
            if path == "metadata.namespace":
                return key.namespace
            if not obj:
                obj.update(msgspec.json.decode(data))
            return field_text(obj, path)

        return all(term.matches(read) for term in self.fields)


_FALSE_WHEN_ABSENT = ("spec.unschedulable", "spec.hostNetwork")


def field_text(obj: JSONObject, path: str) -> str:
    """A field as field selectors compare it; absent is empty."""
    if path == "source":  # of an Event: its component
        path = "source.component" if obj.get("source") else "reportingComponent"
    value: JSON = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in _FALSE_WHEN_ABSENT else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def select(resource: Resource, target: Target, request: Request) -> Selection:
    """What the URL and its selectors ask for.

    Raises:
        StatusError: 400 for a selector that does not parse, or a field that is not selectable.
    """
    labels = parse_labels(request.text("labelSelector"))
    namespace = target.namespace or None
    name = target.name or None
    rest: list[FieldTerm] = []
    allowed = ("metadata.name", "metadata.namespace", *resource.selectable)
    for term in parse_fields(request.text("fieldSelector")):
        if term.field not in allowed:
            raise _not_selectable(resource, term.field)
        if term.field == "metadata.name" and term.equal and name is None:
            name = term.value
        else:
            rest.append(term)
    return Selection(namespace, name, labels, tuple(rest))


def _not_selectable(resource: Resource, field: str) -> StatusError:
    text = f"field label not supported: {field}"
    if not resource.custom and not resource.selectable:
        text = (
            f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    return status.bad_request(text)


class Renderer:
    """Shows stored objects in the form and version that a request accepts."""

    def __init__(self, resource: Resource, request: Request) -> None:
        self.resource = resource
        self.form = accepted(request)
        self.include = request.text("includeObject") or "Metadata"
        if self.form.shown_as == "Table" and self.include not in ("None", "Metadata", "Object"):
            text = "must be 'Metadata', 'Object', 'None', or empty"
            shown = status.quote(self.include)
            text = f"includeObject: Invalid value: {shown}: {text}"
            raise status.bad_request(f"Unable to convert to Table as requested: {text}")
        self.now = datetime.now(UTC)
        self._columns = True  # a watch tells them once

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent as they are."""
        as_stored = not self.converts and not self.resource.revised
        return as_stored and not self.form.shown_as and self.form.media != YAML_TYPE

    @property
    def converts(self) -> bool:
        return self.resource.version != self.resource.storage_version

    def decode(self, data: bytes) -> JSONObject:
        obj: JSONObject = msgspec.json.decode(data)
        return to_version(self.resource, obj)

    def object(self, data: bytes) -> bytes:
        """One object, in any form."""
        if self.plain:
            return data
        obj = self.decode(data)
        if self.form.shown_as == "Table":
            version = _meta(obj).get("resourceVersion")
            meta: JSONObject = {"resourceVersion": version} if version else {}
            rows: list[JSON] = [self._row(data, obj)]
            table = self.resource.printer.table(rows, meta)
            if not self._columns:
                table["columnDefinitions"] = None
            return self.encode(table)
        if self.form.shown_as == "PartialObjectMetadataList":
            raise self._other_shape("not a list", self.resource.names.kind)
        if self.form.shown_as:
            return self.encode(tables.partial_metadata(obj))
        return self.encode(obj)

    def event(self, data: bytes) -> bytes:
        """One object of a watch."""
        shown = self.object(data)
        self._columns = False
        return shown

    def _other_shape(self, what: str, kind: str) -> StatusError:
        group = self.resource.group.partition(".")[0] or "core"
        held = f"unstructured.{kind}" if self.resource.custom else f"{group}.{kind}"
        text = f"you requested {self.form.shown_as}, but the requested object is {what} (*{held})"
        return StatusError(406, "NotAcceptable", text)

    def list_response(self, found: Iterable[Stored], meta: JSONObject) -> Response:
        """A list, in any form; plain ones in pieces, because they may be long."""
        if not self.plain:
            return Response(200, self._shown_list(found, meta), self.form.media)
        if self.resource.custom:
            meta = {"continue": "", **meta}
        names = self.resource.names
        head = msgspec.json.encode(
            {"kind": names.list_kind, "apiVersion": self.resource.api_version, "metadata": meta}
        )
        bodies = self._bodies(found)
        pieces = [b",".join(some) for some in iter(lambda: tuple(islice(bodies, PIECE)), ())]
        pieces[1:] = [b"," + piece for piece in pieces[1:]]
        return Response(200, head[:-1] + b',"items":[', rest=[*pieces, b"]}"])

    def _shown_list(self, found: Iterable[Stored], meta: JSONObject) -> bytes:
        names = self.resource.names
        if self.resource.custom and not self.form.shown_as:
            meta = {"continue": "", **meta}
        if self.form.shown_as == "Table":
            rows: list[JSON] = [
                self._row(stored.data, self.decode(stored.data)) for stored in found
            ]
            return self.encode(self.resource.printer.table(rows, meta))
        objects: list[JSON] = [self.decode(stored.data) for stored in found]
        shown: JSONObject = {
            "kind": names.list_kind,
            "apiVersion": self.resource.api_version,
            "metadata": meta,
            "items": objects,
        }
        if self.form.shown_as == "PartialObjectMetadata":
            kind = "UnstructuredList" if self.resource.custom else names.list_kind
            raise self._other_shape("a list", kind)
        if self.form.shown_as:
            shown["kind"], shown["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
            shown["items"] = [
                tables.partial_metadata(obj) for obj in objects if isinstance(obj, dict)
            ]
        return self.encode(shown)

    def _bodies(self, found: Iterable[Stored]) -> Iterator[bytes]:
        if self.resource.custom:
            yield from (stored.data for stored in found)
            return
        head = self.resource.head()  # items of built-in lists carry no kind of their own
        for stored in found:
            data = stored.data
            yield b"{" + data[len(head) :] if data.startswith(head) else data

    def _row(self, data: bytes, obj: JSONObject) -> JSONObject:
        # The printer knows the stored form; the row's object is in the requested version.
        seen = obj
        if self.resource.group == "events.k8s.io":
            seen = msgspec.json.decode(data)
        row = self.resource.printer.entry(seen, self.now)
        if self.include == "None":
            row["object"] = None
        else:
            row["object"] = obj if self.include == "Object" else tables.partial_metadata(obj)
        return row

    def encode(self, value: JSON) -> bytes:
        return as_yaml(value) if self.form.media == YAML_TYPE else msgspec.json.encode(value)


def to_version(resource: Resource, obj: JSONObject) -> JSONObject:
    """A stored object as `resource`'s version shows it; the stored one may be changed."""
    if resource.revised:
        prune(resource.schema.node, obj)
        apply_defaults(resource.schema.node, obj)
    if resource.version == resource.storage_version and resource.group != "events.k8s.io":
        return obj
    if resource.group == "events.k8s.io":
        return builtin.event_from_core(obj)
    return {**obj, "apiVersion": resource.api_version}


def _meta(obj: JSONObject) -> JSONObject:
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


# -- lists -------------------------------------------------------------------------------------


class _Token(msgspec.Struct):
    """A continue token: where the next page starts, at which revision (-1: wherever we are)."""

    v: str = ""
    rv: int = 0
    start: str = ""


_BAD_CONTINUE = "invalid continue token: continue key is not valid"


def _encode_token(revision: int, place: tuple[str, str]) -> str:
    token = _Token("meta.k8s.io/v1", revision, "/".join(place))
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = text + "=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise status.bad_request(f"{_BAD_CONTINUE}: {error}") from error
    namespace, slash, name = token.start.partition("/")
    if token.v != "meta.k8s.io/v1" or not slash:
        text = f"{_BAD_CONTINUE}: server does not recognize this encoded version {token.v}"
        raise status.bad_request(text)
    return token.rv, (namespace, name)


_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class _Page:
    revision: int
    after: tuple[str, str] | None
    limit: int


def _page(request: Request, store: Store) -> _Page:
    limit = max(request.number("limit"), 0)
    text, match = request.text("resourceVersion"), request.text("resourceVersionMatch")
    if "sendInitialEvents" in request.query:
        cause = status.FieldErrors.forbidden(
            "sendInitialEvents", "sendInitialEvents is forbidden for list"
        )
        raise status.invalid("meta.k8s.io", "ListOptions", "", [cause])
    if token := request.text("continue"):
        revision, after = _decode_token(token)
        if revision > store.revision:
            raise status.bad_request("continue key is not valid: it names a version to come")
        if text not in ("", "0"):
            detail = "specifying resource version is not allowed when using continue"
            raise status.bad_request(detail)
        return _Page(store.revision if revision < 0 else revision, after, limit)
    wanted = parse_revision(text, list_of=True)
    if text == "0" and match != "Exact":
        limit = 0  # any version will do: as from the real server's cache, which does not page
    if match and not text:
        cause = status.FieldErrors.forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
        raise status.invalid("meta.k8s.io", "ListOptions", "", [cause])
    if match not in ("", "Exact", "NotOlderThan"):
        listed = ["Exact", "NotOlderThan", ""]
        cause = status.FieldErrors.not_supported("resourceVersionMatch", match, listed)
        raise status.invalid("meta.k8s.io", "ListOptions", "", [cause])
    if wanted > store.revision:
        raise too_large_revision(wanted, store.revision)
    exact = match == "Exact" or (limit > 0 and wanted > 0 and match == "")
    if match == "Exact" and wanted == 0:
        cause = status.FieldErrors.forbidden(
            "resourceVersionMatch",
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        )
        raise status.invalid("meta.k8s.io", "ListOptions", "", [cause])
    return _Page(wanted if exact else store.revision, None, limit)


def too_large_revision(wanted: int, current: int) -> StatusError:
    details: JSONObject = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError(504, "Timeout", message, details=details, headers={"Retry-After": "1"})


class Reader:
    """The read verbs."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store, self._hub = store, hub

    def get(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        stored = self._store.get(Key(resource.stored, target.namespace, target.name))
        if stored is None:
            raise status.not_found(resource.subject(target.name))
        wanted = parse_revision(request.text("resourceVersion"))
        if wanted > self._store.revision:
            raise too_large_revision(wanted, self._store.revision)
        return Response(200, renderer.object(stored.data), renderer.form.media)

    def list_objects(self, resource: Resource, target: Target, request: Request) -> Response:
        renderer = Renderer(resource, request)
        selection = select(resource, target, request)
        page = _page(request, self._store)
        try:
            found, place = self._collect(resource, selection, page)
        except CompactedError:
            raise self._expired(page) from None
        meta: JSONObject = {"resourceVersion": str(page.revision)}
        if place is not None:
            meta["continue"] = _encode_token(page.revision, place)
            if not selection.selective and selection.name is None:
                left = self._count_after(resource, selection, page.revision, place)
                meta["remainingItemCount"] = left
        return renderer.list_response(found, meta)

    def _collect(
        self, resource: Resource, selection: Selection, page: _Page
    ) -> tuple[list[Stored], tuple[str, str] | None]:
        """One page, and the last place on it when more follow."""
        found: list[Stored] = []
        last: tuple[str, str] | None = None
        objects = self._store.scan_at(
            page.revision, resource.stored, selection.namespace, after=page.after
        )
        for key, stored in objects:
            if selection.name is not None and key.name != selection.name:
                continue
            if page.limit and len(found) == page.limit:
                return found, last  # more may match; nobody looks ahead for it
            if selection.selective and not selection.matches(key, stored.data):
                continue
            found.append(stored)
            last = (key.namespace, key.name)
        return found, None

    def _count_after(
        self, resource: Resource, selection: Selection, revision: int, place: tuple[str, str]
    ) -> int:
        left = self._store.scan_at(revision, resource.stored, selection.namespace, after=place)
        return sum(1 for _ in left)

    def _expired(self, page: _Page) -> StatusError:
        if page.after is None:
            text = f"The provided resource version is too old: {page.revision}"
            return status.expired(text)
        error = status.expired(_EXPIRED)
        error.continue_token = _encode_token(-1, page.after)
        return error

    # -- watch -------------------------------------------------------------------------------

    def watch(self, resource: Resource, target: Target, request: Request) -> Stream:
        """Open a watch; what happened since its resourceVersion comes first."""
        renderer = Renderer(resource, request)
        selection = select(resource, target, request)
        initial = _initial_events(request)
        text = request.text("resourceVersion")
        since = parse_revision(text)
        watcher = Watcher(
            resource.stored,
            selection.namespace,
            selection.name,
            selection.matches if selection.selective else None,
            None if renderer.plain else renderer.event,
        )
        seconds = request.number("timeoutSeconds") or WATCH_SECONDS * random.uniform(1, 2)  # noqa: S311
        bookmarks = request.flag("allowWatchBookmarks")
        try:
            self._begin(watcher, since, initial=initial or since == 0)
        except CompactedError:
            return Stream(_once(self._too_old(since)))
        if initial and bookmarks:
            watcher.waiting.append(self._bookmark(renderer, initial_end=True))
        self._hub.add(watcher)
        bookmark = (lambda: self._bookmark(renderer, initial_end=False)) if bookmarks else None
        stream = self._hub.stream(watcher, seconds=float(seconds), bookmark=bookmark)
        close = functools.partial(self._hub.discard, watcher)
        return Stream(stream, renderer.form.media, close)

    def _begin(self, watcher: Watcher, since: int, *, initial: bool) -> None:
        """Queue what comes before the first new event: what was missed, or all there is."""
        if not initial:
            for event in self._store.events_after(since):
                watcher.offer(event, functools.partial(watch_line, event.type, event.data))
            return
        if since > self._store.revision:
            raise too_large_revision(since, self._store.revision)
        lines: list[bytes] = []
        for key, stored in self._store.scan(watcher.resource, watcher.namespace):
            if not watcher.wants(key):
                continue
            if watcher.matches is None or watcher.matches(key, stored.data):
                data = watcher.render(stored.data) if watcher.render else stored.data
                lines.append(watch_line("ADDED", data))
        watcher.waiting.append(b"".join(lines))

    def _bookmark(self, renderer: Renderer, *, initial_end: bool) -> bytes:
        resource = renderer.resource
        version, kind = resource.api_version, resource.names.kind
        if renderer.form.shown_as == "Table":
            version, kind = "meta.k8s.io/v1", "Table"
        elif renderer.form.shown_as:
            version, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
        return bookmark_line(version, kind, self._store.revision, initial_end=initial_end)

    def _too_old(self, since: int) -> bytes:
        text = f"too old resource version: {since} ({self._store.compacted})"
        return watch_line("ERROR", msgspec.json.encode(status.expired(text).body()))


def _initial_events(request: Request) -> bool:
    sent, match = "sendInitialEvents" in request.query, request.text("resourceVersionMatch")
    name = "resourceVersionMatch"
    causes: list[Cause] = []
    if match and not sent:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(status.FieldErrors.forbidden(name, text))
    if sent and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(status.FieldErrors.forbidden(name, text))
        if match:
            causes.append(status.FieldErrors.not_supported(name, match, ["NotOlderThan"]))
    if causes:
        raise status.invalid("meta.k8s.io", "ListOptions", "", causes)
    return request.flag("sendInitialEvents")


async def _once(line: bytes) -> AsyncIterator[bytes]:
    yield line
