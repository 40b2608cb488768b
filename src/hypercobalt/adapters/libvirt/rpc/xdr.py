"""XDR: typed structs to bytes and back.

A struct is a NamedTuple whose annotations define how each field is written: the integers and the
UUID below, `str`, `bytes`, another struct, `X | None` (optional) and `tuple[X, ...]` (array). What
arrives is read without trust: a length is compared with what is left before anything is made of it.

Source: RFC 4506; `typedef`s and `remote_typed_param` in libvirt's src/remote/remote_protocol.x.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from hypercobalt.adapters.libvirt.rpc.errors import XdrError

T = TypeVar("T")
S = TypeVar("S", bound=tuple[Any, ...])  # a NamedTuple

_MAX_STRING: Final = 4 * 1024 * 1024  # REMOTE_STRING_MAX
_WORD: Final = 4


class Reader:
    """Bytes of a message, and how far they were read."""

    __slots__ = ("_at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self._at

    def step(self, count: int) -> int:
        """Step over some bytes, and return where they begin in `data`."""
        at = self._at
        if at + count > len(self.data):
            raise XdrError(f"{count} bytes announced, {self.left} left")
        self._at = at + count
        return at

    def opaque(self, count: int) -> bytes:
        """Return bytes, and step over those that fill their last word."""
        at = self.step(count + -count % _WORD)
        return self.data[at : at + count]


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How values of one type are written and read."""

    write: Callable[[bytearray, T], None]
    read: Callable[[Reader], T]

    def encode(self, value: T) -> bytes:
        """The bytes of a value.

        Raises:
            XdrError: the value does not fit its type on the wire.
        """
        out = bytearray()
        try:
            self.write(out, value)
        except struct.error as exc:
            raise XdrError(f"a number that does not fit: {exc}") from exc
        return bytes(out)

    def decode(self, data: bytes) -> T:
        """The value that these bytes are, all of them.

        Raises:
            XdrError: they are no such value.
        """
        reader = Reader(data)
        value = self.read(reader)
        if reader.left:
            raise XdrError(f"{reader.left} bytes too many")
        return value


def _number(form: str) -> Codec[int]:
    packer = struct.Struct(form)
    pack, unpack_from, size = packer.pack, packer.unpack_from, packer.size

    def read(reader: Reader) -> int:
        number: int = unpack_from(reader.data, reader.step(size))[0]
        return number

    return Codec(lambda out, value: out.extend(pack(value)), read)


_INT, _UINT, _HYPER, _UHYPER = map(_number, (">i", ">I", ">q", ">Q"))
_DOUBLE: Final = struct.Struct(">d")


def _write_opaque(out: bytearray, value: bytes) -> None:
    _UINT.write(out, len(value))
    out.extend(value)
    out.extend(bytes(-len(value) % _WORD))


def _read_opaque(reader: Reader) -> bytes:
    count = _UINT.read(reader)
    if count > _MAX_STRING:
        raise XdrError(f"{count} bytes of text, more than {_MAX_STRING}")
    return reader.opaque(count)


def _write_text(out: bytearray, value: str) -> None:
    _write_opaque(out, value.encode(errors="surrogateescape"))


def _read_text(reader: Reader) -> str:
    # Names and documents come from tenants: bytes that are no UTF-8 go through as they are.
    return _read_opaque(reader).decode(errors="surrogateescape")


def fixed(size: int) -> Codec[bytes]:
    """Bytes of a number that both sides have agreed on."""

    def write(out: bytearray, value: bytes) -> None:
        if len(value) != size:
            raise XdrError(f"{len(value)} bytes instead of {size}")
        out.extend(value)
        out.extend(bytes(-size % _WORD))

    return Codec(write, lambda reader: reader.opaque(size))


_TEXT: Final = Codec(_write_text, _read_text)
_OPAQUE: Final = Codec(_write_opaque, _read_opaque)

Value = int | float | bool | str
_K_INT, _K_UINT, _K_LLONG, _K_ULLONG, _K_DOUBLE, _K_BOOLEAN, _K_STRING = range(1, 8)


def _write_value(out: bytearray, value: Value) -> None:
    if isinstance(value, bool):
        _INT.write(out, _K_BOOLEAN)
        _INT.write(out, value)
    elif isinstance(value, int):
        _INT.write(out, _K_ULLONG if value >= 0 else _K_LLONG)
        (_UHYPER if value >= 0 else _HYPER).write(out, value)
    elif isinstance(value, float):
        _INT.write(out, _K_DOUBLE)
        out.extend(_DOUBLE.pack(value))
    else:
        _INT.write(out, _K_STRING)
        _TEXT.write(out, value)


def _read_double(reader: Reader) -> float:
    number: float = _DOUBLE.unpack_from(reader.data, reader.step(_DOUBLE.size))[0]
    return number


_VALUES: Final[dict[int, Callable[[Reader], Value]]] = {
    _K_INT: _INT.read,
    _K_UINT: _UINT.read,
    _K_LLONG: _HYPER.read,
    _K_ULLONG: _UHYPER.read,
    _K_DOUBLE: _read_double,
    _K_BOOLEAN: lambda reader: bool(_INT.read(reader)),
    _K_STRING: _TEXT.read,
}


def _read_value(reader: Reader) -> Value:
    kind = _INT.read(reader)
    if kind not in _VALUES:
        raise XdrError(f"a typed parameter of the unknown type {kind}")
    return _VALUES[kind](reader)


Int = Annotated[int, _INT]
UInt = Annotated[int, _UINT]
Hyper = Annotated[int, _HYPER]
UHyper = Annotated[int, _UHYPER]
Uuid = Annotated[bytes, fixed(16)]
TypedValue = Annotated[Value, Codec(_write_value, _read_value)]


class TypedParameter(NamedTuple):
    """remote_typed_param. A whole number is sent as `ullong`, a negative one as `llong`."""

    field: str
    value: TypedValue


def codec(of: type[S]) -> Codec[S]:
    """The codec of a struct, by its annotations; made once.

    Raises:
        TypeError: a field has a type that is none of XDR's.
    """
    return _made(of)


@cache
def _made(of: type[tuple[Any, ...]]) -> Codec[Any]:
    fields = {name: _of(hint) for name, hint in hints_of(of, include_extras=True).items()}
    names, codecs = tuple(fields), tuple(fields.values())
    reads = [one.read for one in codecs]
    make = cast("Callable[..., object]", of)

    def write(out: bytearray, value: tuple[Any, ...]) -> None:
        for one, part in zip(codecs, value, strict=True):
            one.write(out, part)

    def read(reader: Reader) -> object:
        found: list[object] = []
        try:
            for take in reads:
                found.append(take(reader))  # noqa: PERF401 - on an error its length is the index of the field
        except XdrError as exc:
            raise XdrError(f"{of.__name__}.{names[len(found)]}: {exc}") from exc
        return make(*found)

    return Codec(write, read)


def _of(hint: object) -> Codec[Any]:
    """The codec of a field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return cast("Codec[Any]", arguments[1])
    if hint is str:
        return _TEXT
    if hint is bytes:
        return _OPAQUE
    if origin is tuple:
        return _array(_of(arguments[0]))
    if NoneType in arguments:
        return _optional(_of(arguments[0]))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _made(cast("type[tuple[object, ...]]", hint))
    raise TypeError(f"{hint!r} is no type of XDR")


def _array(item: Codec[T]) -> Codec[tuple[T, ...]]:
    def write(out: bytearray, values: tuple[T, ...]) -> None:
        _UINT.write(out, len(values))
        for value in values:
            item.write(out, value)

    def read(reader: Reader) -> tuple[T, ...]:
        count = _UINT.read(reader)
        if count * _WORD > reader.left:  # each takes a word at least
            raise XdrError(f"{count} elements announced, {reader.left} bytes left")
        return tuple(item.read(reader) for _ in range(count))

    return Codec(write, read)


def _optional(item: Codec[T]) -> Codec[T | None]:
    def write(out: bytearray, value: T | None) -> None:
        _INT.write(out, value is not None)
        if value is not None:
            item.write(out, value)

    def read(reader: Reader) -> T | None:
        return item.read(reader) if _INT.read(reader) else None

    return Codec(write, read)
