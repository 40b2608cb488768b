"""Request bodies in protobuf, as stock kubectl's typed clients send them, read as JSON values.

A body is four magic bytes and a runtime.Unknown, which holds the type and the bytes of an object.
What comes out is what a Go client would have sent as JSON, so that nothing behind this module sees
the difference. The messages were extracted from the Kubernetes modules (scripts/extract-protobuf).

Nothing a body holds raises more than a 400, and what it takes to read is bounded by its length:
nested messages are read in place, each byte at most once for each level.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go and the Marshal functions of its
special types.
"""

from __future__ import annotations

import base64
import functools
import gzip
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import NamedTuple, cast

import msgspec

from hypercobalt.apiserver.errors import JSON, JSONObject, bad_request
from hypercobalt.apiserver.wire.records import (
    BYTES,
    FIXED64,
    VARINT,
    WireField,
    malformed,
    records,
    varint,
)

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 100  # messages in messages; a schema of a CRD takes one for each of its levels

_WIRE_TYPES = {"int32": VARINT, "int64": VARINT, "bool": VARINT, "double": FIXED64}
_EXACT = 2**53  # whole doubles up to here are written without a fraction, as Go writes them

_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_UNKNOWN = "io.k8s.apimachinery.pkg.runtime.Unknown"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE = -62135596800  # Go's zero time


class Field(NamedTuple):
    """One field of a message; the script that writes the data explains the forms."""

    name: str  # in JSON; empty for the one that its message is written as
    type: str
    form: str


class Library(msgspec.Struct, frozen=True):
    """The messages of the built-in kinds."""

    kinds: dict[str, str]  # apiVersion/kind: message
    messages: dict[str, dict[int, Field]]


@functools.cache
def library() -> Library:
    """Return the messages, read at the first body that needs them."""
    path = resources.files("hypercobalt.apiserver.kinds") / "openapi" / "protobuf.json.gz"
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Library)


def decode(data: bytes) -> JSONObject:
    """The object that a protobuf body holds.

    Raises:
        StatusError: 400 for anything but a well-formed object of a built-in kind.
    """
    if not data.startswith(MAGIC):
        raise malformed("it does not start with k8s\\x00")
    known = library()
    unknown = _Reader(data, known).object(_UNKNOWN, len(MAGIC))
    if unknown.get("contentEncoding") or unknown.get("contentType") not in (None, "", MEDIA_TYPE):
        raise malformed("what it wraps is encoded in another way")
    version, kind = str(unknown.get("apiVersion", "")), str(unknown.get("kind", ""))
    name = known.kinds.get(f"{version}/{kind}")
    if kind == "DeleteOptions":  # a kind of every group
        name = f"{_META}{kind}"
    if name is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in protobuf')
    raw = base64.b64decode(str(unknown.get("raw", "")))
    return {"apiVersion": version, "kind": kind, **_Reader(raw, known).object(name)}


class _Reader:
    """Reads messages within one body; spans are offsets into it."""

    def __init__(self, data: bytes, known: Library) -> None:
        self._data, self._messages = data, known.messages

    def object(self, name: str, start: int = 0) -> JSONObject:
        return cast(JSONObject, self.message(name, start, len(self._data), 1))

    def message(self, name: str, start: int, end: int, depth: int) -> JSON:
        """Read a message. If a field occurs twice, the last one counts."""
        if depth > MAX_DEPTH:
            raise malformed(f"it nests deeper than {MAX_DEPTH} messages")
        fields = self._messages[name]
        obj: JSONObject = {}
        for record in records(self._data, start, end):
            field = fields.get(record.number)
            if field is not None:
                self._put(obj, field, record, depth)
        first = fields.get(1)
        if first is not None and not first.name and first.form != "inline":
            return obj.get("", [] if first.form == "repeated" else None)
        special = _SPECIAL.get(name)
        return special(obj) if special else obj

    def _put(self, obj: JSONObject, field: Field, record: WireField, depth: int) -> None:
        if field.form == "repeated":
            cast(list[JSON], obj.setdefault(field.name, [])).extend(
                self._items(field.type, record, depth)
            )
            return
        if field.form == "map":
            key, value = self._entry(field.type, record, depth)
            cast(JSONObject, obj.setdefault(field.name, {}))[key] = value
            return
        value = self.value(field.type, record, depth)
        if field.form == "inline":
            obj.update(cast(JSONObject, value))
        elif _omitted(field, value):
            obj.pop(field.name, None)
        else:
            obj[field.name] = value

    def _items(self, of: str, record: WireField, depth: int) -> Iterator[JSON]:
        """Yield the items of one record: several where numbers are packed."""
        if record.wire_type != BYTES or of not in _WIRE_TYPES:
            yield self.value(of, record, depth)
            return
        if _WIRE_TYPES[of] != VARINT:
            raise malformed(f"wrong wire type for {of}")
        at = record.start
        while at < record.end:
            number, at = varint(self._data, at, record.end)
            yield _whole(of, number)

    def _entry(self, of: str, record: WireField, depth: int) -> tuple[str, JSON]:
        """Read an entry of a map; what it does not name is empty."""
        if record.wire_type != BYTES:
            raise malformed("wrong wire type for a map")
        nothing = WireField(0, BYTES, record.end, record.end)
        parts = {r.number: r for r in records(self._data, record.start, record.end)}
        key = self.value("string", parts.get(1, nothing), depth)
        return str(key), self.value(of, parts.get(2, nothing), depth)

    def value(self, of: str, record: WireField, depth: int) -> JSON:
        """Read one value of the type `of`: a scalar or a message."""
        if record.wire_type != _WIRE_TYPES.get(of, BYTES):
            raise malformed(f"wrong wire type {record.wire_type} for {of}")
        if record.wire_type == VARINT:
            return _whole(of, varint(self._data, record.start, record.end)[0])
        if "." in of:
            return self.message(of, record.start, record.end, depth + 1)
        return _SCALARS[of](self._data[record.start : record.end])


def _omitted(field: Field, value: JSON) -> bool:
    """Whether Go leaves the value out of JSON; omitempty does not see into messages."""
    if value is None or field.form == "omitzero":
        return not value
    return field.form == "omitempty" and "." not in field.type and not value


# -- scalars -----------------------------------------------------------------------------------


def _whole(of: str, bits: int) -> JSON:
    """A varint as a bool or a signed number; more bits than int32 has are cut off, as in Go."""
    if of == "bool":
        return bits != 0
    sign = 1 << (31 if of == "int32" else 63)
    return (bits & (sign - 1)) - (bits & sign)


def _double(data: bytes) -> JSON:
    value: float = struct.unpack("<d", data)[0]
    if not math.isfinite(value):
        raise malformed("a number is not finite")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _string(data: bytes) -> JSON:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise malformed("a string is not UTF-8") from error


def _json(data: bytes) -> JSON:
    try:
        value: JSON = msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed(f"JSON in it: {error}") from error
    return value


_SCALARS: dict[str, Callable[[bytes], JSON]] = {
    "string": _string,
    "bytes": lambda data: base64.b64encode(data).decode(),
    "double": _double,
    "json": _json,
}


# -- messages with a JSON form of their own ----------------------------------------------------


def _time(obj: JSONObject, *, micro: bool = False) -> JSON:
    seconds, nanos = cast(int, obj.get("seconds", 0)), cast(int, obj.get("nanos", 0))
    if not obj or (seconds == _YEAR_ONE and not nanos):
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000 if micro else 0)
    except OverflowError as error:
        raise malformed("a time is out of range") from error
    shown = moment.isoformat(timespec="microseconds" if micro else "seconds")
    return shown.removesuffix("+00:00") + "Z"


def _int_or_string(obj: JSONObject) -> JSON:
    which = obj.get("type", 0)
    if which not in (0, 1):
        raise malformed("impossible IntOrString.Type")
    return obj.get("strVal", "") if which else obj.get("intVal", 0)


_SPECIAL: dict[str, Callable[[JSONObject], JSON]] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": functools.partial(_time, micro=True),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_APIEXTENSIONS}JSONSchemaPropsOrArray": lambda o: o.get("jSONSchemas", o.get("schema")),
    f"{_APIEXTENSIONS}JSONSchemaPropsOrStringArray": lambda o: o.get("property", o.get("schema")),
    f"{_APIEXTENSIONS}JSONSchemaPropsOrBool": lambda o: o.get("schema", o.get("allows", False)),
}
