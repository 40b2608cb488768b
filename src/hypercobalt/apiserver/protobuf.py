"""Request bodies in protobuf, as stock kubectl's typed clients send them, read as JSON values.

A body is four magic bytes and a runtime.Unknown, which holds the type and the bytes of an object.
What comes out is what a Go client would have sent as JSON, so that nothing behind this module knows
the difference. The messages were extracted from the Kubernetes modules (scripts/extract-protobuf).

Nothing a body holds raises more than a 400, and what it takes to read is bounded by its length:
nested messages are read in place, each byte at most once for each level.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go and the Marshal functions of its
special types; protobuf.dev/programming-guides/encoding.
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

from hypercobalt.apiserver.status import JSON, JSONObject, StatusError, bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_DEPTH = 100  # messages in messages; a schema of a CRD takes one for each of its levels

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types; 3 and 4 are groups
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES = {"int32": _VARINT, "int64": _VARINT, "bool": _VARINT, "double": _FIXED64}
_VARINT_LENGTH = 10  # bytes, at most
_64_BITS = 2**64 - 1
_EXACT = 2**53  # whole doubles up to here are written without a fraction, as Go writes them

_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_UNKNOWN = "io.k8s.apimachinery.pkg.runtime.Unknown"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_ONE = -62135596800  # Go's zero time


class Field(NamedTuple):
    """One field of a message; the script says what the forms are."""

    name: str  # in JSON; empty for the one that its message is written as
    type: str
    form: str


class Library(msgspec.Struct, frozen=True):
    """The messages of the built-in kinds."""

    kinds: dict[str, str]  # apiVersion/kind: message
    messages: dict[str, dict[int, Field]]


class _Record(NamedTuple):
    """One field on the wire: its bytes, without tag and length."""

    number: int
    wire_type: int
    start: int
    end: int


@functools.cache
def library() -> Library:
    """Return the messages, read at the first body that needs them."""
    path = resources.files("hypercobalt.apiserver") / "openapi" / "protobuf.json.gz"
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Library)


def decode(data: bytes) -> JSONObject:
    """The object that a protobuf body holds.

    Raises:
        StatusError: 400 for anything but a well-formed object of a built-in kind.
    """
    if not data.startswith(MAGIC):
        raise _malformed("it does not start with k8s\\x00")
    known = library()
    unknown = _Reader(data, known).object(_UNKNOWN, len(MAGIC))
    if unknown.get("contentEncoding") or unknown.get("contentType") not in (None, "", MEDIA_TYPE):
        raise _malformed("what it wraps is encoded in another way")
    version, kind = str(unknown.get("apiVersion", "")), str(unknown.get("kind", ""))
    name = known.kinds.get(f"{version}/{kind}")
    if kind == "DeleteOptions":  # a kind of every group
        name = f"{_META}{kind}"
    if name is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in protobuf')
    raw = base64.b64decode(str(unknown.get("raw", "")))
    return {"apiVersion": version, "kind": kind, **_Reader(raw, known).object(name)}


def _malformed(why: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type protobuf): {why}")


class _Reader:
    """Reads messages within one body; spans are offsets into it."""

    def __init__(self, data: bytes, known: Library) -> None:
        self._data, self._messages = data, known.messages

    def object(self, name: str, start: int = 0) -> JSONObject:
        return cast(JSONObject, self.message(name, start, len(self._data), 1))

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return the number at `at`, as 64 bits, and the offset behind it."""
        value = shift = 0
        for byte in self._data[at : min(end, at + _VARINT_LENGTH)]:
            at += 1
            value |= (byte & 0x7F) << shift
            if byte == byte & 0x7F:
                return value & _64_BITS, at
            shift += 7
        raise _malformed("unexpected EOF" if at == end else "integer overflow")

    def records(self, at: int, end: int) -> Iterator[_Record]:
        while at < end:
            tag, at = self.varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            if number == 0:
                raise _malformed("illegal field number 0")
            start = at
            if wire_type == _VARINT:
                _, at = self.varint(at, end)
            elif wire_type == _BYTES:
                length, start = self.varint(at, end)
                at = start + length
            elif wire_type in _WIDTHS:
                at += _WIDTHS[wire_type]
            else:
                raise _malformed(f"illegal wire type {wire_type}")
            if at > end:
                raise _malformed("unexpected EOF")
            yield _Record(number, wire_type, start, at)

    def message(self, name: str, start: int, end: int, depth: int) -> JSON:
        """Read a message. Of a field that stands there twice, the last one counts."""
        if depth > MAX_DEPTH:
            raise _malformed(f"it nests deeper than {MAX_DEPTH} messages")
        fields = self._messages[name]
        obj: JSONObject = {}
        for record in self.records(start, end):
            field = fields.get(record.number)
            if field is not None:
                self._put(obj, field, record, depth)
        first = fields.get(1)
        if first is not None and not first.name and first.form != "inline":
            return obj.get("", [] if first.form == "repeated" else None)
        special = _SPECIAL.get(name)
        return special(obj) if special else obj

    def _put(self, obj: JSONObject, field: Field, record: _Record, depth: int) -> None:
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
        elif value is None or _omitted(field.form, value):
            obj.pop(field.name, None)
        else:
            obj[field.name] = value

    def _items(self, of: str, record: _Record, depth: int) -> Iterator[JSON]:
        """Yield the items of one record: several where numbers are packed."""
        if record.wire_type != _BYTES or of not in _WIRE_TYPES:
            yield self.value(of, record, depth)
            return
        if _WIRE_TYPES[of] != _VARINT:
            raise _malformed(f"wrong wire type for {of}")
        at = record.start
        while at < record.end:
            number, at = self.varint(at, record.end)
            yield _whole(of, number)

    def _entry(self, of: str, record: _Record, depth: int) -> tuple[str, JSON]:
        """Read an entry of a map; what it does not name is empty."""
        if record.wire_type != _BYTES:
            raise _malformed("wrong wire type for a map")
        nothing = _Record(0, _BYTES, record.end, record.end)
        parts = {r.number: r for r in self.records(record.start, record.end)}
        key = self.value("string", parts.get(1, nothing), depth)
        return str(key), self.value(of, parts.get(2, nothing), depth)

    def value(self, of: str, record: _Record, depth: int) -> JSON:
        """Read one value of the type `of`: a scalar or a message."""
        if record.wire_type != _WIRE_TYPES.get(of, _BYTES):
            raise _malformed(f"wrong wire type {record.wire_type} for {of}")
        if record.wire_type == _VARINT:
            return _whole(of, self.varint(record.start, record.end)[0])
        if "." in of:
            return self.message(of, record.start, record.end, depth + 1)
        return _SCALARS[of](self._data[record.start : record.end])


def _omitted(form: str, value: JSON) -> bool:
    """Whether Go leaves the value out of JSON; omitempty does not see into structs."""
    empty = not value
    return empty and (form == "omitzero" or (form == "omitempty" and not isinstance(value, dict)))


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
        raise _malformed("a number is not finite")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _string(data: bytes) -> JSON:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _malformed("a string is not UTF-8") from error


def _json(data: bytes) -> JSON:
    try:
        value: JSON = msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _malformed(f"JSON in it: {error}") from error
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
        raise _malformed("a time is out of range") from error
    shown = moment.isoformat(timespec="microseconds" if micro else "seconds")
    return shown.removesuffix("+00:00") + "Z"


def _int_or_string(obj: JSONObject) -> JSON:
    which = obj.get("type", 0)
    if which not in (0, 1):
        raise _malformed("impossible IntOrString.Type")
    return obj.get("strVal", "") if which else obj.get("intVal", 0)


_SPECIAL: dict[str, Callable[[JSONObject], JSON]] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": functools.partial(_time, micro=True),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_APIEXTENSIONS}JSONSchemaPropsOrArray": lambda o: o.get("jSONSchemas", o.get("schema")),
    f"{_APIEXTENSIONS}JSONSchemaPropsOrStringArray": lambda o: o.get("property", o.get("schema")),
    f"{_APIEXTENSIONS}JSONSchemaPropsOrBool": lambda o: o.get("schema", o.get("allows", False)),
}
