"""JSON of unknown shape: what is missing or of another type reads as nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar, cast

from hypercobalt.apiserver.errors import JSON, JSONObject

T = TypeVar("T")


def at(value: JSON, *path: str) -> JSON:
    """The value below `path`; None when any step is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_at(value: JSON, *path: str) -> str:
    """The text below `path`; empty when there is none."""
    text = at(value, *path)
    return text if isinstance(text, str) else ""


def object_at(value: JSON, *path: str) -> JSONObject:
    """The object below `path` itself, not a copy; a new empty one when there is none."""
    obj = at(value, *path)
    return obj if isinstance(obj, dict) else {}


def list_at(value: JSON, *path: str) -> list[JSON]:
    """The list below `path` itself, not a copy; a new empty one when there is none."""
    items = at(value, *path)
    return items if isinstance(items, list) else []


def objects_at(value: JSON, *path: str) -> list[JSONObject]:
    """The objects in the list below `path`, passing over what is none."""
    return [item for item in list_at(value, *path) if isinstance(item, dict)]


def texts_at(value: JSON, *path: str) -> list[str]:
    """The list below `path` as texts; a new one."""
    return [str(item) for item in list_at(value, *path)]


def metadata(obj: JSONObject) -> JSONObject:
    """The object's metadata, made when missing."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


def stamp_of(moment: datetime) -> str:
    """A time in UTC as objects hold it: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def clone(value: T) -> T:
    """A copy of a JSON value, in a fifth of the time of copy.deepcopy."""
    return cast("T", _cloned(cast("JSON", value)))


def _cloned(value: JSON) -> JSON:
    held = (dict, list)
    if isinstance(value, dict):
        return {n: _cloned(v) if isinstance(v, held) else v for n, v in value.items()}
    return [_cloned(item) for item in value] if isinstance(value, list) else value


def same(a: object, b: object) -> bool:
    """Whether two JSON values are equal; unlike for Python, true is not 1 and 1 is not 1.0."""
    return a == b and _same_types(cast("JSON", a), cast("JSON", b))


def _same_types(a: JSON, b: JSON) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_same_types(item, b[name]) for name, item in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return all(map(_same_types, a, b))
    return type(a) is type(b)
