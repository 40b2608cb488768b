"""Members of JSON objects of a known shape: read, and made where they are missing."""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.vmi.review import Json, JsonObject


def member(obj: JsonObject, name: str) -> JsonObject:
    """The member of that name, an object, which is added if it is missing."""
    found = obj.get(name)
    if isinstance(found, dict):
        return found
    made: JsonObject = {}
    obj[name] = made
    return made


def given(obj: JsonObject, *names: str) -> JsonObject | None:
    """The object below, by one name after the other; None if one of them is missing."""
    found: Json = obj
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def objects(obj: JsonObject, name: str) -> Iterator[JsonObject]:
    """The items of the list of that name that are objects."""
    found = obj.get(name)
    if isinstance(found, list):
        yield from (item for item in found if isinstance(item, dict))


def default(obj: JsonObject, name: str, value: Json) -> None:
    """Set a member that is missing, or empty."""
    if not obj.get(name):
        obj[name] = value


def names(obj: JsonObject, name: str) -> set[str]:
    """The names of the items of a list."""
    found = (item.get("name") for item in objects(obj, name))
    return {item for item in found if isinstance(item, str)}
