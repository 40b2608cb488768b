"""From the bytes of a watch to typed events.

Each line is a frame of type and object; the object is decoded once, into its type. An object that
does not fit its type becomes an event without object, so that one bad object stops no other.

Source: Kubernetes API concepts, "Efficient detection of changes"; meta/v1 WatchEvent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar, cast

import msgspec

from hypercobalt.api.codec import decoder
from hypercobalt.api.meta import Object
from hypercobalt.api.nesting import read
from hypercobalt.runtime.client.errors import Status, WatchClosedError, from_status

T = TypeVar("T", bound=Object)
_MAX_LINE_BYTES = 16 * 2**20  # ten times the largest object that etcd takes


class Change(StrEnum):
    """Types of events of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change.

    Args:
        object: as it is after the change, or was before its deletion; None for a bookmark and for
            an object that cannot be read as its type.
        key: `namespace/name` or `name`; empty for a bookmark.
        resource_version: to resume after this event.
        problem: why there is no object, if it cannot be read.
    """

    change: Change
    key: str
    resource_version: str
    object: T | None = None
    problem: str = ""


class ReadObject(NamedTuple, Generic[T]):
    """An object, or the problem of one that does not fit its type."""

    key: str
    resource_version: str
    object: T | None
    problem: str


class _Frame(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Typed(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A frame whose object fits its type, as nearly all do."""

    type: Change
    object: T


class _HeadMeta(msgspec.Struct, frozen=True):
    """The metadata that every object has, for objects that cannot be decoded."""

    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - wire name


class _Head(msgspec.Struct, frozen=True):
    """An object of which only the key and the version are read."""

    metadata: _HeadMeta = _HeadMeta()


_frame_decoder = msgspec.json.Decoder(_Frame)
_head_decoder = msgspec.json.Decoder(_Head)


def join_key(namespace: str, name: str) -> str:
    """The key of an object: `namespace/name`, or `name` when it has no namespace."""
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str | None, str]:
    """Namespace (None for a cluster-scoped object) and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace or None, name


def key_of(obj: Object) -> str:
    """The key of an object."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


async def read_events(
    chunks: AsyncIterator[bytes], type_: type[T], about: str
) -> AsyncIterator[WatchEvent[T]]:
    """Decode a watch's chunks.

    Raises:
        ApiError: the server ended the watch with a Status, `GoneError` for a version too old.
        WatchClosedError: it sent something that is no frame.
    """
    typed = decoder(cast("type[_Typed[T]]", _Typed[type_]))  # type: ignore[valid-type]
    async for lines in _lines(chunks, about):
        try:
            frames = read(typed.decode_lines, lines)
        except msgspec.DecodeError:
            for line in lines.split(b"\n"):
                if line:
                    yield _read_leniently(line, type_, about)
            continue
        for frame in frames:
            obj = frame.object
            if frame.type is Change.BOOKMARK:
                yield WatchEvent(Change.BOOKMARK, "", obj.metadata.resourceVersion)
            else:
                yield WatchEvent(frame.type, key_of(obj), obj.metadata.resourceVersion, obj)


def _read_leniently(line: bytes, type_: type[T], about: str) -> WatchEvent[T]:
    """Read any frame: an error, a bookmark, an object that does not fit its type."""
    try:
        frame = read(_frame_decoder.decode, line)
        if frame.type == "ERROR":
            raise from_status(about, msgspec.json.decode(frame.object, type=Status))
        change = Change(frame.type)
        if change is Change.BOOKMARK:
            version = _head_decoder.decode(frame.object).metadata.resourceVersion
            return WatchEvent(change, "", version)
        one = read_one(frame.object, type_)
    except (msgspec.DecodeError, ValueError) as exc:
        raise WatchClosedError(f"{about}: not a watch frame: {exc}") from exc
    return WatchEvent(change, one.key, one.resource_version, one.object, one.problem)


def read_one(raw: msgspec.Raw, type_: type[T]) -> ReadObject[T]:
    """Read one object as its type; if it does not fit, as much of it as has a name.

    Raises:
        msgspec.DecodeError: not even a name can be read.
    """
    try:
        obj = read(decoder(type_).decode, bytes(raw))
    except msgspec.DecodeError as exc:
        meta = read(_head_decoder.decode, bytes(raw)).metadata
        return ReadObject(join_key(meta.namespace, meta.name), meta.resourceVersion, None, str(exc))
    return ReadObject(key_of(obj), obj.metadata.resourceVersion, obj, "")


async def _lines(chunks: AsyncIterator[bytes], about: str) -> AsyncIterator[bytes]:
    """Whole lines, as many as have come; a last one without a line end was cut off: dropped."""
    pending, size = list[bytes](), 0
    async for chunk in chunks:
        lines, end, rest = chunk.rpartition(b"\n")
        if end:
            yield b"".join((*pending, lines))
            pending, size = [], 0
        if rest:
            pending.append(rest)
            size += len(rest)
            if size > _MAX_LINE_BYTES:
                raise WatchClosedError(f"{about}: a line of over {_MAX_LINE_BYTES} bytes")
