"""Objects and events of the store, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from hypercobalt.errors import HypercobaltError

Place = tuple[str, str]  # namespace, name
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class StoreError(HypercobaltError):
    """The data directory cannot be used, or a write could not be made durable."""


class OutOfSpaceError(StoreError):
    """The disk is full: the write was not taken; everything stored before is still there."""


class WriterEndedError(StoreError):
    """The thread that writes has ended by a fault: nothing is written until a restart."""


class DamagedError(StoreError):
    """An object is not as it was written: the file changed under it."""

    def __init__(self, key: Key) -> None:
        place = f"{key.namespace}/{key.name}" if key.namespace else key.name
        super().__init__(
            f"{key.resource} {place} is damaged in the database: its checksum is wrong. Delete it "
            "and create it again, or restore a backup with `cobalt apiserver restore`"
        )


class CompactedError(StoreError):
    """The requested revision is older than the history that is kept."""


class Key(NamedTuple):
    resource: str  # plural.group, or the bare plural for the core group
    namespace: str  # "" for cluster-scoped objects
    name: str

    @property
    def place(self) -> Place:
        return self.namespace, self.name


class Stored(NamedTuple):
    revision: int
    data: bytes  # the object as JSON, with its resourceVersion in it


@dataclass(frozen=True, slots=True)
class Event:
    revision: int
    type: EventType
    key: Key
    data: bytes  # after the write; for DELETED the last state, at the deletion's revision
    previous: bytes | None  # before the write; None for ADDED


def by_key(place: Place) -> str:
    """The order of objects in lists: that of etcd's keys."""
    return f"{place[0]}/{place[1]}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Contents of a file when it is opened.

    Args:
        compacted: the horizon.
        revision: the newest one ever given.
        objects: in the order of lists.
        events: by revision; none where any of them, or an object, is damaged.
        damaged: what is not served, and the rows that hold it.
    """

    compacted: int
    revision: int
    objects: list[tuple[Key, Stored]]
    events: list[Event]
    damaged: dict[Key, int]
