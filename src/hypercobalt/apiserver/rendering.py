"""Objects in the form that a client requests: plain, as a Table, as metadata only; in JSON or YAML.

What is wanted as it is stored is sent as it is stored, without being decoded.

Source: API concepts, "Alternate representations of resources" and "Receiving resources as Tables".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import yaml

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, JSONObject, StatusError
from hypercobalt.apiserver.kinds import tables
from hypercobalt.apiserver.kinds.versions import in_version, to_version
from hypercobalt.apiserver.requests.bodies import JSON_TYPE, YAML_TYPE
from hypercobalt.apiserver.requests.request import PIECE, Call, Request, Response
from hypercobalt.apiserver.storage.objects import Stored
from hypercobalt.apiserver.values import text_at

META_VERSION = "meta.k8s.io/v1"
_END = b"]}"


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
    raise errors.not_acceptable([JSON_TYPE, YAML_TYPE])


class Renderer:
    """Shows stored objects in the form and version that a call accepts.

    Raises:
        StatusError: 406 or 400 when the form cannot be given.
    """

    def __init__(self, call: Call) -> None:
        self.resource, self._now = call.resource, call.now
        form = accepted(call.request)
        self.media, self.shown_as = form.media, form.shown_as
        self._printer = call.resource.printer
        self._include = call.request.text("includeObject") or "Metadata"
        if self.shown_as == "Table" and self._include not in ("None", "Metadata", "Object"):
            shown = f"includeObject: Invalid value: {errors.quote(self._include)}"
            text = f"{shown}: must be 'Metadata', 'Object', 'None', or empty"
            raise errors.bad_request(f"Unable to convert to Table as requested: {text}")
        self._columns = True  # a watch sends them once

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent, once they conform to the schema."""
        as_stored = self.resource.version == self.resource.storage_version
        return as_stored and not (self.shown_as or self.media == YAML_TYPE)

    def encode(self, value: JSON) -> bytes:
        if self.media == YAML_TYPE:
            return yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()
        return msgspec.json.encode(value)

    def response(self, value: JSON, code: int = 200) -> Response:
        return Response(code, self.encode(value), self.media)

    def object(self, data: bytes, *, remember: bool = True) -> bytes:
        """Return an object in the accepted form; `remember=False` is for one that may be gone."""
        conformed = self.resource.conformed(data, remember=remember)
        if self.plain:
            return conformed
        obj = in_version(self.resource, conformed)
        match self.shown_as:
            case "Table":
                version = text_at(obj, "metadata", "resourceVersion")
                meta: JSONObject = {"resourceVersion": version} if version else {}
                table = self._printer.table([self._row(data, obj)], meta)
                if not self._columns:
                    table["columnDefinitions"] = None
                return self.encode(table)
            case "PartialObjectMetadataList":
                raise self._other_shape("not a list", self.resource.names.kind)
            case "PartialObjectMetadata":
                return self.encode(tables.partial_metadata(obj))
            case _:
                return self.encode(obj)

    def initial(self, data: bytes) -> bytes:
        """One object that a watch begins with."""
        return self._watched(data, remember=True)

    def event(self, data: bytes) -> bytes:
        """One object of a watch, which may be gone."""
        return self._watched(data, remember=False)

    def _watched(self, data: bytes, *, remember: bool) -> bytes:
        shown = self.object(data, remember=remember)
        self._columns = False
        return shown

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """An object that carries only the revision a watch has reached."""
        meta: JSONObject = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, version = self.resource.names.kind, self.resource.api_version
        if self.shown_as:
            kind = "Table" if self.shown_as == "Table" else "PartialObjectMetadata"
            version = META_VERSION
        return msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": meta})

    def list_response(self, listed: Iterable[Stored], meta: JSONObject) -> Response:
        """A list, in any form; plain ones in pieces, because they may be long."""
        names = self.resource.names
        if self.shown_as == "Table":
            rows: list[JSON] = [self._row(s.data, self._decode(s.data)) for s in listed]
            return self.response(self._printer.table(rows, meta))
        if self.shown_as == "PartialObjectMetadata":
            kind = "UnstructuredList" if self.resource.custom else names.list_kind
            raise self._other_shape("a list", kind)
        if self.shown_as:
            parts: list[JSON] = [tables.partial_metadata(self._decode(s.data)) for s in listed]
            return self.response(_list("PartialObjectMetadataList", META_VERSION, meta, parts))
        if self.resource.custom:
            meta = {"continue": "", **meta}
        if not self.plain:
            objects: list[JSON] = [self._decode(stored.data) for stored in listed]
            return self.response(_list(names.list_kind, self.resource.api_version, meta, objects))
        whole = _list(names.list_kind, self.resource.api_version, meta, [])
        head = msgspec.json.encode(whole).removesuffix(b"]}")
        items = [self.resource.conformed(stored.data) for stored in listed]
        size = sum(map(len, items)) + max(len(items) - 1, 0) + len(_END)
        if self.resource.custom:
            return Response(200, head, rest=_pieces(items), rest_size=size)
        own = self.resource.head()  # items of built-in lists carry no kind of their own
        size -= (len(own) - 1) * sum(item.startswith(own) for item in items)
        return Response(200, head, rest=_pieces(items, own), rest_size=size)

    def _decode(self, data: bytes) -> JSONObject:
        return to_version(self.resource, data)

    def _row(self, data: bytes, obj: JSONObject) -> JSONObject:
        # The printer has the stored form; the row's object is in the requested version.
        stored = msgspec.json.decode(data) if self.resource.group == "events.k8s.io" else obj
        shown = {"None": None, "Object": obj, "Metadata": tables.partial_metadata(obj)}
        row = self._printer.entry(stored, self._now)
        return {**row, "object": shown[self._include]}

    def _other_shape(self, what: str, kind: str) -> StatusError:
        group = self.resource.group.partition(".")[0] or "core"
        held = f"unstructured.{kind}" if self.resource.custom else f"{group}.{kind}"
        text = f"you requested {self.shown_as}, but the requested object is {what} (*{held})"
        return StatusError(406, "NotAcceptable", text)


def _pieces(items: Iterable[bytes], kind: bytes = b"") -> Iterator[bytes]:
    """The rest of a list, made as it is sent; `kind` is left out where an item begins so."""
    made, size, comma = list[bytes](), 0, b""
    for item in items:
        made += (comma, b"{" + item[len(kind) :] if kind and item.startswith(kind) else item)
        size, comma = size + len(item), b","
        if size >= PIECE:
            yield b"".join(made)
            made, size = [], 0
    yield b"".join((*made, _END))


def _list(kind: str, version: str, meta: JSONObject, items: list[JSON]) -> JSONObject:
    return {"kind": kind, "apiVersion": version, "metadata": meta, "items": items}


def error_response(error: StatusError) -> Response:
    return Response(error.code, msgspec.json.encode(error.body()), headers=error.headers)
