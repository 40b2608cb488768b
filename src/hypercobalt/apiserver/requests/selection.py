"""Which objects of a kind a call selects: by namespace, name, labels and fields."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.requests.selectors import (
    FieldTerm,
    LabelSelector,
    parse_fields,
    parse_labels,
)
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.values import at

_FALSE_WHEN_ABSENT = ("spec.unschedulable", "spec.hostNetwork")


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labelled = msgspec.json.Decoder(_Labelled)


@dataclass(frozen=True, slots=True)
class Selection:
    """Some objects of one collection."""

    resource: str  # as the store names it
    namespace: str | None = None
    name: str | None = None
    labels: LabelSelector = field(default_factory=LabelSelector)
    fields: tuple[FieldTerm, ...] = ()  # beyond equality with one name

    @property
    def selective(self) -> bool:
        """Whether it depends on more than the key."""
        return bool(self.labels.terms or self.fields)

    def wants(self, key: Key) -> bool:
        """Whether an object may be one of these, as far as its key shows."""
        return (
            key.resource == self.resource
            and self.namespace in (None, key.namespace)
            and self.name in (None, key.name)
        )

    def matches(self, key: Key, data: bytes) -> bool:
        """Whether an object that is wanted has the labels and fields."""
        return not self.selective or self.accepts(View(key, data))

    def accepts(self, view: View) -> bool:
        """Whether an object has the labels and fields, by a view that others may share."""
        if self.labels.terms and not self.labels.matches(view.labels):
            return False
        return all(term.matches(view.field) for term in self.fields)


class View:
    """An object as selectors see it: decoded once, however many of them read it."""

    def __init__(self, key: Key, data: bytes) -> None:
        self._data = data
        self._fields = {"metadata.name": key.name, "metadata.namespace": key.namespace}

    @functools.cached_property
    def labels(self) -> dict[str, str]:
        return _labelled.decode(self._data).metadata.labels or {}

    @functools.cached_property
    def _object(self) -> JSONObject:
        found: JSONObject = msgspec.json.decode(self._data)
        return found

    def field(self, path: str) -> str:
        if path not in self._fields:
            self._fields[path] = field_text(self._object, path)
        return self._fields[path]


def field_text(obj: JSONObject, path: str) -> str:
    """A field as field selectors compare it; absent is empty."""
    if path == "source":  # of an Event: its component
        path = "source.component" if obj.get("source") else "reportingComponent"
    value = at(obj, *path.split("."))
    if value is None:
        return "false" if path in _FALSE_WHEN_ABSENT else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def select(call: Call) -> Selection:
    """The selection by the URL and its selectors.

    Raises:
        StatusError: 400 for a selector that does not parse, or a field that is not selectable.
    """
    labels = parse_labels(call.request.text("labelSelector"))
    name = call.name or None
    rest: list[FieldTerm] = []
    selectable = call.resource.selectable
    for term in parse_fields(call.request.text("fieldSelector")):
        if term.field not in ("metadata.name", "metadata.namespace", *selectable):
            text = f"field label not supported: {term.field}"
            if not call.resource.custom and not selectable:
                known = 'only "metadata.name", "metadata.namespace"'
                text = f'"{term.field}" is not a known field selector: {known}'
            raise errors.bad_request(text)
        if term.field == "metadata.name" and term.equal and name is None:
            name = term.value
        else:
            rest.append(term)
    return Selection(call.resource.stored, call.namespace or None, name, labels, tuple(rest))
