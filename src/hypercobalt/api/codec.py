"""JSON to typed objects and back.

Decoding is lenient: unknown fields are skipped, and what only the schema forbids is let through.
Encoding fills in `apiVersion` and `kind`, writes `metav1.Time` without a fraction and `MicroTime`
with exactly six digits, whatever the fraction of the `datetime` at hand.

Measured: `benchmarks/`, decode.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar, cast

import msgspec

from hypercobalt.api.meta import Object, Struct
from hypercobalt.api.nesting import read
from hypercobalt.api.quantity import Quantity, from_wire
from hypercobalt.api.times import MicroTime, TimeError, format_micro_time, format_time
from hypercobalt.api.times import parse_micro_time as _parse_micro_time
from hypercobalt.errors import HypercobaltError

T = TypeVar("T")


class DecodeError(HypercobaltError):
    """Data that does not have the shape of its type; the message names object and field path."""


class EncodeError(HypercobaltError):
    """An object that cannot be written; the message names object and value."""


class _Head(msgspec.Struct):
    """As much of an object as an error message needs."""

    class Meta(msgspec.Struct):
        namespace: str = ""
        name: str = ""

    kind: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)


_head = msgspec.json.Decoder(_Head)
_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[object]] = {}


def decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder for a type, made once. It raises msgspec's errors; `decode` raises ours."""
    found = _decoders.get(type_)
    if found is None:
        found = cast(
            "msgspec.json.Decoder[object]", msgspec.json.Decoder(type_, dec_hook=_decode_custom)
        )
        _decoders[type_] = found
    return cast("msgspec.json.Decoder[T]", found)


def decode(data: bytes | msgspec.Raw, type_: type[T]) -> T:
    """Read one JSON document as `type_`.

    Raises:
        DecodeError: not JSON, or not of that shape.
    """
    try:
        return read(decoder(type_).decode, bytes(data))
    except msgspec.DecodeError as exc:
        raise DecodeError(f"{_describe(data, type_)}: {exc}") from exc


def encode(obj: Struct) -> bytes:
    """Write an object as JSON.

    Raises:
        EncodeError: a time without zone, or a value that JSON does not have.
    """
    return _encoder.encode(to_builtins(obj))


def to_builtins(obj: Struct) -> dict[str, object]:
    """Write an object as the dicts, lists and scalars of JSON.

    Raises:
        EncodeError: a time without zone, or a value that JSON does not have.
    """
    try:
        loose = msgspec.to_builtins(obj, builtin_types=(datetime,), enc_hook=_encode_custom)
        tree = cast("dict[str, object]", _wire(loose))
    except (TimeError, TypeError, OverflowError) as exc:
        raise EncodeError(f"{_object_name(obj)}: {exc}") from exc
    if isinstance(obj, Object):
        head = {"apiVersion": obj.resource.api_version, "kind": obj.resource.kind}
        return head | tree
    return tree


def _decode_custom(type_: type, value: object) -> object:
    if type_ is Quantity:
        if type(value) is str:  # nearly always; a call of cast would take as long as the rest
            return from_wire(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return from_wire(value)
        raise ValueError(f"Expected a quantity, got `{type(value).__name__}`")
    if type_ is MicroTime:
        if isinstance(value, str):
            return _parse_micro_time(value)
        raise ValueError(f"Expected a time, got `{type(value).__name__}`")
    raise NotImplementedError(f"no decoder for {type_!r}")


def _encode_custom(value: object) -> object:
    if isinstance(value, Quantity):
        return value.wire
    if isinstance(value, MicroTime):
        return format_micro_time(value)
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def _wire(value: object) -> object:
    """`value` with lists for tuples and text for times.

    msgspec would write the fraction that it finds, and a `metav1.Time` must not have one.
    """
    if isinstance(value, dict):
        return {key: _wire(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, (tuple, list)):
        return [_wire(item) for item in cast("tuple[object, ...]", value)]
    return format_time(value) if isinstance(value, datetime) else value


def _describe(data: bytes | msgspec.Raw, type_: type) -> str:
    """`Kind namespace/name`, as far as the document itself has them."""
    try:
        head = read(_head.decode, bytes(data))
    except msgspec.DecodeError:
        return _type_name(type_)
    name = f"{head.metadata.namespace}/{head.metadata.name}".strip("/")
    return f"{head.kind or _type_name(type_)} {name}".strip()


def _object_name(obj: Struct) -> str:
    name = type(obj).__name__
    if isinstance(obj, Object):
        return f"{name} {obj.metadata.namespace}/{obj.metadata.name}".replace(" /", " ")
    return name


def _type_name(type_: type) -> str:
    return getattr(type_, "__name__", str(type_))
